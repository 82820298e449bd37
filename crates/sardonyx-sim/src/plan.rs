//! A run before it is run: who starts when, what goes wrong when, what is asked when.
//!
//! A seed settles a plan, and a plan settles a run: the delays in it come from the plan's own seed,
//! for each process by itself, so that a plan with one step less is nearly the same run. That is
//! what lets a failing plan shrink ([`crate::shrink`]).

use std::fmt;

use sardonyx_core::{JobScheduler, JoinProtocol};
use serde::{Deserialize, Serialize};

use crate::{
    rng::Rng,
    weather::{self, Fault},
    workload::{self, Request, SCHEDULERS},
};

/// How long the storm lasts, in milliseconds.
pub const STORM: u64 = 15_000;

/// How many processes a plan of a seed starts at most: more of them make a run longer, and not
/// stranger.
pub const PROCESSES_MAX: usize = 16;

/// Everything that tells one run from another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plan {
    /// Where every delay comes from.
    pub seed: u64,
    /// How peers join.
    pub protocol: JoinProtocol,
    /// How peers are shared out among jobs at first.
    pub scheduler: JobScheduler,
    /// How many virtual peers each process has.
    pub peers: usize,
    /// After how many failed attempts a joiner has everybody's pulse checked, if ever: it is a
    /// second way to find the dead, and hides whether the first one works.
    pub gc_every: Option<u32>,
    /// From how many entries on a node trims the log by itself, if ever.
    pub trim_after: Option<u32>,
    /// The longest that a message takes, in milliseconds.
    pub latency: u64,
    /// What happens, in any order.
    #[serde(skip)]
    pub steps: Vec<Step>,
}

/// Something that happens at a time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    /// When, in milliseconds.
    pub at: u64,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Something goes wrong.
    Fault(Fault),
    /// Somebody wants something.
    Request(Request),
}

impl Plan {
    /// The plan of a seed. How bad the weather is and of which kinds differs from seed to seed: a
    /// storm that never lets up only ever sees the same few states.
    pub fn draw(seed: u64) -> Plan {
        let mut rng = Rng::new(seed);
        let protocols =
            [JoinProtocol::ThreePhase, JoinProtocol::ThreePhase, JoinProtocol::TwoPhase];
        let protocol = *rng.pick(&protocols).unwrap_or(&JoinProtocol::ThreePhase);
        let scheduler = *rng.pick(&SCHEDULERS).unwrap_or(&JobScheduler::RoundRobin);
        if rng.chance(8) {
            return Plan::fair(seed, protocol, scheduler, &mut rng);
        }
        let n_processes = if rng.chance(10) { rng.between(6, 12) } else { rng.between(1, 6) };
        // Some clusters start together, others one by one.
        let spread = *rng.pick(&[1, 300, 3_000]).unwrap_or(&300);
        let mut steps: Vec<_> = (0..n_processes as usize)
            .map(|first| Fault::MassStart { first, processes: 1 })
            .map(|start| Step { at: rng.below(spread), what: What::Fault(start) })
            .collect();
        let peers = rng.between(1, 4) as usize;
        let gc_every = rng.chance(50).then(|| rng.between(2, 5) as u32);
        let trim_after = rng.chance(50).then(|| rng.between(20, 150) as u32);
        let latency = *rng.pick(&[2, 20, 200]).unwrap_or(&20);
        for request in workload::draw(&mut rng) {
            // Before anybody is in: a limit is refused that is below what is there.
            let is_limit = matches!(request, Request::Limit(_));
            let at = if is_limit { 0 } else { rng.below(STORM) };
            steps.push(Step { at, what: What::Request(request) });
        }
        let mut kinds: Vec<_> = (0..weather::KINDS).filter(|_| rng.chance(50)).collect();
        if kinds.is_empty() {
            kinds.push(rng.below(weather::KINDS));
        }
        let every = *rng.pick(&[150, 500, 2_000]).unwrap_or(&500);
        let (mut at, mut n_processes) = (rng.below(2 * every), n_processes as usize);
        while at < STORM {
            let kind = *rng.pick(&kinds).unwrap_or(&0);
            let fault = Fault::draw(kind, n_processes, &mut rng);
            let step = Step { at, what: What::Fault(fault.clone()) };
            at += 1 + rng.below(2 * every);
            if let Fault::MassStart { processes, .. } = fault {
                if n_processes + processes > PROCESSES_MAX {
                    continue;
                }
                n_processes += processes;
            }
            steps.push(step);
        }
        Plan { seed, protocol, scheduler, peers, gc_every, trim_after, latency, steps }
    }

    /// Many start at the same moment, and nothing goes wrong: then joining must be cheap.
    fn fair(seed: u64, protocol: JoinProtocol, scheduler: JobScheduler, rng: &mut Rng) -> Plan {
        let processes = rng.between(6, PROCESSES_MAX as u64) as usize;
        let start = What::Fault(Fault::MassStart { first: 0, processes });
        let peers = rng.between(2, 5) as usize;
        let latency = *rng.pick(&[2, 20, 200]).unwrap_or(&20);
        let steps = vec![Step { at: 0, what: start }];
        Plan {
            seed,
            protocol,
            scheduler,
            peers,
            gc_every: Some(4),
            trim_after: None,
            latency,
            steps,
        }
    }

    /// Reads a plan that was printed.
    pub fn parse(text: &str) -> Result<Plan, String> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let wrong = |at: usize, why: serde_json::Error| {
            format!(
                "line {}: {why}; a plan is one line of JSON for the cluster and one for each step",
                at + 1
            )
        };
        let (at, first) = lines.next().ok_or("the plan is empty")?;
        let mut plan: Plan = serde_json::from_str(first).map_err(|why| wrong(at, why))?;
        for (at, line) in lines {
            plan.steps.push(serde_json::from_str(line).map_err(|why| wrong(at, why))?);
        }
        Ok(plan)
    }
}

/// One line for the cluster, one for each step.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = |text: serde_json::Result<String>| text.map_err(|_| fmt::Error);
        writeln!(f, "{}", json(serde_json::to_string(self))?)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{}", json(serde_json::to_string(step))?))
    }
}
