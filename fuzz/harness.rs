//! Throws noise and spoiled input at one target, and looks for a panic, a long time, much memory.
//!
//! A source file that the tests of several crates include: their targets are private, and no crate
//! is for things in common. What is in `fuzz/corpus/NAME` is fed first, in every test run; then come
//! seeded changes of it. An input whose outcome nobody has seen yet is kept and changed further, so
//! that the search goes where the target does something new.
//!
//! `cargo xtask fuzz-all` runs all targets for as long as you like. A failure leaves its input in the
//! corpus, where every test run from then on will try it.

#![allow(dead_code, unreachable_pub, reason = "not every target needs all of it")]
#![allow(clippy::expect_used, clippy::print_stdout, reason = "this is a test")]

use std::{
    collections::BTreeSet,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    panic::{self, AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The longest that one input may take: on a processor if it is alone, otherwise altogether.
const INPUT_TIME_MAX: Duration = Duration::from_secs(1);

/// The longest that an input which is alone may wait for anything but a processor.
const INPUT_WAIT_MAX: Duration = Duration::from_secs(5);

/// For each second on a processor, a machine with more to do lets a target wait no longer than this.
/// Twice what it is where a target has a tenth of a processor.
const BUSY_MAX: u32 = 20;

/// An input is slow only if it is slow so many times: a machine may stand still for once.
const SLOW_TRIES: usize = 5;

/// After so long nobody believes any more that an input has an end: its process ends instead, and that is
/// a finding. On a machine that is not busy, or busy with no more than eight targets.
const HUNG_AFTER: Duration = Duration::from_secs(240);

/// What one input may add to the most memory that was ever in use.
const INPUT_MEMORY_MAX: u64 = 64 << 20;

/// The longest input that is made.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// How many inputs are kept for their outcome.
const KEPT_MAX: usize = 4_000;

/// How many changed inputs an ordinary test run tries.
const INPUTS: u64 = 1_000;

/// SplitMix64: the same seed gives the same inputs.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn noise(&mut self, max: usize) -> Vec<u8> {
        let n = self.below(max);
        (0..n).map(|_| self.next() as u8).collect()
    }

    /// Changes a few places of something that was right.
    pub fn spoil(&mut self, bytes: &mut Vec<u8>, words: &[&[u8]]) {
        for _ in 0..1 + self.below(6) {
            let at = self.below(bytes.len() + 1);
            match self.below(10) {
                0 => bytes.truncate(at),
                1 => {
                    let to = at + self.below(bytes.len() - at + 1);
                    let piece = bytes[at..to].to_vec();
                    let into = self.below(bytes.len() + 1);
                    bytes.splice(into..into, piece);
                }
                2 => {
                    let to = (at + 1 + self.below(8)).min(bytes.len());
                    bytes.drain(at..to);
                }
                3 => bytes.insert(at, self.next() as u8),
                4 => {
                    let edge = EDGES[self.below(EDGES.len())];
                    let to = (at + edge.len()).min(bytes.len());
                    bytes.splice(at..to, edge.iter().copied());
                }
                5 if !words.is_empty() => {
                    let word = words[self.below(words.len())];
                    bytes.splice(at..at, word.iter().copied());
                }
                6 if at < bytes.len() => bytes[at] = self.next() as u8,
                7 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1),
                _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
        bytes.truncate(INPUT_BYTES_MAX);
    }
}

/// Writes a frame's length anew: four bytes at its front, for all that is behind them.
pub fn measure(frame: &mut [u8]) {
    let len = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&len.to_be_bytes());
}

/// Spoils a frame in one of three ways in which any frame is wrong; says which.
pub fn break_frame(rng: &mut Rng, frame: &mut Vec<u8>, way: usize) -> &'static str {
    match way % 3 {
        0 => {
            frame.truncate(rng.below(frame.len()));
            "cut"
        }
        1 => {
            frame[..4].copy_from_slice(&(u32::MAX - rng.below(1 << 30) as u32).to_be_bytes());
            "too long"
        }
        _ => {
            frame.splice(4..5, [0xff; 11]);
            measure(frame);
            "a number without end"
        }
    }
}

/// Numbers at which lengths and counts go wrong, in the forms in which they are written.
const EDGES: &[&[u8]] = &[
    &[0],
    &[0x7f],
    &[0x80, 0x01],
    &[0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0x80, 0, 0, 0],
    &[0, 0, 0, 0x80],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff; 8],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
];

/// A target: its name, what is right, and words that mean something to it.
pub struct Target<'a> {
    /// The name of its corpus.
    pub name: &'a str,
    /// Inputs that are right; `UPDATE=1` writes them to the corpus.
    pub seeds: Vec<Vec<u8>>,
    /// Put in whole now and then.
    pub words: &'a [&'a str],
}

