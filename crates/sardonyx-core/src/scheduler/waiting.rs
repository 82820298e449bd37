//! Why a job waits, in words for the person who looks.

use alloc::{format, string::String};

use crate::{
    replica::{JobScheduler, Replica, job::Job},
    scheduler::JobView,
};

impl Replica {
    /// Why `job` runs nothing now; `None` when it does, or is over.
    pub fn waiting(&self, job: &Job) -> Option<String> {
        if !job.is_live() || job.n_peers() > 0 {
            return None;
        }
        let jobs = self.live_jobs();
        let at = jobs.iter().position(|view| view.job.id == job.id)?;
        let plan = self.plan();
        let coming = plan.n_peers_of(jobs[at].place);
        if coming > 0 {
            return Some(format!("{} on the way", peers(coming)));
        }
        let needed = jobs[at].bounds.low.max(1);
        match self.job_scheduler {
            JobScheduler::Percentage => Some(self.waiting_for_a_share(&jobs, at, needed)),
            JobScheduler::Greedy => {
                let before = jobs[..at].iter().map(|view| plan.n_peers_of(view.place)).sum();
                Some(too_few(needed, self.n_peers().saturating_sub(before)))
            }
            JobScheduler::RoundRobin => {
                let covered = jobs[..at].iter().filter(|view| plan.n_peers_of(view.place) > 0);
                let before = covered.map(|view| view.bounds.low.max(1)).sum();
                Some(too_few(needed, self.n_peers().saturating_sub(before)))
            }
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
