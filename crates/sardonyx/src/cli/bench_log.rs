//! Logs for the benchmarks: clusters that live a life, from one number to the next.

use sardonyx_core::{
    Command, Entry, PeerId, Phase, Position, Replica,
    command::{
        AcceptJoinCluster, CompleteTask, Gc, KillJob, LeaveCluster, NotifyJoinCluster,
        PrepareJoinCluster, SealTask, VolunteerForTask,
    },
};

use super::{Failure, bench_schedule::ten_tasks};

/// Writes a log that makes sense, by playing it.
#[derive(Default)]
pub(super) struct Scribe {
    pub(super) replica: Replica,
    pub(super) log: Vec<Entry>,
    position: u64,
    named: u32,
}

impl Scribe {
    fn append(&mut self, command: impl Into<Command>) {
        let entry = Entry { position: Position(self.position), command: command.into() };
        self.position += 1;
        _ = self.replica.play(&entry);
        self.log.push(entry);
    }

    /// A whole join of a new peer.
    pub(super) fn join(&mut self) {
        self.named += 1;
        let Ok(joiner) = PeerId::new(&uuid(self.named)) else { return };
        self.append(PrepareJoinCluster { joiner: joiner.clone() });
        let observer = self.replica.joins_in(Phase::Prepared).into_keys().next().cloned();
        if let Some(observer) = observer {
            let subject = observer.clone();
            let (j, o, s) = (joiner.clone(), observer.clone(), subject.clone());
            self.append(NotifyJoinCluster { joiner: j, observer: o, subject: s });
            self.append(AcceptJoinCluster { joiner, observer, subject });
        }
    }

    /// Some member leaves.
    pub(super) fn leave(&mut self) {
        let rank = scramble(self.position) as usize % self.replica.n_peers().max(1);
        if let Some(peer) = self.replica.peer_at(rank).cloned() {
            self.append(LeaveCluster { peer });
        }
    }

    /// Everybody whom the plan moves volunteers, until it moves nobody.
    fn volunteer(&mut self) {
        loop {
            let movers: Vec<_> = self.replica.plan().movers().cloned().collect();
            if movers.is_empty() {
                return;
            }
            for peer in movers {
                self.append(VolunteerForTask { peers: vec![peer] });
            }
        }
    }

    /// The oldest running job seals and completes its first task that somebody runs.
    fn complete_a_task(&mut self) {
        let running = self.replica.jobs().filter(|job| job.is_live() && job.n_peers() > 0);
        let mut tasks = running.flat_map(|job| {
            job.allocations().map(|(task, mut peers)| (job.id(), task, peers.next()))
        });
        let found =
            tasks.find_map(|(job, task, peer)| Some((peer?.clone(), job.clone(), task.clone())));
        drop(tasks);
        if let Some((peer, job, task)) = found {
            let (p, j, t) = (peer.clone(), job.clone(), task.clone());
            self.append(SealTask { peer: p, job: j, task: t });
            self.append(CompleteTask { peer, job, task });
        }
    }
}

/// So many peers come and go while so many jobs are submitted, run and end, in so many entries.
pub(super) fn life_of_a_cluster(
    peers: u32,
    jobs: u32,
    entries: usize,
) -> Result<Vec<Entry>, Failure> {
    let mut scribe = Scribe::default();
    let gc = PeerId::new("gc").map_err(Failure::world)?;
    for _ in 0..peers {
        scribe.join();
    }
    for number in 0..jobs {
        scribe.append(ten_tasks(number)?);
        scribe.volunteer();
        let until = entries * (number as usize + 1) / jobs as usize;
        let mut tasks_left = 10;
        while scribe.log.len() < until {
            scribe.leave();
            scribe.volunteer();
            scribe.join();
            scribe.volunteer();
            if tasks_left > 0 {
                tasks_left -= 1;
                scribe.complete_a_task();
                scribe.volunteer();
            }
        }
        if number % 7 == 3 {
            let newest = scribe.replica.jobs().filter(|job| job.is_live()).last();
            if let Some(job) = newest.map(|job| job.id().clone()) {
                scribe.append(KillJob { job, reason: "changed my mind".into() });
                scribe.volunteer();
            }
        }
        if number % 50 == 49 {
            scribe.append(Gc { caller: gc.clone() });
        }
    }
    scribe.log.truncate(entries);
    Ok(scribe.log)
}

/// An id as long as a UUID, which is what real peers have.
pub(super) fn uuid(number: u32) -> String {
    let (high, low) = (scramble(number.into()), scramble(!u64::from(number)));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}

/// Spreads numbers evenly, the same on every machine.
fn scramble(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