impl Target<'_> {
    /// Feeds the corpus and its changes. `feed` says in a few words what became of an input (numbers do
    /// not count as words; what matters of them is said by a row of signs); a panic is a finding.
    pub fn run(&self, feed: impl Fn(&[u8]) -> String) {
        if std::env::var("FUZZ_ONLY").is_ok_and(|only| only != self.name) {
            return;
        }
        let corpus = self.corpus();
        if std::env::var("UPDATE").is_ok_and(|it| it == "1") {
            self.write_seeds(&corpus);
        }
        let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
        let time = number("FUZZ_SECONDS").map(Duration::from_secs);
        let is_alone = time.is_some();
        if is_alone {
            count_panics_elsewhere();
        }
        let (outcomes, slowest) = (BTreeSet::new(), Duration::ZERO);
        let hourglass = Hourglass::start(&corpus);
        let mut search = Search { feed, outcomes, corpus, slowest, is_alone, hourglass };
        let mut pool = self.seeds.clone();
        let stored = stored(&search.corpus);
        assert!(!stored.is_empty(), "{}: no corpus; UPDATE=1 writes one", self.name);
        pool.extend(stored);
        for input in pool.clone() {
            search.feed(&input);
        }
        let first = number("FUZZ_SEED").unwrap_or(1);
        let words: Vec<&[u8]> = self.words.iter().map(|it| it.as_bytes()).collect();
        let (begun, mut seed) = (Instant::now(), first);
        while time.map_or(seed < first + INPUTS, |time| begun.elapsed() < time) {
            let mut rng = Rng(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
            let input = make(&mut rng, &pool, &words);
            if search.feed(&input) && pool.len() < KEPT_MAX {
                pool.push(input);
            }
            seed += 1;
        }
        println!(
            "FUZZ\t{}\t{} inputs\t{} s\t{} outcomes\tslowest {:?}",
            self.name,
            seed - first,
            begun.elapsed().as_secs(),
            search.outcomes.len(),
            search.slowest
        );
    }

    fn corpus(&self) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        root.join(self.name)
    }

    fn write_seeds(&self, corpus: &Path) {
        fs::create_dir_all(corpus).expect("the corpus");
        for (n, seed) in self.seeds.iter().enumerate() {
            fs::write(corpus.join(format!("seed-{n:02}")), seed).expect("the corpus");
        }
    }
}

fn stored(corpus: &Path) -> Vec<Vec<u8>> {
    let Ok(files) = fs::read_dir(corpus) else { return Vec::new() };
    let mut paths: Vec<_> = files.flatten().map(|it| it.path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("an input")).collect()
}

fn make(rng: &mut Rng, pool: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
    if rng.below(20) == 0 {
        return rng.noise(512);
    }
    let mut input = pool[rng.below(pool.len())].clone();
    if rng.below(8) == 0 {
        let other = &pool[rng.below(pool.len())];
        let (to, from) = (rng.below(input.len() + 1), rng.below(other.len() + 1));
        input.truncate(to);
        input.extend_from_slice(&other[from..]);
    }
    rng.spoil(&mut input, words);
    input
}

struct Search<F> {
    feed: F,
    outcomes: BTreeSet<u64>,
    corpus: PathBuf,
    slowest: Duration,
    /// Whether nothing else runs in this process, so that memory can be laid at somebody's door.
    is_alone: bool,
    hourglass: Arc<Hourglass>,
}

impl<F: Fn(&[u8]) -> String> Search<F> {
    /// Feeds one input; says whether its outcome is new.
    fn feed(&mut self, input: &[u8]) -> bool {
        let before = if self.is_alone { memory_peak() } else { 0 };
        let n_panics = PANICS_ELSEWHERE.load(Ordering::Relaxed);
        let begun = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.hourglass.watch(input, &self.feed)));
        let took = begun.elapsed();
        let grown = if self.is_alone { memory_peak().saturating_sub(before) } else { 0 };
        self.slowest = self.slowest.max(took);
        let wrong = match &outcome {
            Err(_) => Some("panics".to_owned()),
            // Whoever serves goes on when one of its tasks has panicked.
            Ok(_) if PANICS_ELSEWHERE.load(Ordering::Relaxed) > n_panics => {
                Some("makes another thread panic, or the one before it did".to_owned())
            }
            // One that waited for its neighbours is given more chances.
            Ok(_) if took > INPUT_TIME_MAX && self.is_slow(input) => {
                Some(format!("takes {took:?}"))
            }
            Ok(_) if grown > INPUT_MEMORY_MAX && self.is_alone => {
                Some(format!("takes {grown} bytes"))
            }
            Ok(_) => None,
        };
        if let Some(wrong) = wrong {
            let kept = keep(&self.corpus, input);
            panic!("an input of {} bytes {wrong}: {kept}", input.len());
        }
        let mut hasher = DefaultHasher::new();
        plain(&outcome.unwrap_or_default()).hash(&mut hasher);
        self.outcomes.insert(hasher.finish())
    }

    /// Feeds it again, until it is as fast as it has to be.
    fn is_slow(&self, input: &[u8]) -> bool {
        is_always_slow(self.is_alone, || {
            let (begun, used_before) = (Instant::now(), time_used());
            drop(self.hourglass.watch(input, &self.feed));
            Took { all: begun.elapsed(), used: time_used().saturating_sub(used_before) }
        })
    }
}

