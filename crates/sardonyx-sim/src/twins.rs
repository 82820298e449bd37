//! What the cluster decides, once more and in the plainest way, from nothing but what people see:
//! which member takes a joiner in, how many peers each job gets, and when it lets go of them. Compared
//! after every entry.
//!
//! A file that needs nothing but the core: whoever judges the logs of real processes includes it too.

use std::{cmp::Reverse, collections::BTreeSet};

use sardonyx_core::{
    Command, Entry, JobScheduler, JoinProtocol, Outcome, PeerId, Phase, Rejected, Replica,
    command::VolunteerForTask,
    replica::job::{Job, TaskLimits},
};

/// Everything here.
pub(crate) fn check(
    entry: &Entry,
    outcome: &Outcome,
    old: &Replica,
    new: &Replica,
) -> Result<(), String> {
    protected_jobs_are_covered(new)?;
    let is_full = matches!(outcome, Err(Rejected::ClusterFull(_)));
    if !is_full {
        the_anchor_is_the_one_to_choose(entry, old, new)?;
    }
    jobs_get_what_they_are_due(new)
}

/// A protected job runs whole or not at all: the entry after which there are too few peers takes
/// away those that it has. Holds after every entry, not only in the calm.
pub(crate) fn protected_jobs_are_covered(replica: &Replica) -> Result<(), String> {
    let protected = replica.jobs().filter(|job| job.terms().partial_coverage_protection);
    for job in protected.filter(|job| job.is_live() && job.n_peers() > 0) {
        let needed = peers_needed(job);
        if needed > replica.n_peers() {
            let (id, has, n) = (job.id(), job.n_peers(), replica.n_peers());
            return Err(format!(
                "protected jobs run whole or not at all: {id} holds {has}, needs {needed} of {n}"
            ));
        }
    }
    Ok(())
}

/// How few peers the job can be run with.
pub(crate) fn peers_needed(job: &Job) -> usize {
    let done: BTreeSet<_> = job.completions().collect();
    let open = job.terms().tasks.iter().filter(|(task, _)| !done.contains(task));
    let covered = u32::from(job.terms().partial_coverage_protection);
    // A task that is being sealed needs its sealer and nobody else.
    let sealing: BTreeSet<_> = job.sealing().map(|(task, _)| task).collect();
    let most = |task| if sealing.contains(task) { 1 } else { u32::MAX };
    let needs = open
        .map(|(task, limits)| limits.min_peers.unwrap_or(0).max(covered).min(most(task)) as usize);
    needs.sum::<usize>().max(1)
}

/// The candidates are the members without a joiner who do not watch one with a joiner in the first
/// phase; of these, by id, the one whose rank is the position modulo their number.
fn the_anchor_is_the_one_to_choose(
    entry: &Entry,
    old: &Replica,
    new: &Replica,
) -> Result<(), String> {
    let Command::PrepareJoinCluster(it) = &entry.command else { return Ok(()) };
    if old.n_peers() == 0 || old.is_member(&it.joiner) || old.is_joining(&it.joiner) {
        return Ok(());
    }
    let (prepared, accepted) = (anchors(old, Phase::Prepared), anchors(old, Phase::Accepted));
    let watches_one =
        |peer: &PeerId| old.pairs().any(|(who, whom)| who == peer && prepared.contains(whom));
    let is_free = |peer: &&PeerId| {
        !prepared.contains(*peer) && !accepted.contains(*peer) && !watches_one(peer)
    };
    let candidates: Vec<_> = old.peers_by_id().filter(is_free).collect();
    let rank = entry.position.0.checked_rem(candidates.len() as u64);
    let due = rank.and_then(|rank| candidates.get(rank as usize).copied());
    let taken = anchors(new, Phase::Prepared).into_iter().find(|at| !prepared.contains(at));
    match taken.as_ref() == due {
        true => Ok(()),
        false => Err(format!(
            "the anchor is the one to choose: {} joins at {taken:?} instead of {due:?}",
            it.joiner
        )),
    }
}

fn anchors(replica: &Replica, phase: Phase) -> BTreeSet<PeerId> {
    let joins = replica.joins_in(phase).into_iter();
    match replica.join_protocol() {
        JoinProtocol::ThreePhase => joins.map(|(observer, _)| observer.clone()).collect(),
        JoinProtocol::TwoPhase => joins.map(|(_, subject)| subject.clone()).collect(),
    }
}

