//! What of a state can make a difference: states of one shape are one state.
//!
//! A shape is a few bytes. Left out, and why nobody can tell:
//!
//! - *Names.* Which process is which: all run the same program, and nobody asks for a name but to compare
//!   it with its own. So what a process has to do with the store (is the liveness key mine, does it hang on my
//!   session, is the mark my attempt) is written beside the process, and then the processes are put in
//!   order. Nothing else refers to a process.
//! - *Versions and sessions that have passed.* They are compared with what is stored, never with each other,
//!   and never come again: a version is the present one or it is not.
//! - *Times behind which no clock falls any more.* Clocks grow but for the steps back that are left.
//!   What was used before the earliest time that any clock can still show cannot be used again; a window that ends
//!   before the earliest time of its own clock is closed, however long since.
//! - *Times before which a process does nothing that matters*: see `not_before`, `has_lost`.
//! - *What a request would write that will be turned down* whenever it arrives, if its answer cannot get lost.
//! - *Where a term began*, if no answer can get lost: it is read by those who find their own attempt.
//!
//! `equal_shapes_lead_to_equal_shapes` plays this through: it is no matter of belief.

use std::hash::{Hash, Hasher};

use sardonyx_store::{Condition, Write};

use super::state::{Model, NUMBER, Node, Request, STEP_BACK, hand_out};
use crate::{
    layout::{EPOCH, Millis},
    lease::{
        Action,
        record::{fresh_key, live_key},
        shape::View,
    },
};

impl Model {
    /// The earliest time that a clock can still show when it matters.
    fn clock_min(&self, node: &Node) -> Millis {
        let back = STEP_BACK * u64::from(self.left.steps_back);
        node.clock.saturating_sub(back).max(self.not_before(node))
    }

    /// Whether a process can do nothing that anybody sees but to claim the number: it holds nothing,
    /// or what it holds was lost to another. What session it has makes no difference then: in the
    /// moment in which it claims it can have a new one.
    pub(super) fn waits(&self, node: &Node) -> bool {
        let is_idle = node.process.generator.until() == 0
            && node.process.lease.number().is_none()
            && node.out.is_none();
        let may_wait = self.marks_grow && !self.is_unsure() && !self.is_plain;
        may_wait && (is_idle || self.has_lost(node))
    }

    /// Before this time a process does nothing that anybody sees: nobody gets the number before its mark.
    fn not_before(&self, node: &Node) -> Millis {
        let fresh = self.stored.listing.fresh.get(&NUMBER).filter(|_| self.waits(node));
        fresh.map_or(0, |it| (it.value.until - EPOCH).min(self.left.time_max + 1))
    }

    /// Whether a process holds a number whose mark another has moved since. It can still hand out what
    /// is left of its window, and whatever it asks for, it is turned down and sealed: but for that
    /// rest it is one that holds nothing. (One that crashes does not hand out the rest.)
    fn has_lost(&self, node: &Node) -> bool {
        let listing = &self.stored.listing;
        let (live, fresh) = (listing.live.get(&NUMBER), listing.fresh.get(&NUMBER));
        let lease = &node.process.lease;
        let is_doomed = |it: &Request| it.is_doomed(node.process.session, &self.stored.store);
        self.marks_grow
            && !self.is_plain
            && self.left.crashes == 0
            && !self.is_unsure()
            && node.out.as_ref().is_none_or(|it| is_doomed(it))
            && fresh.is_some_and(|it| lease.holds_other_than(it.version))
            && live.is_none_or(|it| it.value.owner != lease.owner())
    }

    /// What was used, or is as good as used.
    fn used(&self) -> u64 {
        let mut used = self.used;
        for node in self.nodes.iter().filter(|it| self.has_lost(it)) {
            let mut generator = node.process.generator.clone();
            for clock in node.clock + 1..=self.left.time_max {
                used |= hand_out(&mut generator, clock).unwrap_or(0);
            }
        }
        used
    }

    /// The session that the number hangs on.
    pub(super) fn live_session(&self) -> Option<u32> {
        self.stored.store.session_of(&live_key(NUMBER))
    }

    fn is_unsure(&self) -> bool {
        let is_unsure = |it: &Node| it.process.lease.is_unsure();
        self.left.lost > 0 || !self.late.is_empty() || self.nodes.iter().any(|it| is_unsure(it))
    }

    /// The shape.
    pub(super) fn shape(&self) -> Vec<u8> {
        let clock_min = self.nodes.iter().map(|it| self.clock_min(it)).min().unwrap_or(0);
        let mut nodes: Vec<Vec<u8>> = self.nodes.iter().map(|it| self.node_shape(it)).collect();
        nodes.sort_unstable();
        let mut all = Vec::with_capacity(256);
        // With its length before each part, no two states are written alike by chance.
        for node in nodes {
            all.push(node.len() as u8);
            all.extend(node);
        }
        all.extend((self.used() >> clock_min << clock_min).to_le_bytes());
        let left = self.left;
        all.extend([left.expiries, left.steps_back, left.lost, left.crashes]);
        // What is judged: a broken state must not pass for one that is not.
        all.push(u8::from(self.is_broken()));
        let listing = &self.stored.listing;
        all.push(u8::from(listing.live.contains_key(&NUMBER)));
        if let Some(fresh) = listing.fresh.get(&NUMBER) {
            let until = fresh.value.until - EPOCH;
            all.push(byte(if self.is_unsure() { until } else { until.max(clock_min) }));
            all.push(if self.is_unsure() { byte(fresh.value.from - EPOCH) } else { 0 });
            all.push(u8::from(fresh.value.is_released));
        }
        let is_alive = |owner: u64| self.nodes.iter().any(|it| it.owner == owner);
        self.late_shapes(&|owner| !is_alive(owner), None, &mut all);
        all
    }

