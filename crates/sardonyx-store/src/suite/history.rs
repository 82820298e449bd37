//! Histories of what many clients asked at once, under reconnects, and whether one order explains
//! them: cells, conditional writes, the origin ([`judge`]), and the log, whose order is known.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use sardonyx_core::Position;

use super::{
    Arena,
    linear::{Object, Operation, Verdict, judge},
    soon,
};
use crate::{
    Backend, Committed, Condition, Read, Result, Store, Token, Txn, Version, Write, token::lock,
};

/// A cell: the first value stays.
#[derive(Clone, Debug)]
enum Cell {}

impl Object for Cell {
    type State = Option<Bytes>;
    /// The value to fill it with; `None` to read it.
    type Ask = Option<Bytes>;
    type Answer = Option<Bytes>;

    fn step(
        state: &Option<Bytes>,
        ask: &Option<Bytes>,
        answer: Option<&Option<Bytes>>,
    ) -> Option<Option<Bytes>> {
        let next = state.clone().or_else(|| ask.clone());
        answer.is_none_or(|answer| *answer == next).then_some(next)
    }
}

/// The origin: the later position stays.
#[derive(Clone, Debug)]
enum Origins {}

#[derive(Clone, PartialEq, Debug)]
enum OriginAnswer {
    Is(Option<(Position, Bytes)>),
    Set(bool),
}

impl Object for Origins {
    type State = Option<(Position, Bytes)>;
    type Ask = Option<(Position, Bytes)>;
    type Answer = OriginAnswer;

    fn step(
        state: &Self::State,
        ask: &Self::Ask,
        answer: Option<&OriginAnswer>,
    ) -> Option<Self::State> {
        let Some(ask) = ask else {
            let says = OriginAnswer::Is(state.clone());
            return answer.is_none_or(|answer| *answer == says).then(|| state.clone());
        };
        let held = state.as_ref().filter(|held| held.0 >= ask.0);
        let next = held.unwrap_or(ask).clone();
        let says = OriginAnswer::Set(next.0 == ask.0);
        answer.is_none_or(|answer| *answer == says).then_some(Some(next))
    }
}

/// Two keys that are written together, if they are as expected.
#[derive(Clone, Debug)]
enum Pair {}

/// What is under a key. The version is unknown after a write whose answer was lost, until somebody
/// reads it.
type Held = Option<(Bytes, Option<Version>)>;

#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
struct PairState {
    held: [Held; 2],
    /// No later write has a version up to this.
    passed: [Version; 2],
}

#[derive(Clone, PartialEq, Debug)]
enum PairAsk {
    Read,
    /// What must be so of each key, and the values to write; `None` deletes.
    Commit {
        when: [Option<Expected>; 2],
        then: [Option<Option<Bytes>>; 2],
    },
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Expected {
    Absent,
    Is(Version),
}

#[derive(Clone, PartialEq, Debug)]
enum PairAnswer {
    Read([Option<(Bytes, Version)>; 2]),
    Done([Option<Version>; 2]),
    Refused,
}

impl PairState {
    /// The state with the version of a key found out, if that can be.
    fn known(mut self, key: usize, version: Version) -> Option<PairState> {
        let (_, held) = self.held[key].as_mut()?;
        match held {
            Some(held) if *held != version => return None,
            None if version <= self.passed[key] => return None,
            Some(_) | None => *held = Some(version),
        }
        self.passed[key] = self.passed[key].max(version);
        Some(self)
    }

    fn read(&self, found: &[Option<(Bytes, Version)>; 2]) -> Option<PairState> {
        let mut state = self.clone();
        for (key, found) in found.iter().enumerate() {
            match (found, &state.held[key]) {
                (None, None) => {}
                (Some((value, version)), Some((held, _))) if value == held => {
                    state = state.known(key, *version)?;
                }
                (None, Some(_)) | (Some(_), None | Some(_)) => return None,
            }
        }
        Some(state)
    }

    /// The state if a condition holds, which may tell the version of a key.
    fn meets(self, key: usize, expected: Option<Expected>) -> Option<PairState> {
        match expected {
            None => Some(self),
            Some(Expected::Absent) => self.held[key].is_none().then_some(self),
            Some(Expected::Is(version)) => self.known(key, version),
        }
    }

