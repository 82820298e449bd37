//! One generator for all threads of a process.
//!
//! The [`Generator`] sits behind a lock and hands out blocks; the block in use is two words that
//! every thread can take from without the lock or the clock. A block lies within one millisecond,
//! so its ids are neighbouring numbers and the words are ids.
//!
//! ```text
//!   take:    l = last; t = next++; if t <= l, of the same millisecond and worker, t is ours
//!   refill:  (locked) next = first of the new block; then last = its last
//! ```
//!
//! Why that is safe. `last` is read before `next` is raised, and `next` is set before `last`. So
//! `t` comes from the block of `l` or from a later one. From the same block: `next` never gives a
//! number twice. From a later one: its millisecond or its worker differs, or it begins behind `l`;
//! all are refused. Loom runs this in every order (`tests/loom.rs`).
//!
//! While one thread draws alone it holds the block instead, and no word is raised; see `held.rs`.

use std::sync::Arc;

use crate::{
    generator::{Generator, Refusal, Run, Slack},
    held::{self, NOBODY, REFILLS_MIN, SHARED_FOR},
    layout::{Id, Layout, Millis},
    sync::{AtomicU64, Mutex, Ordering, lock},
};

/// Tells the time. It should not step; uniqueness does not depend on that.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970.
    fn now(&self) -> Millis;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Millis {
        (**self).now()
    }
}

/// How many ids are taken from the generator at once, at most. A caller that comes once in a while
/// gets one, with the present time; a caller in a hurry gets twice as many each time.
pub const BLOCK_IDS_MAX: u64 = 512;

/// The same for a thread's own block. More, since threads meet at the lock with every block and
/// sleep there; half of what a worker makes in a millisecond, so that two threads in a hurry get
/// on in every one.
pub const LOCAL_IDS_MAX: u64 = 2048;

/// How many ids one request for a range gets, at most: no worker makes more in a quarter of a
/// second.
pub const RANGE_IDS_MAX: u64 = 1 << 20;

/// Apart from its neighbours in memory, so that who writes here disturbs nobody who reads there.
#[repr(align(128))]
struct Apart<T>(T);

struct Block {
    next: AtomicU64,
    last: AtomicU64,
}

/// A generator that threads share. Ids grow for everybody who uses the same handle.
pub struct Shared<C> {
    block: Apart<Block>,
    /// Whose turn it is to hold the block, if it is not everybody's.
    turn: Apart<AtomicU64>,
    state: Apart<Mutex<State>>,
    /// Raised when blocks that were handed out have grown old; see [`Local`].
    age: Apart<AtomicU64>,
    layout: Layout,
    clock: C,
}

struct State {
    generator: Generator,
    worker: u32,
    pace: Pace,
    /// Who refilled last, and how often in a row.
    refiller: u64,
    n_refills: u32,
    /// Until when nobody holds the block alone.
    shared_until: Millis,
}

/// How large the next block should be.
#[derive(Clone, Copy, Default)]
struct Pace {
    refilled: Millis,
    n: u64,
}

impl Pace {
    fn next(&mut self, now: Millis, max: u64) -> u64 {
        // A block should last about a millisecond.
        self.n = match now.saturating_sub(self.refilled) {
            0..=1 => (self.n * 2).clamp(1, max),
            2..=4 => (self.n / 2).max(1),
            _ => 1,
        };
        self.refilled = now;
        self.n
    }
}

/// Ids in a row: the `n`-th is [`get(n)`](Range::get).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    layout: Layout,
    worker: u32,
    run: Run,
}

impl Range {
    /// How many ids it has; at least one.
    pub fn len(&self) -> u64 {
        self.run.n
    }

    /// Never: a range has at least one id.
    pub fn is_empty(&self) -> bool {
        self.run.n == 0
    }

    /// One of them. Neighbours need not be neighbouring numbers: between two milliseconds lie the
    /// ids of other workers.
    pub fn get(&self, index: u64) -> Option<Id> {
        (index < self.run.n).then(|| self.layout.id(self.run.first + index, self.worker))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Id> + '_ {
        let Range { layout, worker, run } = self;
        (run.first..run.first + run.n).map(|tick| layout.id(tick, *worker))
    }

    /// The same as runs of neighbouring numbers, one per millisecond: a first id, and how many.
    pub fn runs(&self) -> impl Iterator<Item = (Id, u64)> + '_ {
        let Range { layout, worker, run } = self;
        let (mut tick, end) = (run.first, run.first + run.n);
        std::iter::from_fn(move || {
            let next = ((tick >> layout.sequence_bits) + 1) << layout.sequence_bits;
            let n = next.min(end).checked_sub(tick).filter(|n| *n > 0)?;
            let first = layout.id(tick, *worker);
            tick += n;
            Some((first, n))
        })
    }

    /// The worker that made them.
    pub fn worker(&self) -> u32 {
        self.worker
    }
}