/// When everybody who should move has moved, each live job has as many peers as its scheduler says.
fn jobs_get_what_they_are_due(replica: &Replica) -> Result<(), String> {
    let live: Vec<_> = replica.jobs().filter(|job| job.is_live()).collect();
    if live.is_empty() {
        return Ok(());
    }
    let seen: Vec<_> = live.iter().map(|job| Seen::of(job)).collect();
    let due = match replica.job_scheduler() {
        JobScheduler::Greedy => greedy(replica.n_peers(), &seen),
        JobScheduler::RoundRobin => by_turns(replica.n_peers(), &seen),
        JobScheduler::Percentage => by_shares(replica.n_peers(), &seen),
    };
    let settled = settled(replica);
    let gets = live.iter().map(|job| settled.job(job.id()).map_or(0, Job::n_peers));
    let gets: Vec<_> = gets.collect();
    match gets == due {
        true => Ok(()),
        false => Err(format!("jobs get what they are due: {gets:?} instead of {due:?}")),
    }
}

/// The cluster after every move that the plan wants.
fn settled(replica: &Replica) -> Replica {
    let peers: Vec<_> = replica.plan().movers().cloned().collect();
    let mut settled = replica.clone();
    let position = sardonyx_core::Position(u64::MAX);
    // Refused is a plan that moves nobody, and then this is the cluster.
    let _ = settled.play(&Entry { position, command: VolunteerForTask { peers }.into() });
    settled
}

/// A live job, as its scheduler sees it.
struct Seen {
    low: usize,
    high: usize,
    present: usize,
    share: u64,
}

impl Seen {
    fn of(job: &Job) -> Seen {
        let done: BTreeSet<_> = job.completions().collect();
        let sealing: BTreeSet<_> = job.sealing().map(|(task, _)| task).collect();
        let covered = usize::from(job.terms().partial_coverage_protection);
        let (mut low, mut high, mut present) = (0, 0_usize, 0);
        for ((task, limits), (_, peers)) in job.terms().tasks.iter().zip(job.allocations()) {
            if done.contains(task) {
                continue;
            }
            let n = peers.count();
            let (must, most) = bounds(limits, covered, sealing.contains(task).then_some(n));
            low += must;
            high = high.saturating_add(most);
            present += n;
        }
        let share = u64::from(job.terms().percentage.unwrap_or_default().hundredths());
        Seen { low, high, present, share }
    }
}

/// What a task needs and can use. One that is being sealed keeps whom it has, and needs one.
fn bounds(limits: &TaskLimits, covered: usize, sealed_by: Option<usize>) -> (usize, usize) {
    let low = limits.min_peers.map_or(0, |min| min as usize).max(covered);
    let high = limits.max_peers.map_or(usize::MAX, |max| max as usize);
    sealed_by.map_or((low, high), |n| (low.min(1), high.min(n)))
}

fn greedy(peers: usize, jobs: &[Seen]) -> Vec<usize> {
    let mut left = peers;
    let mut due = Vec::new();
    for job in jobs {
        let n = if left < job.low { 0 } else { left.min(job.high) };
        left -= n;
        due.push(n);
    }
    due
}

/// What covers each job in the order of submission; then one by one to the covered job with the
/// fewest and room for more, and among those rather to one that has more than that already.
fn by_turns(peers: usize, jobs: &[Seen]) -> Vec<usize> {
    let mut left = peers;
    let mut due = Vec::new();
    for job in jobs {
        due.push((job.low <= left).then_some(job.low));
        left -= due.last().copied().flatten().unwrap_or(0);
    }
    while left > 0 {
        let with_room = (0..jobs.len()).filter_map(|at| Some((due[at]?, at)));
        let with_room = with_room.filter(|(n, at)| *n < jobs[*at].high);
        let next = with_room.min_by_key(|(n, at)| (*n, jobs[*at].present <= *n, *at));
        let Some((n, at)) = next else { break };
        due[at] = Some(n + 1);
        left -= 1;
    }
    due.into_iter().map(|n| n.unwrap_or(0)).collect()
}

/// The largest shares first, while they fit into the whole; each rounded down, and what rounding
/// lost one by one to the largest remainders.
fn by_shares(peers: usize, jobs: &[Seen]) -> Vec<usize> {
    const WHOLE: u64 = 10_000;
    let mut ranked: Vec<_> = (0..jobs.len()).collect();
    ranked.sort_by_key(|at| (Reverse(jobs[*at].share), *at));
    let (mut within, mut sum) = (Vec::new(), 0);
    for at in ranked {
        sum += jobs[at].share;
        if sum > WHOLE {
            sum -= jobs[at].share;
            break;
        }
        within.push(at);
    }
    let exact = |at: usize| peers as u64 * jobs[at].share;
    let mut due = vec![0; jobs.len()];
    within.iter().for_each(|at| due[*at] = (exact(*at) / WHOLE) as usize);
    let seats = (peers as u64 * sum / WHOLE) as usize;
    let lost = seats - due.iter().sum::<usize>();
    within.sort_by_key(|at| Reverse(exact(*at) % WHOLE));
    within.iter().take(lost).for_each(|at| due[*at] += 1);
    let bounded = |(n, job): (usize, &Seen)| if n < job.low { 0 } else { n.min(job.high) };
    due.into_iter().zip(jobs).map(bounded).collect()
}
