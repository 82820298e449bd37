//! Asking the others, before an election, whether they hear the leader that we do not hear.

use std::collections::BTreeSet;

use super::{Member, Role};
use crate::{
    address::{Address, NodeId},
    claim::{Claim, Version},
    message::Message,
    moment::Moment,
    vote::Certificate,
};

#[derive(Clone, Debug)]
pub(super) struct Poll {
    id: u64,
    /// What was established when we asked. The election is for the version after it, or for none.
    version: Version,
    healthy: BTreeSet<Address>,
    pub(super) unhealthy: BTreeSet<Address>,
    pub(super) until: Moment,
}

pub(super) struct Answer {
    pub(super) id: u64,
    pub(super) version: Version,
    pub(super) is_healthy: bool,
    pub(super) leader: Option<Claim>,
    pub(super) newer: Option<Box<Certificate>>,
}

impl Member {
    pub(super) fn tick_poll(&mut self) {
        let now = self.now;
        if self.poll.as_ref().is_some_and(|it| now >= it.until) {
            self.poll = None;
            self.back_off();
        }
        let is_quiet = self.poll.is_none() && self.contest.is_none();
        let may_judge = now >= self.judges_from && now >= self.next_try;
        let misses_leader = match &self.role {
            Role::Follower(following) => {
                let silence = now.since(following.last_healthy);
                silence >= self.config.timers.ttl_timeout
            }
            Role::Init(_) | Role::Leader(_) | Role::Stopped => false,
        };
        // Who does not vote asks only when it has lost its leader, to find it again.
        let has_reason = self.has_slot() || self.view.claim.is_none();
        if is_quiet && may_judge && misses_leader && has_reason && self.kept.cluster.is_some() {
            self.open_poll();
        }
    }

    fn open_poll(&mut self) {
        let id = self.new_id();
        let version = self.kept.established;
        let suspect = match &self.role {
            Role::Follower(following) => Some(following.target.clone()),
            Role::Init(_) | Role::Leader(_) | Role::Stopped => None,
        };
        let me = self.me.address.clone();
        let others: BTreeSet<Address> =
            self.kept.slots.voters().filter(|it| **it != me).cloned().collect();
        for to in others {
            let suspect = suspect.clone();
            self.send(&to, Message::LeaderStatusQuery { id, version, suspect });
        }
        let until = self.now + self.config.timers.retry_interval;
        let unhealthy = BTreeSet::from([me]);
        self.poll = Some(Poll { id, version, healthy: BTreeSet::new(), unhealthy, until });
        self.count_poll();
    }

    pub(super) fn answer_status_query(
        &mut self,
        from: &NodeId,
        id: u64,
        version: Version,
        suspect: Option<Claim>,
    ) {
        if let Some(suspect) = suspect {
            let (now, ttl) = (self.now, self.config.timers.ttl_timeout);
            self.suspects.retain(|_, (_, _, since)| now.since(*since) < ttl);
            self.suspects.insert(from.address.clone(), (from.clone(), suspect, self.now));
        }
        let newer = self.kept.certificate.clone().filter(|it| it.version > version).map(Box::new);
        let is_healthy = self.is_healthy();
        let leader = self.heard_claim();
        let answer = Message::LeaderStatusQueryResponse { id, version, is_healthy, leader, newer };
        self.send(&from.address, answer);
    }

    pub(super) fn take_status_answer(&mut self, from: &NodeId, answer: Answer) {
        if let Some(certificate) = answer.newer {
            self.learn(&certificate);
        }
        let established = self.kept.established;
        let Some(poll) = &mut self.poll else { return };
        if poll.id != answer.id || poll.version != answer.version || poll.version != established {
            return;
        }
        match answer.is_healthy {
            true => poll.healthy.insert(from.address.clone()),
            false => poll.unhealthy.insert(from.address.clone()),
        };
        if answer.is_healthy
            && let Some(leader) = answer.leader
        {
            self.try_target(leader);
        }
        self.count_poll();
    }

    fn count_poll(&mut self) {
        let Some(poll) = &self.poll else { return };
        let slots = &self.kept.slots;
        if slots.is_quorum(&poll.unhealthy) && self.has_slot() {
            self.poll = None;
            // Who is leaving only asked where the leader is, to say goodbye to it.
            return match self.departing {
                None => self.open_contest(None, None),
                Some(_) => self.back_off(),
            };
        }
        let open: BTreeSet<Address> =
            slots.voters().filter(|it| !poll.healthy.contains(*it)).cloned().collect();
        if !slots.is_quorum(&open) {
            self.poll = None;
            self.back_off();
        }
    }
}
