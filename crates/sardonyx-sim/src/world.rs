//! The world: virtual time, one event after the other.
//!
//! `shell` carries out what nodes want, as a process would; `spoken` judges what they say; `trim`
//! trims the log; `storm` is what goes wrong.

mod shell;
mod spoken;
mod storm;
mod trim;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    fmt,
};

use sardonyx_core::{
    Command, Entry, JobId, JobScheduler, PeerId, Replica, laws,
    mutant::{self, Mutant},
    peer::Standing,
    replica::{PEERS_MAX, job::Assignment},
};
use sardonyx_peer::{Input, Node, TRIM_STEPS};

pub(crate) use self::shell::READ_MAX;
use crate::{
    checks,
    plan::{Plan, STORM, What},
    probes::Probes,
    process::Process,
    store::{SessionId, Store, Token},
    twins,
    weather::{Fault, Harm, Moment},
    workload,
};

/// How long a session lives without a sign of life, in milliseconds.
const SESSION_TIMEOUT: u64 = 1_000;
/// How long the calm may last before the cluster must be at rest.
const CALM_MAX: u64 = 240_000;

/// A run that held.
#[derive(Debug)]
pub struct Passed {
    /// A number that any difference between two runs would change.
    pub trace_hash: u64,
    /// Which rare paths it saw.
    pub probes: Probes,
    /// How many entries the log has.
    pub entries: usize,
    /// How many virtual peers were started.
    pub boots: usize,
}

/// A run that did not hold.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The run.
    pub plan: Plan,
    /// What went wrong: the name of a check or of a law, a colon, and what was found.
    pub why: String,
    /// What happened before.
    pub trace: Vec<String>,
}

impl Failed {
    /// The name of what does not hold.
    pub fn name(&self) -> &str {
        self.why.split(':').next().unwrap_or_default()
    }
}

/// The column trace: the time, who, the members of each process, and what happened.
impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>8}  {:<8} {:<24} what", "ms", "who", "members by process")?;
        self.trace.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "seed {}: {}", self.plan.seed, self.why)
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A process starts under a new boot.
    Boot(usize),
    /// A process looks for new entries.
    Read(SessionId),
    /// What a process sent arrives at the store.
    Land(SessionId),
    /// An alarm of a process may be due.
    Alarm(SessionId),
    /// A process is told that a pulse is gone.
    Gone(SessionId, PeerId),
    /// A session has been silent for too long.
    Expire(SessionId),
    /// A process gives a sign of life, and finds out whether its session is there.
    Ping(SessionId),
    /// A task has seen the last of its input, or has told everybody downstream.
    TaskDone(SessionId, PeerId, Assignment, bool),
    /// Somebody who trims the log goes on; a node, or a client.
    Trim(Option<SessionId>, usize),
    /// A step of the plan.
    Step(usize),
}

/// Everything there is in a run.
pub struct World {
    plan: Plan,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    n_events: u64,
    store: Store,
    processes: Vec<Process>,
    ambushes: Vec<(Moment, Harm)>,
    trimmings: Vec<trim::Trimming>,
    /// How often each peer has asked to join since it had pulses checked.
    asked: BTreeMap<PeerId, u32>,
    /// When somebody was last let in.
    joined_at: u64,
    /// How many appends of a hundred get lost, and until when.
    lost_answers: (u64, u64),
    is_calm: bool,
    n_tokens: u64,
    n_boots: usize,
    /// Jobs that are over, for good.
    ended: BTreeSet<JobId>,
    probes: Probes,
    trace: Vec<String>,
    trace_hash: u64,
}

impl World {
    /// Runs the plan of a seed.
    pub fn run(seed: u64) -> Result<Passed, Failed> {
        World::play(&Plan::draw(seed))
    }

    /// Runs a plan from beginning to end.
    pub fn play(plan: &Plan) -> Result<Passed, Failed> {
        World::play_traced(plan).0
    }

    /// The same, with what happened, for runs that hold too.
    pub fn play_traced(plan: &Plan) -> (Result<Passed, Failed>, Vec<String>) {
        let mut world = World::new(plan.clone());
        let held = world.storm_and_calm();
        let result = match held {
            Ok(()) => Ok(Passed {
                trace_hash: world.trace_hash,
                probes: world.probes.clone(),
                entries: world.store.len(),
                boots: world.n_boots,
            }),
            Err(why) => Err(Failed { plan: plan.clone(), why, trace: world.trace.clone() }),
        };
        (result, world.trace)
    }

