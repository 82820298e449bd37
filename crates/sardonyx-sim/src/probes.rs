//! Rare paths, counted: a campaign that never saw one has not tested it.

use sardonyx_core::{Command, Entry, PeerId, Phase, Replica, replica::job::Job};

/// How often each rare path was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// A join was given up.
    pub joins_aborted: u64,
    /// An observer left between notify and accept.
    pub observers_lost_between_notify_and_accept: u64,
    /// A reader found its next entry trimmed.
    pub readers_overtaken_by_gc: u64,
    /// That happened to a node in the middle of a join.
    pub joiners_overtaken_by_gc: u64,
    /// A peer left while it was sealing a task.
    pub sealers_lost: u64,
    /// Nobody of those who were in was left.
    pub clusters_replaced: u64,
    /// A repeated append was passed over.
    pub copies_dropped: u64,
    /// A peer that was alive saw its own leave.
    pub ids_given_up: u64,
    /// A node caught up in bulk.
    pub bulk_reads: u64,
    /// A process found its session gone.
    pub sessions_lost: u64,
    /// Something happened just at a bad moment.
    pub ambushes: u64,
    /// An old command was appended once more.
    pub echoes: u64,
    /// A protected job lost what covered it.
    pub jobs_uncovered: u64,
    /// A task was completed.
    pub tasks_completed: u64,
    /// The loop of a process failed.
    pub loops_failed: u64,
    /// A node trimmed the log by itself.
    pub trims_by_nodes: u64,
    /// Whoever trimmed died in the middle of it.
    pub trims_cut_short: u64,
    /// Somebody else had stored a later origin.
    pub origins_too_late: u64,
}

impl Probes {
    /// The counts by name.
    pub fn counts(&self) -> [(&'static str, u64); 18] {
        [
            ("joins aborted", self.joins_aborted),
            (
                "observers lost between notify and accept",
                self.observers_lost_between_notify_and_accept,
            ),
            ("readers overtaken by gc", self.readers_overtaken_by_gc),
            ("joiners overtaken by gc", self.joiners_overtaken_by_gc),
            ("sealers lost", self.sealers_lost),
            ("clusters replaced", self.clusters_replaced),
            ("copies dropped", self.copies_dropped),
            ("ids given up", self.ids_given_up),
            ("bulk reads", self.bulk_reads),
            ("sessions lost", self.sessions_lost),
            ("ambushes", self.ambushes),
            ("echoes", self.echoes),
            ("protected jobs uncovered", self.jobs_uncovered),
            ("tasks completed", self.tasks_completed),
            ("loops failed", self.loops_failed),
            ("trims by nodes", self.trims_by_nodes),
            ("trims cut short", self.trims_cut_short),
            ("origins too late", self.origins_too_late),
        ]
    }

    /// Adds what another run saw.
    pub fn add(&mut self, other: &Probes) {
        self.joins_aborted += other.joins_aborted;
        self.observers_lost_between_notify_and_accept +=
            other.observers_lost_between_notify_and_accept;
        self.readers_overtaken_by_gc += other.readers_overtaken_by_gc;
        self.joiners_overtaken_by_gc += other.joiners_overtaken_by_gc;
        self.sealers_lost += other.sealers_lost;
        self.sessions_lost += other.sessions_lost;
        self.ambushes += other.ambushes;
        self.echoes += other.echoes;
        self.jobs_uncovered += other.jobs_uncovered;
        self.clusters_replaced += other.clusters_replaced;
        self.copies_dropped += other.copies_dropped;
        self.ids_given_up += other.ids_given_up;
        self.bulk_reads += other.bulk_reads;
        self.tasks_completed += other.tasks_completed;
        self.loops_failed += other.loops_failed;
        self.trims_by_nodes += other.trims_by_nodes;
        self.trims_cut_short += other.trims_cut_short;
        self.origins_too_late += other.origins_too_late;
    }

    pub(crate) fn see(&mut self, entry: &Entry, old: &Replica, new: &Replica) {
        let uncovered = |(was, now): &(&Job, &Job)| {
            let is_protected = was.terms().partial_coverage_protection;
            is_protected && now.is_live() && was.n_peers() > 1 && now.n_peers() == 0
        };
        let lost = old.jobs().zip(new.jobs()).filter(uncovered).count();
        self.jobs_uncovered += lost as u64;
        if let Command::LeaveCluster(it) = &entry.command {
            let accepted = old.joins_in(Phase::Accepted);
            let was_observer =
                accepted.contains_key(&it.peer) || accepted.values().any(|at| **at == it.peer);
            let was_sealer = |peer: &PeerId| {
                old.jobs().any(|job| job.sealing().any(|(_, sealer)| sealer == peer))
            };
            self.observers_lost_between_notify_and_accept += u64::from(was_observer);
            self.sealers_lost += u64::from(was_sealer(&it.peer));
            self.clusters_replaced += u64::from(old.n_peers() > 0 && new.n_peers() == 0);
        }
        if let Command::AbortJoinCluster(_) = &entry.command {
            self.joins_aborted += 1;
        }
        let done = |replica: &Replica| -> usize {
            replica.jobs().map(|job| job.completions().count()).sum()
        };
        self.tasks_completed += done(new).saturating_sub(done(old)) as u64;
    }
}
