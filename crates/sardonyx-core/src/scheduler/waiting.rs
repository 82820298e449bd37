//! Why a job waits, in words for the person who looks.

use alloc::{collections::BTreeMap, format, string::String};

use crate::{
    id::JobId,
    replica::{JobScheduler, Replica, job::Job},
    scheduler::JobView,
};

impl Replica {
    /// Why `job` runs nothing now; `None` when it does, or is over.
    pub fn waiting(&self, job: &Job) -> Option<String> {
        self.all_waiting().remove(&job.id)
    }

    /// Why each job waits that does, found in one go: a list of all jobs asks for all of them.
    pub fn all_waiting(&self) -> BTreeMap<JobId, String> {
        let is_waiting = |job: &Job| job.is_live() && job.n_peers() == 0;
        if !self.jobs.values().any(is_waiting) {
            return BTreeMap::new();
        }
        let (jobs, plan) = (self.live_jobs(), self.plan());
        let total: usize = jobs.iter().map(|view| plan.n_peers_of(view.place)).sum();
        let (mut before, mut reasons) = (0, BTreeMap::new());
        for (at, view) in jobs.iter().enumerate() {
            let count = plan.n_peers_of(view.place);
            if is_waiting(view.job) {
                let available = self.n_peers().saturating_sub(before);
                let left = self.n_peers() - total;
                let why = match count {
                    0 => self.why(&jobs, at, available, left),
                    coming => format!("{} on the way", peers(coming)),
                };
                reasons.insert(view.job.id.clone(), why);
            }
            before += match self.job_scheduler {
                JobScheduler::RoundRobin if count > 0 => view.bounds.low.max(1),
                JobScheduler::Greedy | JobScheduler::RoundRobin | JobScheduler::Percentage => count,
            };
        }
        reasons
    }

    /// Why the plan gives the job nobody, with so many peers left by those before it, and by all.
    fn why(&self, jobs: &[JobView<'_>], at: usize, available: usize, left: usize) -> String {
        let needed = jobs[at].bounds.low.max(1);
        match self.job_scheduler {
            JobScheduler::Percentage => self.waiting_for_a_share(jobs, at, needed),
            // Enough came by, but those behind have them, and nobody moves for symmetry.
            JobScheduler::RoundRobin if available >= needed => too_few(needed, left),
            JobScheduler::Greedy | JobScheduler::RoundRobin => too_few(needed, available),
        }
    }

    fn waiting_for_a_share(&self, jobs: &[JobView<'_>], at: usize, needed: usize) -> String {
        let asked = |at: usize| jobs[at].job.terms.percentage.unwrap_or_default();
        let Some(mine) = jobs[at].job.terms.percentage else {
            return "names no percentage, by which this cluster shares out its peers".into();
        };
        let is_before = |other: usize| asked(other) > mine || (asked(other) == mine && other < at);
        let before: u32 = (0..jobs.len())
            .filter(|&other| is_before(other))
            .map(|it| asked(it).hundredths())
            .sum();
        if before + mine.hundredths() > 10_000 {
            return format!("asks for {mine} percent, and others asked for more before it");
        }
        let share = self.n_peers() as u64 * u64::from(mine.hundredths()) / 10_000;
        let share = format!("its {mine} percent of {} is {share}", peers(self.n_peers()));
        format!("needs {}, {share}", peers(needed))
    }
}

fn too_few(needed: usize, available: usize) -> String {
    format!("needs {}, {available} available", peers(needed))
}

fn peers(n: usize) -> String {
    format!("{n} {}", if n == 1 { "peer" } else { "peers" })
}