    fn new(plan: Plan) -> World {
        World {
            processes: Vec::new(),
            plan,
            now: 0,
            events: BinaryHeap::new(),
            n_events: 0,
            store: Store::new(),
            ambushes: Vec::new(),
            trimmings: Vec::new(),
            asked: BTreeMap::new(),
            joined_at: 0,
            lost_answers: (0, 0),
            is_calm: false,
            n_tokens: 0,
            n_boots: 0,
            ended: BTreeSet::new(),
            probes: Probes::default(),
            trace: Vec::new(),
            trace_hash: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Runs a plan until it is at rest, with the laws checked once in a thousand entries and without
    /// a trace: for clusters of thousands. Says how long the log and the time became.
    pub fn rest(plan: &Plan) -> Result<(usize, u64), String> {
        let mut world = World::new(plan.clone());
        world.store.check_every = 1_000;
        world.is_calm = true;
        world.append_now(workload::configure(plan.protocol, plan.scheduler))?;
        for step in &plan.steps {
            if let What::Fault(fault) = &step.what {
                world.blow(fault)?;
            }
        }
        world.play_until(CALM_MAX)?;
        checks::judge(&world)?;
        laws::check(world.replica()).map_err(|broken| broken.to_string())?;
        Ok((world.store.len(), world.now))
    }

    /// The cluster at the end of the log.
    pub fn replica(&self) -> &Replica {
        &self.store.replica
    }

    /// The nodes that are up.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.processes.iter().filter_map(|process| process.node.as_ref())
    }

    /// What really runs, whatever the log says.
    pub fn running(&self) -> impl Iterator<Item = (&PeerId, &Assignment)> {
        self.processes.iter().flat_map(|process| process.tasks.iter())
    }

    /// How many entries were appended.
    pub fn log_length(&self) -> usize {
        self.store.len()
    }

    /// How many virtual peers were ever started.
    pub fn boots(&self) -> usize {
        self.n_boots
    }

    /// From how many entries on nodes trim the log, and how many there are since it was last to be.
    pub fn trim_after(&self) -> Option<(usize, usize)> {
        let trim_after = self.plan.trim_after? as usize;
        Some((trim_after, self.store.since_gc()))
    }

    /// How long after the storm the last one was let in, in milliseconds.
    pub fn joined_after(&self) -> u64 {
        self.joined_at.saturating_sub(STORM)
    }

    /// Whether nothing happened but that processes were started.
    pub fn is_fair(&self) -> bool {
        let is_start = |what: &What| matches!(what, What::Fault(Fault::MassStart { .. }));
        self.plan.steps.iter().all(|step| is_start(&step.what))
    }

    /// How many steps the plan had.
    pub fn steps(&self) -> usize {
        self.plan.steps.len()
    }

    fn storm_and_calm(&mut self) -> Result<(), String> {
        self.append_now(workload::configure(self.plan.protocol, self.plan.scheduler))?;
        for index in 0..self.plan.steps.len() {
            self.at(self.plan.steps[index].at.min(STORM), Event::Step(index));
        }
        self.play_until(STORM)?;
        self.calm_down();
        self.append_now(workload::limit(PEERS_MAX))?;
        self.play_until(STORM + CALM_MAX)?;
        checks::judge(self)?;
        // Under shares a job may rightly wait for ever. Now whatever fits can be finished.
        self.append_now(workload::schedule(JobScheduler::Greedy))?;
        self.play_until(self.now + CALM_MAX)?;
        checks::judge(self)
    }

    /// Plays events up to a time, or until there are none.
    fn play_until(&mut self, end: u64) -> Result<(), String> {
        while let Some(Reverse((time, _, _))) = self.events.peek() {
            if *time > end {
                return match self.is_calm {
                    true => Err(format!("it comes to rest: not within {CALM_MAX} ms")),
                    false => Ok(()),
                };
            }
            if let Some(Reverse((time, _, event))) = self.events.pop() {
                self.now = time;
                self.handle(&event)?;
            }
        }
        Ok(())
    }

    fn calm_down(&mut self) {
        self.is_calm = true;
        self.now = STORM;
        self.note("world", "calm");
        self.ambushes.clear();
        self.lost_answers = (0, 0);
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            process.paused_until = process.paused_until.min(STORM);
            process.cut_off_until = process.cut_off_until.min(STORM);
            process.stuck_until = process.stuck_until.min(STORM);
            process.slow = (0, 0);
            if process.node.is_none() && process.boot > 0 {
                let after = process.rng.below(3_000);
                self.at(after, Event::Boot(index));
            }
        }
    }

    fn at(&mut self, delay: u64, event: Event) {
        self.n_events += 1;
        self.events.push(Reverse((self.now + delay, self.n_events, event)));
    }

