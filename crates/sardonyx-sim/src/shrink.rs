//! Makes a failing plan small: whatever can be left out while it still fails is left out.
//!
//! A failing seed has some forty faults, of which two or three matter. Steps are removed in halves,
//! quarters and one by one; then peers and delays; then what is left is made shorter.
//! Over and over, until nothing helps any more. A failure often hangs on a coincidence that any
//! change undoes, so each smaller plan is tried under other delays too. What counts as failing
//! still is that the same check or law does not hold.

use crate::{
    plan::{Plan, Step, What},
    weather::{Fault, Harm},
    workload::Request,
    world::Failed,
};

/// How often a failing plan is run at most to make it smaller.
pub const RUNS_MAX: usize = 3_000;

/// Under how many other delays a smaller plan is tried.
const DELAYS_MAX: u64 = 4;

/// The smallest plan that was found, how it fails, and how many runs that took. `play` runs a plan
/// and says how it failed, if it did.
pub fn shrink(failed: Failed, play: impl Fn(&Plan) -> Option<Failed>) -> (Failed, usize) {
    let mut search = Search { best: failed, runs: 0, play };
    loop {
        let before = search.best.plan.clone();
        search.drop_steps();
        search.simplify();
        search.shorten();
        if search.best.plan == before || search.runs >= RUNS_MAX {
            return (search.best, search.runs);
        }
    }
}

struct Search<F> {
    best: Failed,
    runs: usize,
    play: F,
}

impl<F: Fn(&Plan) -> Option<Failed>> Search<F> {
    /// Takes the plan if it fails in the same way, under its own delays or under some others.
    fn takes_somehow(&mut self, plan: &Plan) -> bool {
        let with_delays = |seed: u64| Plan { seed, ..plan.clone() };
        self.takes(plan)
            || (1..=DELAYS_MAX).any(|more| self.takes(&with_delays(plan.seed.wrapping_add(more))))
    }

    /// Takes the plan if it fails in the same way.
    fn takes(&mut self, plan: &Plan) -> bool {
        if self.runs >= RUNS_MAX || *plan == self.best.plan {
            return false;
        }
        self.runs += 1;
        match (self.play)(plan) {
            Some(failed) if failed.name() == self.best.name() => {
                self.best = failed;
                true
            }
            Some(_) | None => false,
        }
    }

    fn drop_steps(&mut self) {
        let mut size = self.best.plan.steps.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.best.plan.steps.len() {
                let mut plan = self.best.plan.clone();
                let end = plan.steps.len().min(at + size);
                plan.steps.drain(at..end);
                if !self.takes_somehow(&plan) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    fn simplify(&mut self) {
        let simpler: [fn(&mut Plan); 5] = [
            |plan| plan.peers = 1,
            |plan| plan.peers = 2,
            |plan| plan.latency = 2,
            |plan| plan.gc_every = None,
            |plan| plan.trim_after = None,
        ];
        for change in simpler {
            let mut plan = self.best.plan.clone();
            let peers = plan.peers;
            change(&mut plan);
            if plan.peers <= peers {
                self.takes(&plan);
            }
        }
    }

    fn shorten(&mut self) {
        for at in 0..self.best.plan.steps.len() {
            // Each halving may be taken, so a span of seconds is soon one of milliseconds.
            while let Some(step) = self.best.plan.steps.get(at).and_then(shorter) {
                let mut plan = self.best.plan.clone();
                plan.steps[at] = step;
                if !self.takes(&plan) {
                    break;
                }
            }
        }
    }
}

/// The same step, half as long or half as large; `None` when it cannot be less.
fn shorter(step: &Step) -> Option<Step> {
    let mut step = step.clone();
    let halved = match &mut step.what {
        What::Fault(fault) => halve(fault),
        What::Request(Request::Submit { spec, .. }) if spec.tasks.len() > 1 => {
            spec.tasks.pop();
            true
        }
        What::Request(_) => false,
    };
    halved.then_some(step)
}

fn halve(fault: &mut Fault) -> bool {
    let span = match fault {
        Fault::Crash { down, .. } | Fault::Stop { down, .. } | Fault::MassDeath { down } => down,
        Fault::Pause { lasts, .. }
        | Fault::CutOff { lasts, .. }
        | Fault::LostAnswers { lasts, .. }
        | Fault::SlowReader { lasts, .. }
        | Fault::StuckReader { lasts, .. } => lasts,
        Fault::Ambush { harm, .. } => match harm {
            Harm::Crash { down, .. } | Harm::MassDeath { down } => down,
            Harm::Pause { lasts, .. } => lasts,
            Harm::Gc => return false,
        },
        Fault::MassStart { processes, .. } => {
            let less = (*processes > 1).then(|| *processes -= 1);
            return less.is_some();
        }
        Fault::ClockStep { by, .. } => {
            *by /= 2;
            return *by != 0;
        }
        Fault::Gc { pace, .. } => pace,
        Fault::SessionLost { .. } | Fault::Echo { .. } | Fault::LoopFails { .. } => return false,
    };
    *span /= 2;
    *span > 0
}
