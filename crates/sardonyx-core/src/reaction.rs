//! Reactions: what a peer says to the log because of an entry.
//!
//! Most follow from the replica alone: a peer has a [`Duty`] while a join waits for it, and says
//! so when the duty is new. The rest answer the entry itself, for the cases in which the entry
//! was refused and the replica shows no difference.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    command::{
        AbortJoinCluster, AcceptJoinCluster, Command, Entry, NotifyJoinCluster, NotifyWatchers,
        Outcome, Rejected, VolunteerForTask,
    },
    effect::{Effect, effects},
    id::PeerId,
    mutant::{self, Mutant},
    replica::{Join, JoinProtocol, Phase, Replica},
};

/// What one peer makes of one entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Response {
    /// What it does, before it says anything.
    pub effects: Vec<Effect>,
    /// What it then says.
    pub commands: Vec<Command>,
}

/// What `me` does and says because `entry` turned `old` into `new`. Without memory; the memory of
/// a real peer is [`crate::Peer`].
pub fn respond(
    entry: &Entry,
    outcome: &Outcome,
    old: &Replica,
    new: &Replica,
    me: &PeerId,
) -> Response {
    let mut effects = effects(old, new, me);
    if effects != [Effect::Stop] {
        effects.extend(answers(entry, outcome, new, me));
    }
    Response { effects, commands: reactions(entry, outcome, old, new, me) }
}

/// Everybody who may have something to do or to say because `entry` turned `old` into `new`, or
/// `None` for anybody. More than need be, but never fewer: a node with a thousand peers asks only
/// these, instead of all its own.
pub fn concerned(entry: &Entry, old: &Replica, new: &Replica) -> Option<BTreeSet<PeerId>> {
    if !old.jobs.is_empty() || !new.jobs.is_empty() {
        // Any of them may be wanted elsewhere now.
        return None;
    }
    let mut found: BTreeSet<PeerId> = match &entry.command {
        Command::PrepareJoinCluster(it) => BTreeSet::from([it.joiner.clone()]),
        Command::NotifyJoinCluster(it) => {
            BTreeSet::from([it.joiner.clone(), it.observer.clone(), it.subject.clone()])
        }
        Command::NotifyWatchers(it) => {
            BTreeSet::from([it.joiner.clone(), it.observer.clone(), it.subject.clone()])
        }
        Command::AcceptJoinCluster(it) => {
            BTreeSet::from([it.joiner.clone(), it.observer.clone(), it.subject.clone()])
        }
        Command::AbortJoinCluster(it) => BTreeSet::from([it.joiner.clone()]),
        Command::LeaveCluster(it) => BTreeSet::from([it.peer.clone()]),
        Command::PeerGc(it) => BTreeSet::from([it.peer.clone()]),
        Command::Gc(it) => BTreeSet::from([it.caller.clone()]),
        // How peers join may have changed under everybody.
        Command::ConfigureCluster(_) => return None,
        Command::SubmitJob(_)
        | Command::VolunteerForTask(_)
        | Command::SealTask(_)
        | Command::CompleteTask(_)
        | Command::KillJob(_) => BTreeSet::new(),
    };
    // Whom a peer watches, and what it owes, depends on its neighbours and on their joiners: who is
    // changed concerns those who are at most two steps away.
    for _ in 0..2 {
        let mut around = BTreeSet::new();
        for peer in &found {
            around.extend([old, new].iter().flat_map(|replica| neighbours(replica, peer)).cloned());
        }
        found.extend(around);
    }
    Some(found)
}

fn neighbours<'a>(replica: &'a Replica, peer: &'a PeerId) -> impl Iterator<Item = &'a PeerId> {
    let in_the_ring = [replica.predecessor(peer), replica.successor(peer)];
    let joiner = replica.joins.get(peer).map(|join| &join.joiner);
    in_the_ring.into_iter().chain(joiner).chain(replica.anchors.get(peer))
}

