//! Trimming the log, step by step: whoever does it may die between any two.

use std::collections::BTreeMap;

use sardonyx_core::{
    JobId, PeerId, Position, Replica,
    command::{Gc, JobText},
    mutant::{self, Mutant},
};
use sardonyx_peer::{Input, Node, TRIM_STEPS, TrimStep, is_over, trim_steps};

use super::{Event, World, name};
use crate::store::{Read, SessionId};

/// Somebody who trims, and how far it is.
pub(super) struct Trimming {
    /// A node's life, or a client.
    pub(super) session: Option<SessionId>,
    position: Position,
    replica: Replica,
    jobs: BTreeMap<JobId, JobText>,
    steps: [TrimStep; TRIM_STEPS],
    n_done: usize,
    dies_after: usize,
    pace: u64,
}

impl World {
    /// A client asks for it, reads up to there, and begins to trim.
    pub(super) fn gc(&mut self, dies_after: usize, pace: u64) -> Result<(), String> {
        let caller = PeerId::new("client").map_err(|why| why.to_string())?;
        self.append_now(Gc { caller }.into())?;
        let (mut node, mut at) = (Node::new(None), 0);
        while at < self.store.len() {
            let (read, next) = self.store.read(at, usize::MAX / 2);
            at = next;
            match read {
                Read::Origin(position, replica) => node.step(Input::Origin(position, replica)),
                Read::Entries(entries) => node.step(Input::Entries(entries)),
            };
        }
        self.begin_to_trim(None, &node, dies_after, pace);
        Ok(())
    }

    /// A node of a process does it, because its own `gc` was played.
    pub(super) fn trim_as(&mut self, session: SessionId) {
        self.probes.trims_by_nodes += 1;
        let pace = self.plan.latency;
        let Some(node) = self.processes[session.process].node.clone() else { return };
        self.begin_to_trim(Some(session), &node, TRIM_STEPS, pace);
    }

    fn begin_to_trim(
        &mut self,
        session: Option<SessionId>,
        node: &Node,
        dies_after: usize,
        pace: u64,
    ) {
        let Some(position) = node.position() else { return };
        let (replica, jobs) = (node.replica().clone(), node.jobs().clone());
        let steps = trim_steps();
        let n_done = 0;
        let trimming =
            Trimming { session, position, replica, jobs, steps, n_done, dies_after, pace };
        self.trimmings.push(trimming);
        self.at(0, Event::Trim(session, self.trimmings.len() - 1));
    }

    /// The next step of whoever trims. After it everybody must be able to begin.
    pub(super) fn trim_on(&mut self, index: usize) -> Result<(), String> {
        let Trimming { session, position, n_done, dies_after, pace, .. } = self.trimmings[index];
        let who = session.map_or("client".to_owned(), name);
        if n_done == dies_after && n_done < TRIM_STEPS {
            self.note(&who, &format!("dies while it trims at {position}"));
            self.probes.trims_cut_short += 1;
            return Ok(());
        }
        let Some(step) = self.trimmings[index].steps.get(n_done).copied() else { return Ok(()) };
        self.note(&who, &format!("trims at {position}: {step:?}"));
        self.trimmings[index].n_done += 1;
        if self.make_trim_step(index, step)? {
            self.at(pace, Event::Trim(session, index));
        }
        self.store.can_be_begun()
    }

    /// Says whether it is ours to go on.
    fn make_trim_step(&mut self, index: usize, step: TrimStep) -> Result<bool, String> {
        let Trimming { position, replica, jobs, .. } = &self.trimmings[index];
        match step {
            TrimStep::PutJobsAside => {
                let is_live = |job: &JobId| replica.job(job).is_some_and(|job| job.is_live());
                let live = jobs.iter().filter(|(job, _)| is_live(job));
                self.store.texts.extend(live.map(|(job, text)| (job.clone(), text.clone())));
            }
            TrimStep::StoreOrigin => {
                if mutant::is_on(Mutant::TrimBeforeOrigin) {
                    self.store.forget_until(*position);
                    self.store.can_be_begun()?;
                }
                let is_ours = self.store.set_origin(*position, replica);
                self.probes.origins_too_late += u64::from(!is_ours);
                return Ok(is_ours);
            }
            TrimStep::DropEndedJobs => self.store.texts.retain(|job, _| !is_over(replica, job)),
            TrimStep::ForgetEntries => self.store.trim(),
        }
        Ok(true)
    }
}
