//! A replica as JSON: what an origin holds, what people see, and what the digest is taken of.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::Deserialize;

use crate::{
    id::PeerId,
    replica::{JobScheduler, Join, JoinProtocol, Limits, Member, Phase, Replica, laws},
    tree::Tree,
};

/// Why a text is not a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadOrigin(String);

impl fmt::Display for BadOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for BadOrigin {}

/// The replica as one line of JSON.
pub fn replica_to_json(replica: &Replica) -> String {
    serde_json::to_string(replica).unwrap_or_default()
}

/// The digest by which two nodes see that they have the same replica.
pub fn digest(replica: &Replica) -> [u8; 32] {
    blake3::hash(replica_to_json(replica).as_bytes()).into()
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct ReplicaForm {
    join_protocol: Option<JoinProtocol>,
    job_scheduler: Option<JobScheduler>,
    limits: Limits,
    peers: Vec<PeerId>,
    pairs: Option<BTreeMap<PeerId, PeerId>>,
    prepared: BTreeMap<PeerId, PeerId>,
    accepted: BTreeMap<PeerId, PeerId>,
    peer_state: BTreeMap<PeerId, PeerState>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum PeerState {
    Idle,
}

/// Reads a replica. Every key may be left out and is then empty, but for `pairs`: members without
/// pairs form the ring in join order, since no cluster is without one.
pub fn replica_from_json(text: &str) -> Result<Replica, BadOrigin> {
    let form: ReplicaForm = serde_json::from_str(text).map_err(|why| BadOrigin(why.to_string()))?;
    let mut replica = Replica::configured(form.join_protocol, form.job_scheduler);
    replica.limits = form.limits;
    seat_members(&mut replica, &form)?;
    for (phase, joins) in [(Phase::Prepared, &form.prepared), (Phase::Accepted, &form.accepted)] {
        add_joins(&mut replica, phase, joins)?;
    }
    for peer in form.peer_state.keys() {
        if !replica.is_member(peer) {
            return Err(BadOrigin(format!("peer-state names {peer}, which is not in peers")));
        }
    }
    let free = replica.peers_by_id().filter(|peer| replica.is_candidate(peer));
    replica.free = Tree::from_growing(free.map(|peer| (peer.clone(), ())).collect());
    laws::check(&replica).map_err(|broken| BadOrigin(format!("no such cluster: {broken}")))?;
    Ok(replica)
}

/// Seats the members in the order given and links them, sharing one copy of each id.
fn seat_members(replica: &mut Replica, form: &ReplicaForm) -> Result<(), BadOrigin> {
    let mut by_id: Vec<_> = form.peers.iter().zip(0_u64..).collect();
    by_id.sort();
    if let Some(twice) = by_id.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(BadOrigin(format!("peers names {} twice", twice[0].0)));
    }
    let find = |id: &PeerId| {
        let found = by_id.binary_search_by(|(peer, _)| (*peer).cmp(id));
        found.map_err(|_| BadOrigin(format!("pairs names {id}, which is not in peers")))
    };
    let member = |seat| Member { watches: None, watched_by: None, seat };
    let mut members: Vec<_> = by_id.iter().map(|(_, seat)| member(*seat)).collect();
    let in_order = || {
        let after = form.peers.iter().cycle().skip(1);
        form.peers.iter().zip(after).filter(|(peer, next)| peer != next).collect()
    };
    let pairs: Vec<_> = form.pairs.as_ref().map_or_else(in_order, |it| it.iter().collect());
    for (watcher, watched) in pairs {
        let (from, to) = (find(watcher)?, find(watched)?);
        members[from].watches = Some(by_id[to].0.clone());
        members[to].watched_by = Some(by_id[from].0.clone());
    }
    let ids = by_id.iter().map(|(peer, _)| (*peer).clone());
    replica.members = Tree::from_growing(ids.zip(members).collect());
    replica.seats = Tree::from_growing((0..).zip(form.peers.iter().cloned()).collect());
    Ok(())
}

fn add_joins(
    replica: &mut Replica,
    phase: Phase,
    joins: &BTreeMap<PeerId, PeerId>,
) -> Result<(), BadOrigin> {
    for (left, right) in joins {
        let (anchor, joiner) = match replica.join_protocol() {
            JoinProtocol::ThreePhase => (left, right),
            JoinProtocol::TwoPhase => (right, left),
        };
        if replica.is_joining(joiner) || replica.joins.contains(anchor) {
            return Err(BadOrigin(format!("{joiner} or {anchor} is in two joins at once")));
        }
        let join = Join { joiner: joiner.clone(), phase };
        replica.joins.insert(anchor.clone(), join);
        replica.anchors.insert(joiner.clone(), anchor.clone());
    }
    Ok(())
}