    /// Whether a condition cannot but hold.
    fn must_meet(&self, key: usize, expected: Option<Expected>) -> bool {
        match (expected, &self.held[key]) {
            (None, _) | (Some(Expected::Absent), None) => true,
            (Some(Expected::Is(version)), Some((_, held))) => *held == Some(version),
            (Some(Expected::Absent), Some(_)) | (Some(Expected::Is(_)), None) => false,
        }
    }

    fn write(
        mut self,
        then: &[Option<Option<Bytes>>; 2],
        versions: Option<&[Option<Version>; 2]>,
    ) -> Option<PairState> {
        for (key, write) in then.iter().enumerate() {
            let Some(write) = write else { continue };
            let version = versions.and_then(|versions| versions[key]);
            self.held[key] = write.clone().map(|value| (value, None));
            if let (Some(_), Some(version)) = (write, version) {
                self = self.known(key, version)?;
            }
        }
        Some(self)
    }
}

impl Object for Pair {
    type State = PairState;
    type Ask = PairAsk;
    type Answer = PairAnswer;

    fn step(state: &PairState, ask: &PairAsk, answer: Option<&PairAnswer>) -> Option<PairState> {
        let (when, then) = match (ask, answer) {
            (PairAsk::Read, Some(PairAnswer::Read(found))) => return state.read(found),
            (PairAsk::Read, _) => return answer.is_none().then(|| state.clone()),
            (PairAsk::Commit { when, then }, _) => (when, then),
        };
        let met = || state.clone().meets(0, when[0])?.meets(1, when[1]);
        match answer {
            Some(PairAnswer::Done(versions)) => met()?.write(then, Some(versions)),
            Some(PairAnswer::Refused) => {
                let must = (0..2).all(|key| state.must_meet(key, when[key]));
                (!must).then(|| state.clone())
            }
            Some(PairAnswer::Read(_)) => None,
            // If it was refused, it is as if it had never taken effect.
            None => met()?.write(then, None),
        }
    }
}

/// A clock that all clients share: it only says what came before what.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Clock {
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// What was asked of one object.
type History<O> = Mutex<Vec<Operation<O>>>;

/// Everything that the clients share.
#[derive(Default)]
struct Lab {
    clock: Clock,
    is_calm: AtomicBool,
    n_answers: AtomicU64,
    cells: [History<Cell>; N_CELLS],
    pairs: [History<Pair>; N_PAIRS],
    origin: History<Origins>,
    log: Mutex<LogHistory>,
}

const N_CELLS: usize = 8;
const N_PAIRS: usize = 3;
const N_CLIENTS: u64 = 6;

/// Each client asks at least this often, and until the storm is over; but not so often that there
/// are more orders than can be tried.
const N_ASKS_MIN: u32 = 60;
const N_ASKS_MAX: u32 = 240;

/// How long a client waits for a store that does not answer before it looks again.
const PAUSE: Duration = Duration::from_millis(20);

impl Lab {
    /// Asks, and notes what was answered; a failed read says nothing and is left out.
    async fn note<O: Object>(
        &self,
        history: &History<O>,
        ask: O::Ask,
        changes: bool,
        answer: impl Future<Output = Result<O::Answer>>,
    ) {
        let called = self.clock.tick();
        let returned = answer.await.ok().map(|answer| (self.clock.tick(), answer));
        if returned.is_some() {
            self.n_answers.fetch_add(1, Ordering::Relaxed);
        }
        if changes || returned.is_some() {
            lock(history).push(Operation { called, returned, ask });
        }
    }

