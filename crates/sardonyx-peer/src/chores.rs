//! Chores that one node does for all: trimming the log, forgetting jobs that are long over.
//!
//! Without a mesh, nodes take turns at trimming ([`LogSize::whose_turn`]) and nothing expires. With
//! one there is an [`Office`]: whoever leads the mesh, elected and with a valid token, holds it, and
//! nobody else does chores. It is asked for right before each thing that is done, and again while
//! that takes long; what is under way when the office is lost is dropped.
//!
//! What is dropped, or done by somebody who was stopped between asking and acting, does no harm: `gc`
//! is an entry like any other, origins only go forward, and entries are forgotten last. The office is
//! there so that work is done once, not so that it is safe.
//!
//! Both chores are one command, `gc`. [`Chores`] says when it is due, and is pure: the cluster and
//! the time come in.

use std::{collections::BTreeMap, fmt, pin::pin, sync::Arc, time::Duration};

use sardonyx_core::{JobId, Replica};
use sardonyx_mesh::Mesh;

use crate::log_size::LogSize;

/// How long nothing more is said after a `gc`, if nothing is heard of it.
const SAID_MAX: Duration = Duration::from_secs(10);

/// For how much longer this node holds the office, if nothing is heard from others until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    /// The number of the leadership: a later one is larger.
    pub version: u64,
    /// The rest of it.
    pub left: Duration,
}

/// The right to do chores, which one node has at a time.
#[derive(Clone)]
pub struct Office {
    /// Says whether this node holds it now.
    pub term: Arc<dyn Fn() -> Option<Term> + Send + Sync>,
    /// How long jobs are kept that are over.
    pub history: HistoryTerms,
}

impl fmt::Debug for Office {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Office").field("history", &self.history).finish_non_exhaustive()
    }
}

impl Office {
    /// That of a mesh's leader, while it has a token.
    pub fn in_mesh(mesh: &Arc<Mesh>, history: HistoryTerms) -> Office {
        let mesh = Arc::clone(mesh);
        let term = move || {
            let token = mesh.fencing_token()?;
            Some(Term { version: token.version.0, left: token.valid_until.since(Mesh::now()) })
        };
        Office { term: Arc::new(term), history }
    }

    /// Does `work` while this node holds the office. `None` if it does not, or lost it meanwhile: then
    /// the work may be done, or half done.
    pub(crate) async fn act<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            let term = (self.term)()?;
            if let Ok(done) = tokio::time::timeout(term.left, &mut work).await {
                return Some(done);
            }
        }
    }
}

/// Does `work`, in office if there is one.
pub(crate) async fn act_in<T>(office: Option<&Office>, work: impl Future<Output = T>) -> Option<T> {
    match office {
        Some(office) => office.act(work).await,
        None => Some(work.await),
    }
}

/// How long jobs that are over stay in the cluster with all their details. From then on only how
/// they ended is kept, of the newest `outcomes-max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryTerms {
    /// At most so many; `None` for any number.
    pub jobs_max: Option<u64>,
    /// At most for so long; `None` for ever.
    pub age_max: Option<Duration>,
}

/// Why a `gc` is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// The log has so many entries.
    Entries(u64),
    /// So many jobs are over.
    EndedJobs(u64),
    /// A job has been over for so long.
    OldJob(Duration),
    /// The cluster has as many jobs as it may have, and some of them are over.
    NoRoom,
    /// Somebody said `gc`, and the log was not trimmed.
    Unfinished,
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Due::Entries(n) => write!(f, "the log has {n} entries"),
            Due::EndedJobs(n) => write!(f, "{n} jobs are over"),
            Due::OldJob(age) => write!(f, "a job has been over for {} s", age.as_secs()),
            Due::NoRoom => f.write_str("the cluster has as many jobs as it may have"),
            Due::Unfinished => f.write_str("the log was not trimmed after the last gc"),
        }
    }
}

/// What one node knows of the chores. It knows it whether it holds the office or not, so that it can
/// begin at once.
#[derive(Debug)]
pub struct Chores {
    history: HistoryTerms,
    /// When jobs were first seen to be over. A node that came later saw them later: they stay longer,
    /// never shorter.
    ended: BTreeMap<JobId, Duration>,
    said: Option<Duration>,
    is_trimming: bool,
    is_unfinished: bool,
    /// The last office that we held.
    version: Option<u64>,
}

impl Chores {
    /// Nothing has been seen yet.
    pub fn new(history: HistoryTerms) -> Chores {
        Chores {
            history,
            ended: BTreeMap::new(),
            said: None,
            is_trimming: false,
            is_unfinished: false,
            version: None,
        }
    }