    fn note(&mut self, who: &str, what: &str) {
        if self.store.check_every > 1 {
            return;
        }
        let members: Vec<_> = self.processes.iter().map(|it| self.status(it)).collect();
        let line = format!("{:>8}  {who:<8} {:<24} {what}", self.now, members.join(" "));
        for byte in line.bytes() {
            self.trace_hash = (self.trace_hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.trace.push(line);
    }

    /// How many of a process's peers believe that they are in; or why nobody hears of it.
    fn status(&self, process: &Process) -> String {
        let Some(node) = &process.node else { return "-".into() };
        if process.paused_until > self.now {
            return "z".into();
        }
        let members = node.peers().filter(|it| it.standing() == Standing::Member).count();
        let mark = if process.cut_off_until > self.now { "~" } else { "" };
        format!("{members}{mark}")
    }

    /// Whether the event is for a life of the process that is still going on; puts it off while
    /// the process is stopped.
    fn reaches(&mut self, session: SessionId, event: &Event) -> bool {
        let process = &self.processes[session.process];
        if process.boot != session.boot || process.node.is_none() || process.is_zombie {
            return false;
        }
        let needs_store =
            matches!(event, Event::Read(_) | Event::Land(_) | Event::Gone(..) | Event::Ping(_))
                || matches!(event, Event::Trim(..));
        let cut_off_until = if needs_store { process.cut_off_until } else { 0 };
        let reads = matches!(event, Event::Read(_));
        let stuck_until = if reads { process.stuck_until } else { 0 };
        let until = process.paused_until.max(cut_off_until).max(stuck_until);
        if reads && until > self.now {
            // Bad weather is an excuse.
            self.processes[session.process].reads_by = until;
        }
        let until = until.max(self.processes[session.process].held_until);
        if until > self.now {
            self.at(until - self.now, event.clone());
            return false;
        }
        let goes_on = mutant::is_on(Mutant::SessionOutlived);
        if self.store.expired.contains(&session) && !goes_on {
            self.lose_session(session);
            return false;
        }
        true
    }

    fn handle(&mut self, event: &Event) -> Result<(), String> {
        let for_session = match event {
            Event::Boot(_) | Event::Step(_) | Event::Expire(_) => None,
            Event::Trim(session, _) => *session,
            Event::Read(session)
            | Event::Land(session)
            | Event::Alarm(session)
            | Event::Ping(session)
            | Event::Gone(session, _)
            | Event::TaskDone(session, ..) => Some(*session),
        };
        if for_session.is_some_and(|session| !self.reaches(session, event)) {
            return Ok(());
        }
        match event {
            Event::Boot(process) => self.boot(*process),
            Event::Step(index) => self.take_step(*index),
            Event::Expire(session) => {
                self.expire(*session);
                Ok(())
            }
            Event::Read(session) => self.read(*session),
            Event::Land(session) => self.land(*session),
            Event::Alarm(session) => self.ring(*session),
            Event::Ping(_) => Ok(()),
            Event::Gone(session, peer) => {
                self.note(&name(*session), &format!("sees that {peer} is gone"));
                self.step(*session, Input::PulseGone(peer.clone()))
            }
            Event::TaskDone(session, peer, run, is_sealed) => {
                self.task_done(*session, peer, run, *is_sealed)
            }
            Event::Trim(_, index) => self.trim_on(*index),
        }
    }

    fn take_step(&mut self, index: usize) -> Result<(), String> {
        if self.is_calm {
            return Ok(());
        }
        match self.plan.steps[index].what.clone() {
            What::Fault(fault) => self.blow(&fault),
            What::Request(request) => {
                let Some(command) = request.command() else { return Ok(()) };
                let Some(process) = request.through() else {
                    return self.append_now(command).map(|_| ());
                };
                self.say_through(process, command)
            }
        }
    }

    /// A client asks a peer of that process to say it.
    fn say_through(&mut self, index: usize, command: Command) -> Result<(), String> {
        let Some(process) = self.processes.get(index) else { return Ok(()) };
        let session = process.session(index);
        let node = process.node.as_ref();
        let Some(peer) = node.and_then(|node| node.peers().next()) else { return Ok(()) };
        self.step(session, Input::Say(peer.id().clone(), command))
    }

    fn append_now(&mut self, command: Command) -> Result<Entry, String> {
        let token = self.token();
        self.append("client", token, command)
    }

    fn token(&mut self) -> Token {
        self.n_tokens += 1;
        Token(self.n_tokens)
    }

    fn append(&mut self, who: &str, token: Token, command: Command) -> Result<Entry, String> {
        let old = self.store.replica.clone();
        if self.store.check_every == 1 && self.store.len() > checks::ENTRIES_MAX {
            return Err(format!("the log is bounded: more than {} entries", checks::ENTRIES_MAX));
        }
        let appended = self.store.append(token, command);
        let (entry, outcome) = appended.map_err(|broken| broken.to_string())?;
        match &outcome {
            Some(outcome) => {
                let (n, present) = (self.replica().n_peers(), self.replica().n_present());
                let refused =
                    outcome.as_ref().err().map_or(String::new(), |why| format!(", refused: {why}"));
                let what = format!("{entry}: {n} in, {} joining{refused}", present - n);
                self.note(who, &what);
                self.probes.see(&entry, &old, &self.store.replica);
                self.no_job_comes_back()?;
                match self.store.check_every == 1 {
                    true => twins::check(&entry, outcome, &old, &self.store.replica)?,
                    false => twins::protected_jobs_are_covered(&self.store.replica)?,
                }
                if self.store.replica.n_peers() > old.n_peers() {
                    self.joined_at = self.now;
                }
                if outcome.is_ok() {
                    self.spring(&entry)?;
                }
            }
            None => self.probes.copies_dropped += 1,
        }
        for process in 0..self.processes.len() {
            let session = self.processes[process].session(process);
            self.wake_reader(session);
        }
        Ok(entry)
    }

    /// A job that was over once never lives again.
    fn no_job_comes_back(&mut self) -> Result<(), String> {
        for job in self.store.replica.jobs() {
            if !job.is_live() {
                self.ended.insert(job.id().clone());
            } else if self.ended.contains(job.id()) {
                return Err(format!("what is over stays over: {} lives again", job.id()));
            }
        }
        Ok(())
    }

    /// Carries out the ambushes that waited for such an entry.
    fn spring(&mut self, entry: &Entry) -> Result<(), String> {
        let Some(moment) = moment_of(&entry.command) else { return Ok(()) };
        let waiting = self.ambushes.iter().position(|(it, _)| *it == moment);
        let Some(at) = waiting else { return Ok(()) };
        let (_, harm) = self.ambushes.remove(at);
        let named = named(entry, &self.store.replica);
        let process = |who: usize| {
            let peer = named.get(who.checked_rem(named.len())?)?;
            Some(self.store.pulses.get(peer)?.process)
        };
        let fault = match harm {
            Harm::Crash { who, down } => process(who).map(|it| Fault::Crash { process: it, down }),
            Harm::Pause { who, lasts } => {
                process(who).map(|it| Fault::Pause { process: it, lasts })
            }
            Harm::MassDeath { down } => Some(Fault::MassDeath { down }),
            Harm::Gc => Some(Fault::Gc { dies_after: TRIM_STEPS, pace: 0 }),
        };
        self.probes.ambushes += u64::from(fault.is_some());
        fault.map_or(Ok(()), |fault| self.blow(&fault))
    }
}

fn name(session: SessionId) -> String {
    format!("n{}.{}", session.process, session.boot)
}

fn moment_of(command: &Command) -> Option<Moment> {
    match command {
        Command::PrepareJoinCluster(_) => Some(Moment::Prepared),
        Command::NotifyJoinCluster(_) | Command::NotifyWatchers(_) => Some(Moment::Notified),
        Command::AcceptJoinCluster(_) => Some(Moment::Accepted),
        Command::LeaveCluster(_) => Some(Moment::Left),
        Command::SealTask(_) => Some(Moment::Sealed),
        Command::VolunteerForTask(_) => Some(Moment::Volunteered),
        Command::ConfigureCluster(_)
        | Command::AbortJoinCluster(_)
        | Command::PeerGc(_)
        | Command::SubmitJob(_)
        | Command::CompleteTask(_)
        | Command::KillJob(_)
        | Command::Gc(_) => None,
    }
}

/// The peers that an entry is about.
fn named(entry: &Entry, replica: &Replica) -> Vec<PeerId> {
    match &entry.command {
        Command::PrepareJoinCluster(it) => {
            let mut all = vec![it.joiner.clone()];
            all.extend(replica.watches(&it.joiner));
            all
        }
        Command::NotifyJoinCluster(it) => {
            vec![it.joiner.clone(), it.observer.clone(), it.subject.clone()]
        }
        Command::NotifyWatchers(it) => {
            vec![it.joiner.clone(), it.observer.clone(), it.subject.clone()]
        }
        Command::AcceptJoinCluster(it) => {
            vec![it.joiner.clone(), it.observer.clone(), it.subject.clone()]
        }
        Command::SealTask(it) => vec![it.peer.clone()],
        Command::VolunteerForTask(it) => it.peers.clone(),
        // The dead have no process; those who are left do.
        Command::LeaveCluster(_) => replica.peers().cloned().collect(),
        Command::ConfigureCluster(_)
        | Command::AbortJoinCluster(_)
        | Command::PeerGc(_)
        | Command::SubmitJob(_)
        | Command::CompleteTask(_)
        | Command::KillJob(_)
        | Command::Gc(_) => Vec::new(),
    }
}