    /// One random question to something.
    async fn ask(&self, backend: &dyn Backend, random: &mut Random, tag: String) {
        let tag = Bytes::from(tag);
        match random.below(8) {
            0 | 1 => {
                let index = random.below(N_CELLS);
                let (name, history) = (format!("linear/{index}"), &self.cells[index]);
                if random.below(2) == 0 {
                    let fill = async { backend.fill_cell(&name, tag.clone()).await.map(Some) };
                    self.note(history, Some(tag.clone()), true, fill).await;
                } else {
                    self.note(history, None, false, backend.cell(&name)).await;
                }
            }
            2 => {
                if random.below(2) == 0 {
                    let position = Position(random.below(1000) as u64);
                    let set = backend.set_origin(position, tag.clone());
                    let set = async { set.await.map(OriginAnswer::Set) };
                    self.note(&self.origin, Some((position, tag.clone())), true, set).await;
                } else {
                    let read = async { backend.origin().await.map(OriginAnswer::Is) };
                    self.note(&self.origin, None, false, read).await;
                }
            }
            3 | 4 => self.append_or_look(backend, random, &tag).await,
            _ => self.ask_pair(backend, random, &tag).await,
        }
    }

    async fn ask_pair(&self, backend: &dyn Backend, random: &mut Random, tag: &Bytes) {
        let index = random.below(N_PAIRS);
        let (history, keys) = (&self.pairs[index], pair_keys(index));
        if random.below(2) == 0 {
            let read = async { Ok(PairAnswer::Read(read_pair(backend, index).await?)) };
            return self.note(history, PairAsk::Read, false, read).await;
        }
        // What a client expects is what it has just seen, so that it is sometimes right.
        let Ok(seen) = read_pair(backend, index).await else { return };
        let when = [0, 1].map(|key| match (random.below(4), &seen[key]) {
            (0, _) => None,
            (1, _) | (_, None) => Some(Expected::Absent),
            (_, Some((_, version))) => Some(Expected::Is(*version)),
        });
        let then = [0, 1].map(|key| match random.below(if key == 0 { 2 } else { 4 }) {
            0 => Some(Some(tag.clone())),
            1 => None,
            2 => Some(None),
            _ => Some(Some(tag.clone())),
        });
        let ask = PairAsk::Commit { when, then: then.clone() };
        let txn = pair_txn(&keys, when, &then);
        let commit = async {
            Ok(match backend.commit(&txn).await? {
                Committed::Refused => PairAnswer::Refused,
                Committed::Done(versions) => {
                    let mut versions = versions.into_iter();
                    let of = |write: &Option<Option<Bytes>>| {
                        let version = write.is_some().then(|| versions.next()).flatten();
                        version.filter(|version| *version != Version(0))
                    };
                    PairAnswer::Done(then.each_ref().map(of))
                }
            })
        };
        self.note(history, ask, true, commit).await;
    }

