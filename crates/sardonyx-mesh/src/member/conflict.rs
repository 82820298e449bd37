//! Two leaders: a seed that hears of both relieves one, and everybody of that one joins the other.

use super::{Member, Role};
use crate::{
    address::NodeId,
    change::Reason,
    claim::{Claim, ClusterId},
    message::Message,
};

impl Member {
    pub(super) fn take_seed_beat(
        &mut self,
        from: &NodeId,
        claim: &Claim,
        cluster: Option<ClusterId>,
    ) {
        let ours = self.heard_claim();
        self.send(&from.address, Message::SeedKeepAliveAck { claim: ours.clone() });
        if claim.leader != *from || !self.config.is_seed() {
            return;
        }
        if let (Some(mine), Some(theirs)) = (self.kept.cluster, cluster)
            && mine != theirs
        {
            return self.warn(format!(
                "{} leads another cluster, {theirs}, and has us in its seeds; ours is {mine}",
                from.address
            ));
        }
        if self.kept.cluster.is_none() && cluster.is_some() {
            self.elsewhere = cluster;
        }
        match ours {
            None => {
                self.hear_of(claim);
                self.try_target(claim.clone());
            }
            Some(ours) if ours.leader == claim.leader => {}
            Some(ours) if claim.outranks(&ours) => {
                if self.is_me(&ours.leader) {
                    self.take_relieve(&ours, claim.clone());
                } else {
                    let relieve =
                        Message::LeaderRelieve { loser: ours.clone(), winner: claim.clone() };
                    self.send(&ours.leader.address, relieve);
                }
            }
            Some(ours) => {
                let relieve = Message::LeaderRelieve { loser: claim.clone(), winner: ours };
                self.send(&from.address, relieve);
            }
        }
    }

    /// Gives way, if it is exactly us who lost and the winner really has more right.
    pub(super) fn take_relieve(&mut self, loser: &Claim, winner: Claim) {
        let is_leader = matches!(self.role, Role::Leader(_));
        let is_me = self.view.claim.as_ref() == Some(loser) && self.is_me(&loser.leader);
        let is_other = winner.leader.address != self.me.address;
        if is_leader && is_me && is_other && winner.outranks(loser) {
            self.resign(Some(winner));
        }
    }

    /// Gives up the office; everybody in the table, also those who are just coming in, is told.
    pub(super) fn resign(&mut self, winner: Option<Claim>) {
        let Role::Leader(_) = &self.role else { return };
        let Some(loser) = self.view.claim.clone() else { return };
        for to in self.others() {
            let order = Message::ReJoinCluster { loser: loser.clone(), winner: winner.clone() };
            self.send(&to, order);
        }
        self.reset(Reason::Relieved { by: winner.clone() }, winner);
    }

    pub(super) fn take_rejoin(&mut self, from: &NodeId, loser: &Claim, winner: Option<Claim>) {
        if *from != loser.leader {
            return;
        }
        match &self.role {
            Role::Init(_) => self.abandon_join(loser, winner),
            Role::Follower(following) => {
                let target = &following.target;
                if target.leader == loser.leader && target.version == loser.version {
                    let winner = winner.filter(|it| it.leader.address != self.me.address);
                    // It may have been elected after it gave way, and we heard of that first. Its table is
                    // gone all the same, but who nobody elected is no better.
                    let winner = winner.filter(|it| it.certified || !target.certified);
                    self.reset(Reason::Relieved { by: winner.clone() }, winner);
                }
            }
            Role::Leader(_) | Role::Stopped => {}
        }
    }
}