/// Leaves an input in the corpus, and says where.
fn keep(corpus: &Path, input: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = corpus.join(format!("found-{:016x}", hasher.finish()));
    match fs::write(&path, input) {
        Ok(()) => path.display().to_string(),
        Err(_) => format!("{input:?}"),
    }
}

/// How many panics there were on threads that do not feed.
static PANICS_ELSEWHERE: AtomicU64 = AtomicU64::new(0);

/// Counts them from now on; this thread feeds.
fn count_panics_elsewhere() {
    let (feeds, said) = (thread::current().id(), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() != feeds {
            PANICS_ELSEWHERE.fetch_add(1, Ordering::Relaxed);
        }
        said(info);
    }));
}

/// Ends the process if an input has no end: otherwise the search would wait for it for ever.
struct Hourglass(Mutex<Option<(Instant, Vec<u8>)>>);

impl Hourglass {
    fn start(corpus: &Path) -> Arc<Hourglass> {
        let hourglass = Arc::new(Hourglass(Mutex::default()));
        let (watched, corpus) = (Arc::downgrade(&hourglass), corpus.to_owned());
        thread::spawn(move || {
            while let Some(hourglass) = watched.upgrade() {
                if let Some(input) = hourglass.hung(Instant::now()) {
                    let kept = keep(&corpus, &input);
                    eprintln!("an input of {} bytes has no end: {kept}", input.len());
                    process::abort();
                }
                drop(hourglass);
                thread::sleep(Duration::from_secs(1));
            }
        });
        hourglass
    }

    /// Feeds an input, and remembers which as long as that takes.
    fn watch(&self, input: &[u8], feed: &impl Fn(&[u8]) -> String) -> String {
        *self.fed() = Some((Instant::now(), input.to_vec()));
        let outcome = feed(input);
        *self.fed() = None;
        outcome
    }

    /// The input that has been fed for too long.
    fn hung(&self, now: Instant) -> Option<Vec<u8>> {
        let fed = self.fed();
        let (since, input) = fed.as_ref()?;
        (now.saturating_duration_since(*since) > HUNG_AFTER).then(|| input.clone())
    }

    fn fed(&self) -> MutexGuard<'_, Option<(Instant, Vec<u8>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What it took to feed an input.
#[derive(Clone, Copy)]
struct Took {
    all: Duration,
    /// On a processor.
    used: Duration,
}

impl Took {
    /// Where many targets run at once, most of the time goes to the others: what counts is the time
    /// on a processor, and what it waited beyond all that such a machine can be blamed for.
    fn is_slow(self, is_alone: bool) -> bool {
        let waited = self.all.saturating_sub(self.used * BUSY_MAX);
        match is_alone {
            true => self.used > INPUT_TIME_MAX || waited > INPUT_WAIT_MAX,
            false => self.all > INPUT_TIME_MAX,
        }
    }
}

fn is_always_slow(is_alone: bool, mut again: impl FnMut() -> Took) -> bool {
    (0..SLOW_TRIES).all(|_| again().is_slow(is_alone))
}

/// An outcome without its numbers and names, of which there is no end.
fn plain(outcome: &str) -> String {
    let mut plain = String::new();
    let mut quoted = false;
    for it in outcome.chars().take(400) {
        if matches!(it, '"' | '`' | '\'') {
            quoted = !quoted;
        }
        if !quoted && !it.is_ascii_digit() {
            plain.push(it);
        }
    }
    plain
}

/// The processor time that this process has had; the kernel counts in hundredths of a second.
fn time_used() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is a name in parentheses, and may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// The most memory that this process ever had in use, in bytes.
fn memory_peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
    peak.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(is_alone: bool, took_ms: &[(u64, u64)]) -> bool {
        let mut tries = took_ms.iter().cycle();
        is_always_slow(is_alone, || {
            let (all, used) = *tries.next().expect("a try");
            Took { all: Duration::from_millis(all), used: Duration::from_millis(used) }
        })
    }

    #[test]
    fn what_computes_or_waits_for_long_is_slow_and_what_lacks_a_processor_is_not() {
        assert!(is_found(true, &[(1_100, 1_100)]), "it computes");
        assert!(is_found(true, &[(5_100, 0)]), "it waits");
        assert!(is_found(true, &[(8_000, 100)]), "it computes a little, and waits");
        assert!(!is_found(true, &[(4_900, 0)]));
        assert!(!is_found(true, &[(10_000, 1_000)]), "it has a tenth of a processor");
        assert!(!is_found(true, &[(60_000, 0), (60_000, 0), (2, 0)]), "the machine stood still");
        assert!(is_found(false, &[(1_100, 0)]) && !is_found(false, &[(1_100, 0), (900, 0)]));
    }

    #[test]
    fn an_input_without_an_end_is_known_while_it_is_fed() {
        let hourglass = Hourglass(Mutex::default());
        let late = Instant::now() + HUNG_AFTER + Duration::from_secs(60);
        assert_eq!(hourglass.hung(late), None);
        hourglass.watch(b"x", &|input: &[u8]| {
            assert_eq!(hourglass.hung(Instant::now()), None);
            assert_eq!(hourglass.hung(late).as_deref(), Some(input));
            String::new()
        });
        assert_eq!(hourglass.hung(late), None);
    }
}