    /// An append, or a look at the end of the log.
    async fn append_or_look(&self, backend: &dyn Backend, random: &mut Random, tag: &Bytes) {
        let called = self.clock.tick();
        if random.below(3) == 0 {
            if let Ok(end) = backend.end().await {
                let returned = self.clock.tick();
                lock(&self.log).looks.push(Look { called, returned, end });
            }
            return;
        }
        let token = Token { writer: crate::token::random().unwrap_or(0), number: 1 };
        let mut entry = token.to_bytes().to_vec();
        entry.extend_from_slice(tag);
        let appended = backend.append(token, entry.clone().into()).await.ok();
        let returned = appended.map(|position| (self.clock.tick(), position));
        lock(&self.log).appends.insert(Bytes::from(entry), Append { called, returned });
    }
}

fn pair_keys(index: usize) -> [String; 2] {
    ["a", "b"].map(|key| format!("linear/{index}/{key}"))
}

async fn read_pair(backend: &dyn Backend, index: usize) -> Result<[Option<(Bytes, Version)>; 2]> {
    let items = backend.items(&format!("linear/{index}/")).await?;
    let item = |key: String| {
        let item = items.iter().find(|item| item.key == key)?;
        Some((item.value.clone(), item.version))
    };
    Ok(pair_keys(index).map(item))
}

fn pair_txn(
    keys: &[String; 2],
    when: [Option<Expected>; 2],
    then: &[Option<Option<Bytes>>; 2],
) -> Txn {
    let condition = |(key, expected): (&String, Option<Expected>)| match expected? {
        Expected::Absent => Some(Condition::Absent(key.clone())),
        Expected::Is(version) => Some(Condition::Is(key.clone(), version)),
    };
    let write = |(key, write): (&String, &Option<Option<Bytes>>)| match write.clone()? {
        Some(value) => Some(Write::Put(key.clone(), value)),
        None => Some(Write::Delete(key.clone())),
    };
    Txn {
        when: keys.iter().zip(when).filter_map(condition).collect(),
        then: keys.iter().zip(then).filter_map(write).collect(),
    }
}

/// The log's history. Its order is known in the end, so that nothing has to be searched for.
#[derive(Debug, Default)]
struct LogHistory {
    appends: BTreeMap<Bytes, Append>,
    looks: Vec<Look>,
}

#[derive(Clone, Copy, Debug)]
struct Append {
    called: u64,
    returned: Option<(u64, Position)>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    called: u64,
    returned: u64,
    end: Option<Position>,
}

impl LogHistory {
    /// What contradicts that each append took effect at one moment between its call and its
    /// return, given the log as it was in the end.
    fn faults(&self, log: &[(Position, Bytes)]) -> Vec<String> {
        let mut faults = Vec::new();
        let stored: BTreeMap<_, _> = log.iter().map(|(at, entry)| (entry, *at)).collect();
        if stored.len() != log.len() {
            faults.push("an entry that was sent once stands twice".to_owned());
        }
        // Since when each position was there for certain, and until when it certainly was not.
        let mut facts = Vec::new();
        for (entry, append) in &self.appends {
            let at = stored.get(entry).copied();
            match append.returned {
                Some((_, said)) if at != Some(said) => {
                    faults.push(format!("acknowledged at {said}, stands at {at:?}"));
                }
                Some((returned, said)) => facts.push((append.called, returned, said)),
                None => facts.extend(at.map(|at| (append.called, u64::MAX, at))),
            }
        }
        for (called, returned, at) in &facts {
            for (later, _, behind) in facts.iter().filter(|(called, ..)| called > returned) {
                if behind < at {
                    faults.push(format!("{behind} was asked for at {later}, when {at} was there"));
                }
            }
            for look in &self.looks {
                if look.called > *returned && look.end < Some(*at) {
                    faults.push(format!("{look:?} does not see {at}, there since {returned}"));
                }
                if look.returned < *called && look.end >= Some(*at) {
                    faults.push(format!("{look:?} sees {at}, asked for at {called}"));
                }
            }
        }
        for look in &self.looks {
            let later = self.looks.iter().filter(|later| later.called > look.returned);
            for later in later.filter(|later| later.end < look.end) {
                faults.push(format!("{later:?} sees less than {look:?}"));
            }
        }
        faults
    }
}

/// Numbers from a seed; the seed of a client is its number.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % n
    }
}