    /// Whether a `gc` is to be said, and why. `now` is a time that grows.
    pub fn due(&mut self, size: &LogSize, replica: &Replica, now: Duration) -> Option<Due> {
        let ended = || replica.jobs().filter(|job| !job.is_live());
        self.ended.retain(|id, _| replica.job(id).is_some_and(|job| !job.is_live()));
        for job in ended() {
            if !self.ended.contains_key(job.id()) {
                self.ended.insert(job.id().clone(), now);
            }
        }
        let is_waiting = self.said.is_some_and(|at| now.saturating_sub(at) < SAID_MAX);
        if is_waiting || self.is_trimming {
            return None;
        }
        let n_ended = self.ended.len() as u64;
        let oldest = self.ended.values().min().map(|at| now.saturating_sub(*at));
        if self.is_unfinished {
            return Some(Due::Unfinished);
        }
        if let Some(n_entries) = size.over() {
            return Some(Due::Entries(n_entries));
        }
        if self.history.jobs_max.is_some_and(|max| n_ended > max) {
            return Some(Due::EndedJobs(n_ended));
        }
        if let (Some(max), Some(age)) = (self.history.age_max, oldest)
            && age > max
        {
            return Some(Due::OldJob(age));
        }
        let n_jobs = replica.jobs().count();
        (n_ended > 0 && n_jobs >= replica.limits().jobs_max as usize).then_some(Due::NoRoom)
    }

    /// Whether this office is another one than we held last: then it is to be looked whether its last
    /// holder died between its `gc` and trimming.
    pub fn takes_office(&mut self, version: u64) -> bool {
        self.version.replace(version) != Some(version)
    }

    /// A `gc` was said, by us or somebody before us, and the log was not trimmed.
    pub fn is_unfinished(&mut self) {
        self.is_unfinished = true;
    }

    /// A `gc` is being said.
    pub fn said(&mut self, now: Duration) {
        self.said = Some(now);
        self.is_unfinished = false;
    }

    /// A `gc` was played, or ours could not be said.
    pub fn over(&mut self) {
        self.said = None;
    }