/// What `me` says because `entry` turned `old` into `new`.
pub fn reactions(
    entry: &Entry,
    outcome: &Outcome,
    old: &Replica,
    new: &Replica,
    me: &PeerId,
) -> Vec<Command> {
    let duty = Duty::of(new, me).filter(|duty| !duty.is_of(old, me));
    let mut commands: Vec<_> = duty.map(|duty| duty.command(new, me)).into_iter().collect();
    if must_abort(entry, outcome, old, new, me) {
        commands.push(AbortJoinCluster { joiner: me.clone() }.into());
    }
    commands.extend(volunteers(entry, old, new, me));
    commands
}

/// A volunteer, if the plan moves `me` and did not before this entry. One is enough, wherever the
/// plan wants us by the time it is played; if the plan still moves us after that, another is due.
fn volunteers(entry: &Entry, old: &Replica, new: &Replica, me: &PeerId) -> Option<Command> {
    let is_answered =
        || matches!(&entry.command, Command::VolunteerForTask(it) if it.peers.contains(me));
    let sleeps = || {
        let comes = matches!(&entry.command, Command::SubmitJob(_)) || !old.is_member(me);
        mutant::is_on(Mutant::IdleSleep) && old.assignment(me).is_none() && !comes
    };
    let is_due = new.moves(me) && (!old.moves(me) || is_answered()) && !sleeps();
    is_due.then(|| volunteer(me))
}

fn volunteer(me: &PeerId) -> Command {
    VolunteerForTask { peers: Vec::from([me.clone()]) }.into()
}

/// All that the cluster waits for `me` to say, whether it was said before or not.
pub(crate) fn owed(replica: &Replica, me: &PeerId) -> Vec<Command> {
    let duty = Duty::of(replica, me).map(|duty| duty.command(replica, me));
    duty.into_iter().chain(replica.moves(me).then(|| volunteer(me))).collect()
}

/// What the cluster waits for `me` to say. A peer has at most one duty: a member stitches one
/// joiner in at a time, and a joiner is no member.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Duty {
    anchor: PeerId,
    join: Join,
}

impl Duty {
    fn of(replica: &Replica, me: &PeerId) -> Option<Duty> {
        let (as_joiner, as_member, mine) = match replica.join_protocol() {
            JoinProtocol::ThreePhase => (Phase::Accepted, Phase::Prepared, me),
            JoinProtocol::TwoPhase => (Phase::Prepared, Phase::Accepted, replica.successor(me)),
        };
        let (anchor, phase) = match replica.anchors.get(me) {
            Some(anchor) => (anchor, as_joiner),
            None => (mine, as_member),
        };
        let join = replica.joins.get(anchor).filter(|join| join.phase == phase)?;
        Some(Duty { anchor: anchor.clone(), join: join.clone() })
    }

    /// Whether `me` had this very duty in `replica` already, and has said so.
    fn is_of(&self, replica: &Replica, me: &PeerId) -> bool {
        Duty::of(replica, me).as_ref() == Some(self)
    }

    fn command(&self, replica: &Replica, me: &PeerId) -> Command {
        let joiner = self.join.joiner.clone();
        let (observer, subject) = match replica.join_protocol() {
            JoinProtocol::ThreePhase => (self.anchor.clone(), replica.successor(&self.anchor)),
            JoinProtocol::TwoPhase => (replica.predecessor(&self.anchor).clone(), &self.anchor),
        };
        let subject = subject.clone();
        match (replica.join_protocol(), joiner == *me) {
            (JoinProtocol::ThreePhase, false) => {
                NotifyJoinCluster { joiner, observer, subject }.into()
            }
            (JoinProtocol::TwoPhase, true) => NotifyWatchers { joiner, observer, subject }.into(),
            (JoinProtocol::ThreePhase, true) | (JoinProtocol::TwoPhase, false) => {
                AcceptJoinCluster { joiner, observer, subject }.into()
            }
        }
    }
}