/// Six clients ask at random while the store is disturbed; afterwards one order must explain
/// everything that they were answered.
pub async fn one_order_explains_every_answer(arena: &Arena) {
    let lab = Arc::new(Lab::default());
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..N_CLIENTS {
        let (store, lab) = (arena.open().await, Arc::clone(&lab));
        clients.spawn(async move {
            let mut random = Random(client + 1);
            for n in 0..N_ASKS_MAX {
                if n >= N_ASKS_MIN && lab.is_calm.load(Ordering::Relaxed) {
                    break;
                }
                lab.ask(store.backend(), &mut random, format!("{client}-{n}")).await;
                // While nobody answers there is nothing to learn from asking more.
                let is_there = async {
                    while store.backend().cell("linear/any").await.is_err() {
                        tokio::time::sleep(PAUSE).await;
                    }
                };
                soon(is_there).await;
            }
        });
    }
    for round in 0..2 {
        let some_answers = async {
            while lab.n_answers.load(Ordering::Relaxed) < 80 * (u64::from(round) + 1) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        soon(some_answers).await;
        arena.disturb(round).await;
    }
    lab.is_calm.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let store = arena.open().await;
    let mut n = 0;
    for cell in &lab.cells {
        n += explain(cell);
    }
    for pair in &lab.pairs {
        n += explain(pair);
    }
    n += explain(&lab.origin);
    let log = whole_log(&store).await;
    let history = lock(&lab.log);
    let faults = history.faults(&log);
    assert!(faults.is_empty(), "{} faults in the log: {:#?}", faults.len(), &faults[..1]);
    let (n_appends, n_looks) = (history.appends.len(), history.looks.len());
    let lost = history.appends.values().filter(|it| it.returned.is_none()).count();
    eprintln!("{n} answers, {n_appends} appends ({lost} unanswered) and {n_looks} looks explained");
    assert!(n > 100 && n_appends > 20 && n_looks > 5, "too few to say anything");
}

/// Panics unless one order explains what was asked of an object; says how many questions.
fn explain<O: Object>(history: &History<O>) -> usize {
    let history = lock(history);
    match judge(&history) {
        Verdict::Linearizable => history.len(),
        Verdict::Not => {
            let mut asked: Vec<_> = history.iter().collect();
            asked.sort_by_key(|it| it.called);
            let line = |it: &&Operation<O>| format!("{} {:?} {:?}", it.called, it.ask, it.returned);
            let lines: Vec<_> = asked.iter().map(line).collect();
            panic!("no order explains this:\n{}", lines.join("\n"));
        }
        Verdict::Void => panic!("{} questions have too many orders", history.len()),
    }
}

async fn whole_log(store: &Store) -> Vec<(Position, Bytes)> {
    let last = store.append_bytes(b"last").await.expect("an append");
    let mut tail = store.backend().tail(None);
    let mut log = Vec::new();
    loop {
        let Ok(Read::Entries(entries)) = soon(tail.next()).await else { panic!("no entries") };
        log.extend(entries.into_iter().map(|raw| (raw.position, raw.bytes)));
        if log.last().is_some_and(|(position, _)| *position >= last) {
            return log;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &'static str) -> Bytes {
        Bytes::from_static(name.as_bytes())
    }

    fn append(called: u64, returned: u64, at: u64) -> Append {
        Append { called, returned: Some((returned, Position(at))) }
    }

    #[test]
    fn a_log_that_contradicts_its_clients_is_noticed() {
        let log = [(Position(1), entry("a")), (Position(2), entry("b"))];
        let good = LogHistory {
            appends: [(entry("a"), append(0, 1, 1)), (entry("b"), append(2, 3, 2))].into(),
            looks: vec![Look { called: 4, returned: 5, end: Some(Position(2)) }],
        };
        assert_eq!(good.faults(&log), Vec::<String>::new());
        let swapped = LogHistory {
            appends: [(entry("a"), append(2, 3, 1)), (entry("b"), append(0, 1, 2))].into(),
            looks: vec![],
        };
        assert!(!swapped.faults(&log).is_empty(), "b was there before a was asked for");
        let lost = LogHistory { appends: [(entry("c"), append(0, 1, 3))].into(), looks: vec![] };
        assert!(!lost.faults(&log).is_empty(), "c was acknowledged");
        let blind = Look { called: 2, returned: 3, end: None };
        let stale =
            LogHistory { appends: [(entry("a"), append(0, 1, 1))].into(), looks: vec![blind] };
        assert!(!stale.faults(&log).is_empty(), "a was there");
    }

    #[test]
    fn half_a_transaction_is_noticed() {
        let both = [Some(Some(entry("x"))), Some(Some(entry("x")))];
        let done = PairAnswer::Done([Some(Version(5)), Some(Version(5))]);
        let commit = Operation::<Pair> {
            called: 0,
            returned: Some((1, done)),
            ask: PairAsk::Commit { when: [None, None], then: both },
        };
        let read = |found| Operation::<Pair> {
            called: 2,
            returned: Some((3, PairAnswer::Read(found))),
            ask: PairAsk::Read,
        };
        let x = || Some((entry("x"), Version(5)));
        assert_eq!(judge(&[commit.clone(), read([x(), x()])]), Verdict::Linearizable);
        assert_eq!(judge(&[commit.clone(), read([x(), None])]), Verdict::Not);
        let old = Some((entry("x"), Version(4)));
        assert_eq!(judge(&[commit, read([x(), old])]), Verdict::Not);
    }
}