impl<C: Clock> Shared<C> {
    /// A generator that refuses until a window is opened.
    pub fn new(layout: Layout, slack: Slack, clock: C) -> Shared<C> {
        let generator = Generator::new(&layout, slack);
        let state = Mutex::new(State {
            generator,
            worker: 0,
            pace: Pace::default(),
            refiller: 0,
            n_refills: 0,
            shared_until: 0,
        });
        let block = Block { next: AtomicU64::new(1), last: AtomicU64::new(0) };
        Shared {
            block: Apart(block),
            turn: Apart(AtomicU64::new(NOBODY)),
            state: Apart(state),
            age: Apart(AtomicU64::new(0)),
            layout,
            clock,
        }
    }

    /// How its ids are made.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Whether `word` is of the block that ends with `last`, if it is of that block or a later one.
    #[inline]
    fn is_of(&self, word: u64, last: u64) -> bool {
        word <= last && (word ^ last) >> self.layout.sequence_bits == 0
    }

    fn is_empty(&self) -> bool {
        self.block.0.next.load(Ordering::Acquire) > self.block.0.last.load(Ordering::Acquire)
    }

    /// The next id, without waiting.
    #[inline]
    pub fn next(&self) -> Result<Id, Refusal> {
        match held::take(&self.turn.0, 1) {
            Some((word, _)) => Ok(Id::from_word(word)),
            None => self.next_of_all(),
        }
    }

    /// The next id of the block that is everybody's.
    fn next_of_all(&self) -> Result<Id, Refusal> {
        loop {
            let last = self.block.0.last.load(Ordering::Acquire);
            let word = self.block.0.next.fetch_add(1, Ordering::AcqRel);
            if self.is_of(word, last) {
                return Ok(Id::from_word(word));
            }
            self.refill()?;
            if let Some((word, _)) = held::take(&self.turn.0, 1) {
                return Ok(Id::from_word(word));
            }
        }
    }

    #[cold]
    fn refill(&self) -> Result<(), Refusal> {
        let mut state = lock(&self.state.0);
        if !self.is_empty() {
            // Somebody was faster.
            return Ok(());
        }
        let now = self.clock.now();
        let n = state.pace.next(now, BLOCK_IDS_MAX);
        let run = state.generator.take_within(now, n)?;
        let first = self.layout.id(run.first, state.worker).bits();
        self.end_turn_of_others(&mut state, now);
        if self.is_alone(&mut state, now) {
            let turn = held::number();
            held::hold(turn, first, run.n);
            self.turn.0.swap(turn, Ordering::AcqRel);
            return Ok(());
        }
        // In this order; see the module.
        self.block.0.next.swap(first, Ordering::AcqRel);
        self.block.0.last.store(first + run.n - 1, Ordering::Release);
        Ok(())
    }

    /// Whether this thread has refilled so often in a row that it may hold the block alone.
    fn is_alone(&self, state: &mut State, now: Millis) -> bool {
        let thread = held::thread();
        let is_same = state.refiller == thread;
        state.n_refills = if is_same { state.n_refills.saturating_add(1) } else { 0 };
        state.refiller = thread;
        state.n_refills >= REFILLS_MIN && now >= state.shared_until
    }

    /// Ends the turn of another thread, whose block is behind us now. Needs the lock.
    fn end_turn_of_others(&self, state: &mut State, now: Millis) {
        let turn = self.turn.0.load(Ordering::Acquire);
        if turn != NOBODY && !held::is_ours(turn) {
            self.turn.0.swap(NOBODY, Ordering::AcqRel);
            state.shared_until = now + SHARED_FOR;
        }
    }

    /// Empties the block in use. Needs the lock. What is left of it is dropped: a taker may still
    /// know its end, so nothing up to that end may ever be in another block.
    fn empty_block(&self) {
        self.turn.0.swap(NOBODY, Ordering::AcqRel);
        let last = self.block.0.last.load(Ordering::Acquire);
        self.block.0.next.swap(last + 1, Ordering::AcqRel);
    }

