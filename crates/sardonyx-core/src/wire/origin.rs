//! A replica as JSON: what an origin holds, what people see, and what the digest is taken of.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::{Deserialize, Deserializer, de};

use super::terms::LimitsForm;
use crate::{
    id::{JobId, PeerId, Position, TaskId},
    replica::{
        JobScheduler, Join, JoinProtocol, Limits, Member, Origin, Phase, Replica,
        job::{Job, JobOutcome, JobState, Percentage, TaskLimits, TaskScheduler, Terms},
        laws,
    },
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
    jobs: Vec<JobForm>,
    outcomes: OutcomesForm,
    origin: Option<Origin>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct JobForm {
    id: JobId,
    #[serde(default)]
    state: Option<JobState>,
    #[serde(default)]
    task_scheduler: TaskScheduler,
    #[serde(default)]
    percentage: Option<Percentage>,
    #[serde(default)]
    partial_coverage_protection: bool,
    tasks: Vec<TaskId>,
    #[serde(default)]
    limits: BTreeMap<TaskId, LimitsForm>,
    #[serde(default)]
    allocations: BTreeMap<TaskId, Vec<PeerId>>,
    #[serde(default)]
    epochs: BTreeMap<PeerId, Position>,
    #[serde(default)]
    completions: Vec<TaskId>,
    #[serde(default)]
    sealing: BTreeMap<TaskId, PeerId>,
    /// Computed anew.
    #[serde(default, rename = "waiting")]
    _waiting: Option<String>,
}

/// Outcomes in the order in which they are written, oldest first: the oldest go first.
#[derive(Default)]
struct OutcomesForm(Vec<(JobId, JobOutcome)>);

impl<'de> Deserialize<'de> for OutcomesForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> de::Visitor<'de> for InOrder {
            type Value = OutcomesForm;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of job ids and outcomes")
            }

            fn visit_map<A: de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<OutcomesForm, A::Error> {
                let mut outcomes = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    outcomes.push(entry);
                }
                Ok(OutcomesForm(outcomes))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum PeerState {
    Idle,
    Active,
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
    for job in &form.jobs {
        add_job(&mut replica, job).map_err(|why| BadOrigin(format!("job {}: {why}", job.id)))?;
    }
    for (job, outcome) in form.outcomes.0 {
        if replica.job(&job).is_some() || replica.collected.contains(&job) {
            return Err(BadOrigin(format!("job {job} is there twice")));
        }
        replica.remember_outcome(job, outcome);
    }
    replica.origin = form.origin;
    check_states(&replica, &form.peer_state)?;
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
    let member = |seat| Member { watches: None, watched_by: None, seat, slot: None };
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
    replica.idle =
        Tree::from_growing((0..form.peers.len() as u64).map(|seat| (seat, ())).collect());
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

/// `peer-state` says nothing that the jobs do not say; if it is there, it must say the same.
fn check_states(replica: &Replica, states: &BTreeMap<PeerId, PeerState>) -> Result<(), BadOrigin> {
    for (peer, state) in states {
        if !replica.is_member(peer) {
            return Err(BadOrigin(format!("peer-state names {peer}, which is not in peers")));
        }
        if replica.slot(peer).is_some() != (*state == PeerState::Active) {
            return Err(BadOrigin(format!("peer-state of {peer} contradicts the allocations")));
        }
    }
    Ok(())
}

fn add_job(replica: &mut Replica, form: &JobForm) -> Result<(), String> {
    if replica.job(&form.id).is_some() {
        return Err("is there twice".into());
    }
    let limits = |task| form.limits.get(task).copied().map(TaskLimits::from).unwrap_or_default();
    let terms = Terms {
        tasks: form.tasks.iter().map(|task| (task.clone(), limits(task))).collect(),
        task_scheduler: form.task_scheduler,
        percentage: form.percentage,
        partial_coverage_protection: form.partial_coverage_protection,
    };
    terms.check()?;
    let mut job = Job::new(form.id.clone(), terms);
    let index = |job: &Job, task: &TaskId| {
        job.task_index(task).ok_or_else(|| format!("has no task {task}"))
    };
    for task in &form.completions {
        let at = index(&job, task)?;
        job.tasks[at].is_completed = true;
    }
    let all_done = job.tasks.iter().all(|task| task.is_completed);
    job.outcome = match form.state {
        Some(JobState::Killed) => Some(JobOutcome::Killed),
        Some(JobState::Completed) | None if all_done => Some(JobOutcome::Completed),
        Some(JobState::Completed) => return Err("is completed, but not all its tasks are".into()),
        Some(JobState::Pending | JobState::Running) | None => None,
    };
    for (task, peer) in &form.sealing {
        let at = index(&job, task)?;
        job.tasks[at].sealer = Some(peer.clone());
    }
    replica.add_job(job.clone());
    let place = replica.jobs.last().map_or(0, |(place, _)| *place);
    for (task, peers) in &form.allocations {
        let at = index(&job, task)?;
        for peer in peers {
            if !replica.is_member(peer) {
                return Err(format!("is run by {peer}, which is not in peers"));
            }
            if replica.slot(peer).is_some() {
                return Err(format!("is run by {peer}, which runs something already"));
            }
            let since = form.epochs.get(peer).copied().unwrap_or_default();
            replica.assign(peer, place, at, since);
        }
    }
    Ok(())
}
