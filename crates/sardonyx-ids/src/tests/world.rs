//! A store in a few lines and processes around it, for the simulation and the model.

use std::collections::BTreeMap;

use bytes::Bytes;
use sardonyx_store::{Condition, Item, Txn, Version, Write};

use crate::{
    generator::{Generator, Slack},
    layout::{Layout, Millis, Tick},
    lease::{
        Action, Answer, Lease, Terms,
        record::{Fresh, Listing, fresh_key, live_key, write},
    },
};

/// A rule that is left out, or the document's own protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rules {
    Ours,
    /// Times are reported after use, on the condition that the lease is still ours.
    Document,
    /// The same, but before every id a process asks whether the lease is still its own.
    LeaseChecked,
    /// The mark is kept under the lease, and goes with it.
    MarkUnderLease,
    /// A claim does not ask whether the mark is as it was read.
    ClaimForgetsFresh,
    /// Extensions and releases do not ask whether the mark is as we wrote it.
    WriteForgetsFresh,
    /// No condition at all on extensions and releases.
    WriteForgetsAll,
    /// Ids are handed out beyond the mark.
    MarkIgnored,
    /// Nobody sets a floor after a backup was restored.
    FloorForgotten,
}

/// Linearizable, with versions and sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeStore {
    items: BTreeMap<String, (u64, Bytes, Option<u32>)>,
    revision: u64,
    sessions: Vec<u32>,
    n_sessions: u32,
}

impl FakeStore {
    pub(super) fn open_session(&mut self) -> u32 {
        self.n_sessions += 1;
        self.sessions.push(self.n_sessions);
        self.n_sessions
    }

    pub(super) fn expire(&mut self, session: u32) {
        self.sessions.retain(|it| *it != session);
        self.items.retain(|_, (_, _, owner)| *owner != Some(session));
    }

    pub(super) fn has(&self, session: u32) -> bool {
        self.sessions.contains(&session)
    }

    /// The sessions that are open, the oldest first.
    pub(super) fn sessions(&self) -> &[u32] {
        &self.sessions
    }

    /// The session that a key hangs on.
    pub(super) fn session_of(&self, key: &str) -> Option<u32> {
        self.items.get(key).and_then(|(_, _, session)| *session)
    }

    /// A condition on a version that has passed holds never again: no version is given twice. Nor
    /// does one on the absence of a mark: marks are moved, not taken away.
    pub(super) fn never_holds(&self, condition: &Condition) -> bool {
        let is_for_ever = match condition {
            Condition::Is(..) => true,
            Condition::Absent(key) => key.starts_with("workers/last"),
        };
        is_for_ever && !self.holds(condition)
    }

    /// Becomes what it was when `backup` was made, as after a disaster: no session survives, and
    /// versions that were given since are given again.
    pub(super) fn restore(&mut self, backup: &FakeStore) {
        (self.items, self.revision) = (backup.items.clone(), backup.revision);
        self.sessions.clear();
        self.items.retain(|_, (_, _, owner)| owner.is_none());
    }

    pub(super) fn list(&self) -> Listing {
        let item = |(key, (version, value, _)): (&String, &(u64, Bytes, Option<u32>))| Item {
            key: key.clone(),
            value: value.clone(),
            version: Version(*version),
        };
        let items: Vec<_> = self.items.iter().map(item).collect();
        Listing::read(&items).expect("our own values")
    }

    fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Absent(key) => !self.items.contains_key(key),
            Condition::Is(key, version) => {
                self.items.get(key).is_some_and(|(it, _, _)| *it == version.0)
            }
        }
    }

    pub(super) fn commit(&mut self, txn: &Txn, session: Option<u32>) -> Answer {
        if session.is_some_and(|session| !self.sessions.contains(&session)) {
            return Answer::NoSession;
        }
        if !txn.when.iter().all(|condition| self.holds(condition)) {
            return Answer::Refused;
        }
        self.revision += 1;
        let mut versions = Vec::new();
        for write in &txn.then {
            let (key, value, owner) = match write {
                Write::Put(key, value) => (key, value, None),
                Write::Lease(key, value) => (key, value, session),
                Write::Delete(key) => {
                    self.items.remove(key);
                    versions.push(Version(0));
                    continue;
                }
            };
            self.items.insert(key.clone(), (self.revision, value.clone(), owner));
            versions.push(Version(self.revision));
        }
        Answer::Done(versions)
    }

    /// The mark of a number, as it is durable now.
    pub(super) fn mark(&self, number: u32) -> Millis {
        self.list().fresh.get(&number).map_or(0, |fresh| fresh.value.until)
    }
}

/// What a transaction becomes under other rules.
pub(super) fn weaken(mut txn: Txn, rules: Rules, clock: Millis) -> Txn {
    let is_claim = txn.then.iter().any(|it| matches!(it, Write::Lease(..)));
    let is_about_number = txn.then.iter().any(|it| it.key().starts_with("workers/last"));
    let is_fresh = |it: &Condition| it.key().starts_with("workers/last");
    match rules {
        Rules::ClaimForgetsFresh if is_claim => txn.when.retain(|it| !is_fresh(it)),
        Rules::WriteForgetsFresh if !is_claim && is_about_number => {
            txn.when.retain(|it| !is_fresh(it));
        }
        Rules::WriteForgetsAll if !is_claim && is_about_number => txn.when.clear(),
        Rules::MarkUnderLease if is_about_number => {
            for write in &mut txn.then {
                if let Write::Put(key, value) = write {
                    *write = Write::Lease(std::mem::take(key), value.clone());
                }
            }
        }
        Rules::Document | Rules::LeaseChecked if is_about_number => {
            txn.when.retain(|it| !is_fresh(it));
            for write in &mut txn.then {
                if let Write::Put(_, value) = write {
                    let mut fresh: Fresh = serde_json::from_slice(value).expect("a mark");
                    fresh.until = fresh.until.min(clock);
                    *value = self::write(&fresh);
                }
            }
        }
        _ => {}
    }
    txn
}

/// A process: its machine, its generator, its clock.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) lease: Lease,
    pub(super) generator: Generator,
    pub(super) number: u32,
    pub(super) session: Option<u32>,
}

impl Process {
    pub(super) fn new(layout: Layout, terms: &Terms, owner: u64) -> Process {
        let lease = Lease::new(layout, terms.clone(), format!("p{owner}")).expect("a layout");
        let generator = Generator::new(&layout, Slack { credit: 2, max_future: 0 });
        Process { lease, generator, number: 0, session: None }
    }

    /// Carries out what needs no store; the request, if there is one.
    pub(super) fn perform(&mut self, todo: Vec<Action>, rules: Rules) -> Option<Action> {
        let is_unbounded =
            matches!(rules, Rules::Document | Rules::LeaseChecked | Rules::MarkIgnored);
        let until = |until| if is_unbounded { Millis::MAX } else { until };
        let mut request = None;
        for action in todo {
            match action {
                Action::Open { number, from, until: end } => {
                    self.number = number;
                    self.generator.open(from, until(end));
                }
                Action::Extend(end) => self.generator.extend(until(end)),
                Action::Seal => drop(self.generator.seal()),
                Action::FollowLeap => {}
                Action::OpenSession | Action::List | Action::Commit { .. } | Action::Close => {
                    request = Some(action);
                }
            }
        }
        request
    }
}

/// Ids that were handed out: number and tick, never one twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(std::collections::BTreeSet<(u32, Tick)>);

impl Seen {
    /// False: it was there already.
    pub(super) fn insert(&mut self, number: u32, tick: Tick) -> bool {
        self.0.insert((number, tick))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Keys, for tests that put a store into a state by hand.
pub(super) fn keys(number: u32) -> (String, String) {
    (live_key(number), fresh_key(number))
}
