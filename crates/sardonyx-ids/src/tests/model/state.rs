//! The world of the model and everything that can happen next in it.

use std::sync::Arc;

use sardonyx_store::{Txn, Write};

use crate::{
    generator::{Generator, Slack},
    layout::{EPOCH, Layout, Millis},
    lease::{
        Action, Answer, Input, Now, Terms,
        record::{Fresh, LAYOUT, Listing, retired_key, write},
    },
    tests::world::{FakeStore, Process, Rules, weaken},
};

const SMALL: Layout = Layout { time_bits: 40, worker_bits: 1, sequence_bits: 22, epoch: EPOCH };

/// The only number that is not retired.
pub(super) const NUMBER: u32 = 0;

/// By how much a clock steps back.
pub(super) const STEP_BACK: Millis = 2;

/// How much there is of everything. The faults are how many may still happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) processes: u64,
    pub(super) time_max: Millis,
    pub(super) expiries: u8,
    pub(super) steps_back: u8,
    pub(super) lost: u8,
    pub(super) crashes: u8,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) process: Process,
    pub(super) owner: u64,
    pub(super) clock: Millis,
    pub(super) boot: Millis,
    attempts: u64,
    pub(super) out: Option<Arc<Request>>,
}

/// On its way to the store.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) action: Action,
    /// The mark that it would set, if any.
    pub(super) fresh: Option<Fresh>,
}

/// Given up by its sender; the store may still carry it out.
#[derive(Clone, Debug)]
pub(super) struct Late {
    pub(super) request: Arc<Request>,
    pub(super) session: Option<u32>,
    pub(super) owner: u64,
}

/// The store, and how it reads.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) store: FakeStore,
    pub(super) listing: Listing,
}

/// What an event leaves alone is shared with the state before it.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) stored: Arc<Stored>,
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) late: Vec<Late>,
    pub(super) left: Bounds,
    owners: u64,
    /// One bit for each millisecond.
    pub(super) used: u64,
    duplicate: bool,
    /// Whether no mark is ever set back: the document's rule does not see to it, ours does.
    pub(super) marks_grow: bool,
    /// Whether also orders are tried that nobody can tell apart.
    pub(super) is_plain: bool,
}

fn terms() -> Terms {
    let (window, period, ahead_max) = (2, 1, 1000);
    Terms {
        window,
        period,
        ahead_max,
        doubt_min: u64::MAX,
        retry: 1,
        left_min: 0,
        name: String::new(),
    }
}

fn node(owner: u64, clock: Millis) -> Node {
    let mut process = Process::new(SMALL, &terms(), owner);
    process.generator = Generator::new(&SMALL, Slack { credit: 0, max_future: 0 });
    Node { process, owner, clock, boot: clock, attempts: 0, out: None }
}

impl Request {
    fn new(action: Action) -> Arc<Request> {
        let fresh = match &action {
            Action::Commit { txn, .. } => txn.then.iter().find_map(|write| match write {
                Write::Put(_, value) => serde_json::from_slice(value).ok(),
                _ => None,
            }),
            _ => None,
        };
        Arc::new(Request { action, fresh })
    }

    /// Whether it will be turned down, whenever it arrives: versions and sessions do not come back.
    pub(super) fn is_doomed(&self, session: Option<u32>, store: &FakeStore) -> bool {
        let Action::Commit { txn, in_session } = &self.action else { return false };
        *in_session && !session.is_some_and(|it| store.has(it))
            || txn.when.iter().any(|it| store.never_holds(it))
    }
}

/// What the generator hands out at this time, if anything: all of it, for nobody can tell how many
/// ids of one millisecond are used.
pub(super) fn hand_out(generator: &mut Generator, clock: Millis) -> Option<u64> {
    let run = generator.take(EPOCH + clock, u64::MAX).ok()?;
    Some(1 << (run.first >> SMALL.sequence_bits))
}

impl Model {
    pub(super) fn new(left: Bounds, rules: Rules, is_plain: bool) -> Model {
        assert!(
            left.crashes <= 1,
            "shapes tell the sessions of one dead process apart, not of two"
        );
        let mut store = FakeStore::default();
        let then =
            vec![Write::Put(LAYOUT.into(), write(&SMALL)), Write::Put(retired_key(1), write(&0))];
        store.commit(&Txn { when: vec![], then }, None);
        let listing = store.list();
        let nodes = (1..=left.processes).map(|owner| Arc::new(node(owner, 1))).collect();
        Model {
            stored: Arc::new(Stored { store, listing }),
            nodes,
            late: vec![],
            left,
            owners: left.processes,
            used: 0,
            duplicate: false,
            marks_grow: matches!(rules, Rules::Ours | Rules::MarkIgnored),
            is_plain,
        }
    }

    fn node(&mut self, index: usize) -> &mut Node {
        Arc::make_mut(&mut self.nodes[index])
    }