/// Whether `me` sees by this entry that its join cannot go on.
fn must_abort(entry: &Entry, outcome: &Outcome, old: &Replica, new: &Replica, me: &PeerId) -> bool {
    if new.is_member(me) || new.is_joining(me) {
        return false;
    }
    let was_forgotten = old.is_joining(me) && !mutant::is_on(Mutant::NoAbortWhenForgotten);
    match &entry.command {
        Command::PrepareJoinCluster(it) if it.joiner == *me => {
            is_refusal(outcome) && !mutant::is_on(Mutant::NoAbortWhenRefused)
        }
        Command::NotifyJoinCluster(it) if it.joiner == *me => {
            outcome.is_err() && !mutant::is_on(Mutant::NoAbortWhenNotifyRefused)
        }
        Command::NotifyWatchers(it) if it.joiner == *me => {
            outcome.is_err() && !mutant::is_on(Mutant::NoAbortWhenNotifyRefused)
        }
        Command::AcceptJoinCluster(it) if it.joiner == *me => {
            outcome.is_err() && !mutant::is_on(Mutant::NoAbortWhenAcceptRefused)
        }
        // These two are the end of the join already; nothing is left to abort.
        Command::AbortJoinCluster(it) if it.joiner == *me => false,
        Command::LeaveCluster(it) if it.peer == *me => false,
        Command::ConfigureCluster(_)
        | Command::PrepareJoinCluster(_)
        | Command::NotifyJoinCluster(_)
        | Command::NotifyWatchers(_)
        | Command::AcceptJoinCluster(_)
        | Command::AbortJoinCluster(_)
        | Command::LeaveCluster(_)
        | Command::PeerGc(_)
        | Command::SubmitJob(_)
        | Command::VolunteerForTask(_)
        | Command::SealTask(_)
        | Command::CompleteTask(_)
        | Command::KillJob(_)
        | Command::Gc(_) => was_forgotten,
    }
}

/// Whether a `prepare-join-cluster` was refused for a reason that may pass.
fn is_refusal(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Rejected::NoCandidate | Rejected::ClusterFull(_)))
}

/// What `me` does in answer to the entry itself, beside what the difference shows.
fn answers(entry: &Entry, outcome: &Outcome, new: &Replica, me: &PeerId) -> Vec<Effect> {
    match &entry.command {
        Command::PrepareJoinCluster(it) if it.joiner == *me && is_refusal(outcome) => {
            probe_one(entry, new)
        }
        Command::AbortJoinCluster(it)
            if it.joiner == *me && (!new.is_member(me) || mutant::is_on(Mutant::MemberAborts)) =>
        {
            Vec::from([Effect::BackOff])
        }
        Command::LeaveCluster(it) if it.peer == *me && !mutant::is_on(Mutant::NoSelfStop) => {
            Vec::from([Effect::Stop])
        }
        Command::PeerGc(it) if it.peer == *me => {
            new.peers_by_id().filter(|peer| *peer != me).cloned().map(Effect::Probe).collect()
        }
        Command::ConfigureCluster(_)
        | Command::PrepareJoinCluster(_)
        | Command::NotifyJoinCluster(_)
        | Command::NotifyWatchers(_)
        | Command::AcceptJoinCluster(_)
        | Command::AbortJoinCluster(_)
        | Command::LeaveCluster(_)
        | Command::PeerGc(_)
        | Command::SubmitJob(_)
        | Command::VolunteerForTask(_)
        | Command::SealTask(_)
        | Command::CompleteTask(_)
        | Command::KillJob(_)
        | Command::Gc(_) => Vec::new(),
    }
}

/// The member to look at when nobody could take us: if they all died in the middle of joins,
/// nobody else is left to notice.
fn probe_one(entry: &Entry, replica: &Replica) -> Vec<Effect> {
    if mutant::is_on(Mutant::NoProbe) {
        return Vec::new();
    }
    let index = entry.position.pick(replica.n_peers());
    let member = index.and_then(|index| replica.members.nth(index));
    member.map(|(peer, _)| Effect::Probe(peer.clone())).into_iter().collect()
}