    /// Takes between one and `n` ids in a row, without waiting; at most [`RANGE_IDS_MAX`].
    pub fn range(&self, n: u64) -> Result<Range, Refusal> {
        let n = n.clamp(1, RANGE_IDS_MAX);
        if let Some((word, n)) = held::take(&self.turn.0, n) {
            return Ok(self.neighbours(word, n));
        }
        loop {
            let last = self.block.0.last.load(Ordering::Acquire);
            let word = self.block.0.next.fetch_add(n, Ordering::AcqRel);
            if self.is_of(word, last) {
                return Ok(self.neighbours(word, n.min(last - word + 1)));
            }
            let mut state = lock(&self.state.0);
            if self.is_empty() {
                // Nothing is left in the block, so what comes now is larger than all before.
                let now = self.clock.now();
                let run = state.generator.take(now, n)?;
                self.end_turn_of_others(&mut state, now);
                return Ok(Range { layout: self.layout, worker: state.worker, run });
            }
        }
    }

    /// Words of one block as a range.
    fn neighbours(&self, word: u64, n: u64) -> Range {
        let parts = self.layout.decode(Id::from_word(word));
        let first = self.layout.tick(parts.time) | u64::from(parts.sequence);
        Range { layout: self.layout, worker: parts.worker, run: Run { first, n } }
    }

    /// Fills `ids` from its beginning and says how many it got: fewer than all of them, but at
    /// least one, when the clock allows no more just now.
    pub fn fill(&self, ids: &mut [Id]) -> Result<usize, Refusal> {
        let mut n_filled = 0;
        while n_filled < ids.len() {
            let rest = &mut ids[n_filled..];
            let range = match self.range(rest.len() as u64) {
                Err(_) if n_filled > 0 => break,
                range => range?,
            };
            let mut rest = rest.iter_mut();
            for (first, n) in range.runs() {
                for (id, word) in rest.by_ref().take(n as usize).zip(first.bits()..) {
                    *id = Id::from_word(word);
                }
            }
            n_filled += range.len() as usize;
        }
        Ok(n_filled)
    }

    /// Opens the window of a new term.
    pub fn open(&self, worker: u32, from: Millis, until: Millis) {
        let mut state = lock(&self.state.0);
        self.empty_block();
        self.age.0.fetch_add(1, Ordering::AcqRel);
        state.worker = worker;
        state.generator.open(from, until);
    }

    /// Moves the end of the window, which is durable now.
    pub fn extend(&self, until: Millis) {
        lock(&self.state.0).generator.extend(until);
    }

    /// Hands out no more, and says where a successor may begin. Blocks that threads hold lie
    /// before that.
    pub fn seal(&self) -> Millis {
        let mut state = lock(&self.state.0);
        self.empty_block();
        self.block.0.last.store(0, Ordering::Release);
        self.age.0.fetch_add(1, Ordering::AcqRel);
        state.generator.seal()
    }

    /// The end of the window; 0 when none is open.
    pub fn until(&self) -> Millis {
        lock(&self.state.0).generator.until()
    }

    /// Takes back what nobody has used for a while, so that the next id has the present time.
    pub fn refresh(&self) {
        let state = lock(&self.state.0);
        if self.clock.now().saturating_sub(state.pace.refilled) > 1 {
            self.empty_block();
        }
        self.age.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// A thread's own block of a shared generator: no word that another thread writes on the way to
/// an id. Its ids grow; between handles they are unique and in no order within a few milliseconds.
pub struct Local<C> {
    shared: Arc<Shared<C>>,
    word: u64,
    end: u64,
    age: u64,
    pace: Pace,
}

impl<C: Clock> Local<C> {
    /// A handle for one thread.
    pub fn new(shared: Arc<Shared<C>>) -> Local<C> {
        Local { shared, word: 0, end: 0, age: 0, pace: Pace::default() }
    }

    /// The next id, without waiting.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it never ends, and it can be refused")]
    pub fn next(&mut self) -> Result<Id, Refusal> {
        // A look at a word that changes a few times a second; blocks that grew old are dropped.
        if self.word >= self.end || self.shared.age.0.load(Ordering::Relaxed) != self.age {
            self.refill()?;
        }
        let id = Id::from_word(self.word);
        self.word += 1;
        Ok(id)
    }

    #[cold]
    fn refill(&mut self) -> Result<(), Refusal> {
        self.end = self.word;
        self.age = self.shared.age.0.load(Ordering::Acquire);
        let mut state = lock(&self.shared.state.0);
        let now = self.shared.clock.now();
        let n = self.pace.next(now, LOCAL_IDS_MAX);
        // The shared block is lower than what we take and stays so: order is per handle.
        let run = state.generator.take_within(now, n)?;
        self.word = self.shared.layout.id(run.first, state.worker).bits();
        self.end = self.word + run.n;
        Ok(())
    }
}

impl<C> std::fmt::Debug for Shared<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl<C> std::fmt::Debug for Local<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("left", &(self.end - self.word)).finish_non_exhaustive()
    }
}