    fn change_store<T>(&mut self, change: impl FnOnce(&mut FakeStore) -> T) -> T {
        let stored = Arc::make_mut(&mut self.stored);
        let mark = |listing: &Listing| listing.fresh.get(&NUMBER).map(|it| it.value.until);
        let before = mark(&stored.listing);
        let changed = change(&mut stored.store);
        stored.listing = stored.store.list();
        assert!(!self.marks_grow || before <= mark(&stored.listing), "a mark was set back");
        let store = &stored.store;
        // What can never be carried out is as good as gone.
        self.late.retain(|it| !it.request.is_doomed(it.session, store));
        changed
    }

    fn step(&mut self, index: usize, input: Input, rules: Rules) {
        let node = self.node(index);
        node.attempts += 1;
        let dice = node.owner << 8 | node.attempts;
        let now = Now { clock: EPOCH + node.clock, boot: node.boot, offset: 0, dice };
        let todo = node.process.lease.step(input, now);
        match node.process.perform(todo, rules) {
            Some(Action::OpenSession) => {
                // Nothing about a session is interesting before something hangs on it.
                let before = node.process.session;
                let session = self.change_store(|store| {
                    before.into_iter().for_each(|before| store.expire(before));
                    store.open_session()
                });
                self.node(index).process.session = Some(session);
                self.step(index, Input::Session(Ok(())), rules);
            }
            Some(Action::Commit { txn, in_session }) => {
                let txn = weaken(txn, rules, now.clock);
                node.out = Some(Request::new(Action::Commit { txn, in_session }));
            }
            Some(request) => node.out = Some(Request::new(request)),
            None => {}
        }
        let node = self.node(index);
        let writes = |it: &Arc<Request>| matches!(it.action, Action::Commit { .. });
        if !node.out.as_ref().is_some_and(writes) && node.attempts == dice & 0xff {
            // Numbers of attempts are few: one that writes nothing is none.
            node.attempts -= 1;
        }
    }

    fn carry_out(&mut self, request: &Request, session: Option<u32>) -> Input {
        match &request.action {
            Action::Commit { txn, in_session } => {
                let session = session.filter(|_| *in_session);
                Input::Committed(self.change_store(|store| store.commit(txn, session)))
            }
            _ => Input::Listed(Ok(self.stored.listing.clone())),
        }
    }

    /// Moves a clock on, and hands out all that it allows on the way.
    fn move_on(&mut self, index: usize, by: Millis) {
        for _ in 0..by {
            let node = self.node(index);
            node.clock += 1;
            node.boot += 1;
            self.hand_out(index);
        }
    }

    fn hand_out(&mut self, index: usize) {
        let node = self.node(index);
        if let Some(bit) = hand_out(&mut node.process.generator, node.clock) {
            self.duplicate |= self.used & bit != 0;
            self.used |= bit;
        }
    }

    /// Whether an id is repeated, or would be if the clocks just moved on.
    pub(super) fn is_broken(&self) -> bool {
        let mut used = self.used;
        let mut is_repeated = |node: &Arc<Node>| {
            let mut generator = node.process.generator.clone();
            (node.clock + 1..=self.left.time_max).any(|clock| {
                let bit = hand_out(&mut generator, clock).unwrap_or(0);
                let is_repeated = used & bit != 0;
                used |= bit;
                is_repeated
            })
        };
        self.duplicate || self.nodes.iter().any(&mut is_repeated)
    }

    /// Every state that one event leads to.
    pub(super) fn successors(&self, rules: Rules) -> Vec<Model> {
        let mut next = Vec::new();
        for index in 0..self.nodes.len() {
            let left = self.left.time_max.saturating_sub(self.nodes[index].clock);
            let mut later = self.clone();
            later.own_events(index, rules, &mut next);
            for _ in 0..left {
                later.move_on(index, 1);
                later.own_events(index, rules, &mut next);
            }
        }
        if self.left.expiries > 0 {
            self.expiries(&mut next);
        }
        for index in 0..self.late.len() {
            let mut model = self.clone();
            let Late { request, session, .. } = model.late.remove(index);
            model.carry_out(&request, session);
            next.push(model);
        }
        next.iter_mut().for_each(|it| it.settle(rules));
        next
    }

    /// Answers at once what can only be turned down, if that leaves a process with nothing but to
    /// wait. It holds nothing, so it hands out nothing meanwhile; and whatever it could do with a
    /// later answer, it can do by itself once it waits.
    fn settle(&mut self, rules: Rules) {
        if self.left.lost > 0 || self.is_plain {
            return;
        }
        for index in 0..self.nodes.len() {
            let Node { process, out: Some(request), .. } = &*self.nodes[index] else { continue };
            let (session, request) = (process.session, request.clone());
            let is_free = process.lease.number().is_none();
            if !is_free || !request.is_doomed(session, &self.stored.store) {
                continue;
            }
            let mut settled = self.clone();
            settled.node(index).out = None;
            let answer = settled.carry_out(&request, session);
            settled.step(index, answer, rules);
            settled.list_at_once(index, rules);
            if settled.nodes[index].out.is_none() {
                *self = settled;
            }
        }
    }