    /// We are storing an origin, or have stopped doing so. One at a time.
    pub fn trims(&mut self, is_trimming: bool) {
        self.is_trimming = is_trimming;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sardonyx_core::{
        Command, Entry, PeerId, Position, TaskId,
        command::{ConfigureCluster, Gc, JobText, KillJob, SubmitJob},
    };

    use super::*;

    const NONE: HistoryTerms = HistoryTerms { jobs_max: None, age_max: None };
    const SECOND: Duration = Duration::from_secs(1);

    struct Cluster {
        replica: Replica,
        size: LogSize,
    }

    impl Cluster {
        fn new(trim_after: Option<u64>) -> Cluster {
            Cluster { replica: Replica::new(), size: LogSize::new(trim_after) }
        }

        fn play(&mut self, command: impl Into<Command>) {
            let entry = Entry { position: Position(0), command: command.into() };
            self.replica.play(&entry).unwrap();
            self.size.note(&entry);
        }

        fn submit(&mut self, name: &str) {
            let tasks = vec![TaskId::new("t").unwrap()];
            let job = JobText::new("{\"catalog\":{\"t\":{}}}");
            self.play(SubmitJob { id: JobId::new(name).unwrap(), job, tasks });
        }

        fn end(&mut self, name: &str) {
            self.play(KillJob { job: JobId::new(name).unwrap(), reason: String::new() });
        }

        fn gc(&mut self) {
            self.play(Gc { caller: PeerId::new("x").unwrap() });
        }

        fn due(&self, chores: &mut Chores, at: Duration) -> Option<Due> {
            chores.due(&self.size, &self.replica, at)
        }
    }

    #[test]
    fn the_log_is_collected_when_it_is_long_and_once() {
        let (mut cluster, mut chores) = (Cluster::new(Some(3)), Chores::new(NONE));
        cluster.submit("a");
        cluster.submit("b");
        assert_eq!(cluster.due(&mut chores, SECOND), None);
        cluster.submit("c");
        assert_eq!(cluster.due(&mut chores, SECOND), Some(Due::Entries(3)));
        chores.said(SECOND);
        assert_eq!(cluster.due(&mut chores, 2 * SECOND), None, "it was said");
        assert_eq!(
            cluster.due(&mut chores, SECOND + SAID_MAX),
            Some(Due::Entries(3)),
            "nothing came of it"
        );
        chores.over();
        chores.trims(true);
        assert_eq!(cluster.due(&mut chores, 2 * SECOND), None, "one origin at a time");
        chores.trims(false);
        cluster.gc();
        assert_eq!(cluster.due(&mut chores, 60 * SECOND), None);
    }

    #[test]
    fn more_ended_jobs_than_are_kept_are_collected() {
        let terms = HistoryTerms { jobs_max: Some(2), ..NONE };
        let (mut cluster, mut chores) = (Cluster::new(None), Chores::new(terms));
        ["a", "b", "c", "d"].iter().for_each(|name| cluster.submit(name));
        ["a", "b"].iter().for_each(|name| cluster.end(name));
        assert_eq!(cluster.due(&mut chores, SECOND), None);
        cluster.end("c");
        assert_eq!(cluster.due(&mut chores, SECOND), Some(Due::EndedJobs(3)));
        cluster.gc();
        assert_eq!(cluster.due(&mut chores, SECOND), None);
        assert_eq!(cluster.replica.jobs().count(), 1, "the one that runs");
    }

    #[test]
    fn a_job_is_old_from_when_it_was_seen_to_be_over() {
        let terms = HistoryTerms { age_max: Some(10 * SECOND), ..NONE };
        let (mut cluster, mut chores) = (Cluster::new(None), Chores::new(terms));
        cluster.submit("a");
        cluster.submit("b");
        assert_eq!(cluster.due(&mut chores, SECOND), None);
        cluster.end("a");
        assert_eq!(cluster.due(&mut chores, 100 * SECOND), None);
        cluster.end("b");
        assert_eq!(cluster.due(&mut chores, 110 * SECOND), None, "not older than that");
        let due = cluster.due(&mut chores, 111 * SECOND);
        assert_eq!(due, Some(Due::OldJob(11 * SECOND)));
        cluster.gc();
        assert_eq!(cluster.due(&mut chores, 200 * SECOND), None);
        assert!(chores.ended.is_empty());
    }

    #[test]
    fn what_was_left_half_done_is_due_until_it_is_said_again() {
        let (cluster, mut chores) = (Cluster::new(None), Chores::new(NONE));
        assert!(chores.takes_office(3) && !chores.takes_office(3) && chores.takes_office(4));
        assert_eq!(cluster.due(&mut chores, SECOND), None);
        chores.is_unfinished();
        assert_eq!(cluster.due(&mut chores, SECOND), Some(Due::Unfinished));
        chores.said(SECOND);
        chores.over();
        assert_eq!(cluster.due(&mut chores, SECOND), None);
    }

    #[test]
    fn a_cluster_that_is_full_makes_room_if_it_can() {
        let (mut cluster, mut chores) = (Cluster::new(None), Chores::new(NONE));
        cluster.play(ConfigureCluster { jobs_max: Some(2), ..Default::default() });
        cluster.submit("a");
        cluster.submit("b");
        assert_eq!(cluster.due(&mut chores, SECOND), None, "nothing is over");
        cluster.end("a");
        assert_eq!(cluster.due(&mut chores, SECOND), Some(Due::NoRoom));
        cluster.gc();
        cluster.end("b");
        assert_eq!(cluster.due(&mut chores, SECOND), None, "there is room");
    }

    fn office(term: impl Fn() -> Option<Term> + Send + Sync + 'static) -> Office {
        Office { term: Arc::new(term), history: NONE }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_done_out_of_office() {
        let was_done = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&was_done);
        let work = async move { count.fetch_add(1, Ordering::Relaxed) };
        assert_eq!(office(|| None).act(work).await, None);
        assert_eq!(was_done.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn long_work_goes_on_while_the_office_is_held_and_no_longer() {
        // Three terms of a second each, and then no more.
        let n_asked = Arc::new(AtomicU64::new(0));
        let asked = Arc::clone(&n_asked);
        let office = office(move || {
            let n = asked.fetch_add(1, Ordering::Relaxed);
            (n < 3).then_some(Term { version: 1, left: SECOND })
        });
        let short = office.act(tokio::time::sleep(Duration::from_millis(1_500))).await;
        assert_eq!((short, n_asked.load(Ordering::Relaxed)), (Some(()), 2));
        n_asked.store(0, Ordering::Relaxed);
        let begun = tokio::time::Instant::now();
        let long = office.act(tokio::time::sleep(60 * SECOND)).await;
        assert_eq!((long, begun.elapsed()), (None, 3 * SECOND));
    }
}