    fn node_shape(&self, node: &Node) -> Vec<u8> {
        let Node { process, owner, boot, out, .. } = node;
        let clock = node.clock.max(self.not_before(node));
        let (store, listing) = (&self.stored.store, &self.stored.listing);
        let clock_min = self.clock_min(node);
        let mut shape = Vec::with_capacity(64);
        let (live, fresh) = (listing.live.get(&NUMBER), listing.fresh.get(&NUMBER));
        if self.waits(node) {
            let next = process.generator.used_until().max(EPOCH + clock_min) - EPOCH;
            shape.extend([0, byte(clock), byte(next)]);
            return shape;
        }
        shape.push(match process.session {
            None => 1,
            Some(session) if !store.has(session) => 2,
            Some(session) if self.live_session() == Some(session) => 3,
            Some(_) => 4,
        });
        let is_mine = live.is_some_and(|it| it.value.owner == process.lease.owner());
        let is_attempt = fresh.is_some_and(|it| process.lease.is_unsure_of(&it.value));
        shape.extend([u8::from(is_mine), u8::from(is_attempt), byte(clock)]);
        let is_doomed = out.as_ref().is_some_and(|it| it.is_doomed(process.session, store));
        let view = View {
            epoch: EPOCH,
            clock_min: EPOCH + clock_min,
            boot: *boot,
            live: &|number| listing.live.get(&number).map(|it| it.version),
            fresh: &|number| listing.fresh.get(&number).map(|it| it.version),
            is_unsure: self.is_unsure(),
            is_doomed,
        };
        process.lease.shape(&view, &mut shape);
        let generator = &process.generator;
        // Past credit is none here, so when somebody was turned away is not asked.
        shape.push(view.byte(generator.used_until().max(view.clock_min)));
        shape.push(match generator.until() {
            0 => 0,
            until => view.byte(until.max(view.clock_min)),
        });
        shape.push(process.number as u8);
        match out {
            None => shape.push(0),
            Some(request) => self.request_shape(request, process.session, &mut shape),
        }
        self.late_shapes(&|it| it == *owner, Some(node), &mut shape);
        shape
    }

    fn request_shape(&self, request: &Request, session: Option<u32>, shape: &mut Vec<u8>) {
        let Action::Commit { txn, in_session } = &request.action else {
            return shape.push(1);
        };
        if request.is_doomed(session, &self.stored.store) && !self.is_unsure() {
            // No session and a condition that does not hold are different answers.
            let is_in_session =
                !in_session || session.is_some_and(|session| self.stored.store.has(session));
            return shape.extend([2, u8::from(is_in_session)]);
        }
        let is_over = *in_session && !session.is_some_and(|it| self.stored.store.has(it));
        shape.extend([3, u8::from(*in_session), u8::from(is_over)]);
        shape.extend([txn.when.len() as u8, txn.then.len() as u8]);
        for condition in &txn.when {
            let fate = match condition {
                Condition::Absent(_) => 0,
                Condition::Is(..) if self.stored.store.never_holds(condition) => 1,
                Condition::Is(..) => 2,
            };
            shape.extend([key_shape(condition.key()), fate]);
        }
        for write in &txn.then {
            let kind = match write {
                Write::Put(..) => 1,
                Write::Lease(..) => 2,
                Write::Delete(..) => 3,
            };
            shape.extend([key_shape(write.key()), kind]);
        }
        if let Some(fresh) = &request.fresh {
            let from = if self.is_unsure() { byte(fresh.from - EPOCH) } else { 0 };
            shape.extend([byte(fresh.until - EPOCH), from]);
        }
    }

    /// The requests that were given up by some, in any order.
    fn late_shapes(&self, of: &dyn Fn(u64) -> bool, node: Option<&Node>, all: &mut Vec<u8>) {
        if self.late.is_empty() {
            return;
        }
        let late = self.late.iter().filter(|it| of(it.owner)).map(|late| {
            let fresh = late.request.fresh.as_ref();
            let knows =
                node.zip(fresh).is_some_and(|(node, it)| node.process.lease.is_unsure_of(it));
            let is_session = node.is_some_and(|node| node.process.session == late.session);
            let is_live = late.session.is_some() && self.live_session() == late.session;
            let mut shape = [knows, is_session, is_live].map(u8::from).to_vec();
            self.request_shape(&late.request, late.session, &mut shape);
            shape
        });
        let mut late: Vec<_> = late.collect();
        late.sort_unstable();
        all.push(late.len() as u8);
        for late in late {
            all.push(late.len() as u8);
            all.extend(late);
        }
    }
}

/// A key, as short as it can be told from the others.
fn key_shape(key: &str) -> u8 {
    match key {
        _ if key == live_key(NUMBER) => 10,
        _ if key == fresh_key(NUMBER) => 11,
        "workers/floor" => 12,
        "workers/layout" => 13,
        "workers/retired/0" => 14,
        _ => panic!("a key that the model does not have: {key}"),
    }
}

fn byte(time: Millis) -> u8 {
    u8::try_from(time).unwrap_or(u8::MAX)
}

impl Hash for Model {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shape().hash(state);
    }
}

impl PartialEq for Model {
    fn eq(&self, other: &Model) -> bool {
        self.shape() == other.shape()
    }
}