    /// The end of each session on which something hangs, also of one whose process is dead. (One that
    /// only waits has none that matters: see `waits`.)
    fn expiries(&self, next: &mut Vec<Model>) {
        let matters = |session: &u32| {
            let session = Some(*session);
            self.nodes.iter().any(|it| it.process.session == session && !self.waits(it))
                || self.late.iter().any(|it| it.session == session)
                || self.live_session() == session
        };
        for session in self.stored.store.sessions().iter().filter(|it| matters(it)) {
            let mut model = self.clone();
            model.left.expiries -= 1;
            model.change_store(|store| store.expire(*session));
            next.push(model);
        }
    }

    /// What a process may do, or what may happen to it, at the time that its clock shows.
    fn own_events(&self, index: usize, rules: Rules, next: &mut Vec<Model>) {
        let mut push = |change: &dyn Fn(&mut Model)| {
            let mut model = self.clone();
            change(&mut model);
            model.hand_out(index);
            next.push(model);
        };
        let it = &self.nodes[index];
        if self.left.steps_back > 0 && it.clock > STEP_BACK {
            push(&|model| {
                model.node(index).clock -= STEP_BACK;
                model.left.steps_back -= 1;
            });
        }
        if self.left.crashes > 0 {
            push(&|model| {
                model.left.crashes -= 1;
                model.owners += 1;
                model.nodes[index] = Arc::new(node(model.owners, it.clock));
            });
        }
        let session = it.process.session;
        let is_over = session.is_some_and(|session| !self.stored.store.has(session));
        if is_over && it.process.lease.has_session() && !self.waits(it) {
            push(&|model| {
                model.step(index, Input::SessionLost, rules);
                if it.out.is_none() {
                    model.list_at_once(index, rules);
                }
            });
        }
        let Some(request) = &it.out else {
            next.extend(self.tick(index, rules));
            return;
        };
        let is_doomed = request.is_doomed(session, &self.stored.store);
        push(&|model| {
            model.node(index).out = None;
            let answer = model.carry_out(request, session);
            model.step(index, answer, rules);
            if is_doomed {
                model.list_at_once(index, rules);
            }
        });
        if self.left.lost > 0 && matches!(request.action, Action::Commit { .. }) {
            push(&|model| model.lose(index, rules));
        }
    }

    /// A process looks whether there is something to do. `None` if there is not: that its clock
    /// has moved is nothing to anybody, so that is no state of its own.
    fn tick(&self, index: usize, rules: Rules) -> Option<Model> {
        let it = &self.nodes[index];
        if it.boot < it.process.lease.rest_until() {
            return None;
        }
        let mut model = self.clone();
        model.step(index, Input::Tick, rules);
        let had_session = it.process.session.is_some_and(|it| self.stored.store.has(it));
        if !had_session || model.nodes[index].process.session == it.process.session {
            model.list_at_once(index, rules);
        }
        model.answer_at_once(index, rules);
        model.hand_out(index);
        (self.is_plain || model.shape() != self.shape()).then_some(model)
    }

    /// Answers what could only be turned down when it was asked, if the answer cannot get lost.
    fn answer_at_once(&mut self, index: usize, rules: Rules) {
        let Node { process, out: Some(request), .. } = &*self.nodes[index] else { return };
        let (session, request) = (process.session, request.clone());
        let is_doomed = request.is_doomed(session, &self.stored.store);
        if self.left.lost == 0 && !self.is_plain && is_doomed {
            self.node(index).out = None;
            let answer = self.carry_out(&request, session);
            self.step(index, answer, rules);
            self.list_at_once(index, rules);
        }
    }

    /// Carries out a listing together with what led to it, if that was no matter of the store: then it
    /// could as well have come so late. Whoever waits for a listing does nothing meanwhile.
    ///
    /// A session that is opened is no matter of the store unless an open one ends by it, and neither is
    /// the answer to a request that could only be turned down. One thing is lost by it, and not missed:
    /// a process that was turned down for a condition, whose session then ends, and which then lists and
    /// claims in vain. Until it knows of its session, here it goes on as before, and hands out more.
    fn list_at_once(&mut self, index: usize, rules: Rules) {
        let lists = |it: &Arc<Request>| it.action == Action::List;
        if !self.is_plain && self.nodes[index].out.as_ref().is_some_and(lists) {
            self.node(index).out = None;
            let listing = self.stored.listing.clone();
            self.step(index, Input::Listed(Ok(listing)), rules);
        }
    }

    /// The answer does not come; the request may still be on its way. (A listing that is lost is asked
    /// for again, and that is the same as one that takes long.)
    fn lose(&mut self, index: usize, rules: Rules) {
        self.left.lost -= 1;
        let node = self.node(index);
        let (owner, session) = (node.owner, node.process.session);
        let Some(request) = node.out.take() else { return };
        if !request.is_doomed(session, &self.stored.store) {
            self.late.push(Late { request, session, owner });
        }
        self.step(index, Input::Committed(Answer::Unknown(String::new())), rules);
    }
}
