//! What a member says about itself.

use std::hash::{Hash, Hasher};

use super::{Member, Role, follow::millis};
use crate::{
    change::Reason,
    claim::Quality,
    config::Timers,
    kept::Recovery,
    message::Lease,
    moment::Moment,
    report::{Phase, Report, Suspicion},
    view::Status,
};

impl Member {
    /// What it knows and does.
    pub fn status(&self, now: Moment) -> Report {
        let token = self.token(now);
        let leader = self.view.claim.clone();
        let quality = match &self.role {
            Role::Leader(_) if token.is_some() => Some(Quality::Established),
            Role::Leader(_) => Some(Quality::Provisional),
            Role::Follower(it) if leader.is_some() && it.lease == Lease::Held => {
                Some(Quality::Established)
            }
            Role::Follower(_) => leader.as_ref().map(|_| Quality::Provisional),
            Role::Init(_) | Role::Stopped => None,
        };
        Report {
            node: self.me.clone(),
            name: self.config.name.clone(),
            phase: self.phase(),
            cluster: self.kept.cluster,
            quality,
            version: leader.as_ref().map_or(self.kept.established, |it| it.version),
            leader,
            established: self.kept.established,
            seq: self.view.table.seq,
            digest: self.view.table.digest(self.view.claim.as_ref()),
            members: self.view.table.rows().cloned().collect(),
            voters: self.kept.slots.voters().cloned().collect(),
            voting: self.voting(now),
            suspicions: self.suspicions(now),
            token,
        }
    }

    /// What it does.
    pub fn phase(&self) -> Phase {
        match &self.role {
            Role::Init(_) => Phase::Init,
            Role::Follower(_) if self.contest.is_some() => Phase::Candidate,
            Role::Follower(_) => Phase::Follower,
            Role::Leader(_) => Phase::Leader,
            Role::Stopped => Phase::Stopped,
        }
    }

    /// Which process this is.
    pub fn node(&self) -> &crate::address::NodeId {
        &self.me
    }

    /// What it was told.
    pub fn config(&self) -> &crate::config::Config {
        &self.config
    }

    /// The table as it knows it.
    pub fn table(&self) -> &crate::view::Table {
        &self.view.table
    }

    /// Whose table it is, and of which version. With [`Table::seq`](crate::Table) it names a state
    /// that is the same on everybody who has it.
    pub fn table_name(&self) -> Option<&(crate::address::NodeId, crate::claim::Version)> {
        self.view.of.as_ref()
    }

    /// Whom it takes for the leader.
    pub fn claim(&self) -> Option<&crate::claim::Claim> {
        self.view.claim.as_ref()
    }

    /// The vote that it asks for at the moment.
    pub fn asks_for(&self) -> Option<(&crate::vote::Ballot, crate::vote::Stage)> {
        self.contest.as_ref().map(super::propose::Contest::name)
    }

    /// Everything that has a part in an election at one moment, for whoever counts states: what is
    /// kept and what waits to be, votes that are asked for and promised, and what it does. Two members
    /// for which it is the same do the same from then on, as long as time stands still: how many
    /// writes there were, and by how much a time is over, makes no difference.
    pub fn hash_election(&self, into: &mut impl Hasher) {
        let phase = match &self.role {
            Role::Init(_) => 0_u8,
            Role::Follower(_) => 1,
            Role::Leader(_) => 2,
            Role::Stopped => 3,
        };
        self.kept.hash_election(into);
        (&self.me, &self.contest, &self.pledge, &self.view.claim).hash(into);
        let may = [self.next_try, self.votes_from].map(|it| self.now >= it);
        (phase, self.round, may, self.poll.is_some()).hash(into);
        let done = self.saves.done;
        (self.saves.asked - done, self.saves.held.len()).hash(into);
        for (id, held) in &self.saves.held {
            (id - done, held).hash(into);
        }
    }

    /// What it keeps, whether or not that is on the disk yet.
    pub fn kept(&self) -> &crate::kept::Kept {
        &self.kept
    }

    fn voting(&self, now: Moment) -> Result<(), String> {
        if self.kept.cluster.is_none() {
            return Err("no cluster is founded yet".to_owned());
        }
        if !self.has_slot() {
            return Err("it has no slot: an observer".to_owned());
        }
        match self.kept.recovery {
            Recovery::Intact => {}
            Recovery::Unknown => {
                return Err("its store was lost; it waits to hear an established leader".to_owned());
            }
            Recovery::UpTo(lost) => {
                return Err(format!("its store was lost; it votes again above {lost}"));
            }
        }
        if now < self.votes_from {
            let left = millis(self.votes_from.since(now));
            return Err(format!("it restarted and votes again in {left} ms"));
        }
        Ok(())
    }

    fn suspicions(&self, now: Moment) -> Vec<Suspicion> {
        let Timers { ttl_timeout, .. } = self.config.timers;
        let mut found = Vec::new();
        if let Some((leader, _)) = &self.view.of {
            for row in self.view.table.rows().filter(|it| it.status == Status::Unreachable) {
                let why = self.view.why.get(&row.node.address).cloned();
                found.push(Suspicion {
                    observer: leader.clone(),
                    suspect: row.node.clone(),
                    reason: why.unwrap_or(Reason::InSnapshot),
                });
            }
        }
        if let Role::Follower(following) = &self.role {
            let silence = now.since(following.last_ack);
            if silence >= self.config.timers.heartbeat_timeout {
                found.push(Suspicion {
                    observer: self.me.clone(),
                    suspect: following.target.leader.clone(),
                    reason: Reason::LeaderSilent { millis: millis(silence) },
                });
            }
        }
        for (observer, claim, since) in self.suspects.values() {
            let age = now.since(*since);
            if age < ttl_timeout {
                found.push(Suspicion {
                    observer: observer.clone(),
                    suspect: claim.leader.clone(),
                    reason: Reason::LeaderSilent { millis: millis(age) },
                });
            }
        }
        found
    }
}
