//! A run before it is run: what goes wrong, when, and with whom.

use serde::{Deserialize, Serialize};

use crate::{
    fault::{Fault, KINDS, Kind},
    place::NODES,
    rng::Rng,
};

/// How long nothing goes wrong at first: processes start, peers join, the first jobs begin.
pub const WARM_UP_MS: u64 = 5_000;

/// How many nodes live from the beginning to the end of an ordinary day; the others come and go.
pub const STEADY_NODES: usize = 3;

/// How far two kills are apart on an ordinary day, on average.
const CHURN_MS: u64 = 30_000;

/// Everything that a seed settles about the faults of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Plan {
    /// Where it comes from.
    pub seed: u64,
    /// How long the storm lasts.
    pub storm_ms: u64,
    /// Which kinds there are, and the mean time between two of each.
    pub kinds: Vec<(String, u64)>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// Something that happens at a time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Step {
    /// When, in milliseconds after the beginning.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub fault: Fault,
}

/// Of which kinds of faults a plan is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kinds {
    /// About half of them, as the seed has it.
    Some,
    /// Every kind that is possible.
    All,
}

impl Plan {
    /// The plan of a seed. Which kinds of faults there are, and how often each, differs from seed to
    /// seed: faults that always come together hide each other.
    pub fn draw(seed: u64, storm_ms: u64, has_sandbox: bool) -> Plan {
        Plan::draw_of(seed, storm_ms, has_sandbox, Kinds::Some, &[])
    }

    /// The same plan with every kind of fault, or without some: which of them does it take for a failure?
    pub fn draw_of(
        seed: u64,
        storm_ms: u64,
        has_sandbox: bool,
        kinds: Kinds,
        left_out: &[String],
    ) -> Plan {
        let mut rng = Rng::of(seed, 0);
        let mut plan = Plan { seed, storm_ms, kinds: Vec::new(), steps: Vec::new() };
        for (stream, kind) in (1..).zip(KINDS) {
            // Drawn for every kind, so that one more kind changes nothing about the others.
            let (is_wanted, every_ms) = (rng.chance(50), log_uniform(&mut rng, kind.every_ms));
            let is_possible = has_sandbox || !kind.needs_sandbox;
            let is_left_out = left_out.iter().any(|it| it == kind.name);
            let is_wanted = is_wanted || kind.is_constant || kinds == Kinds::All;
            if is_wanted && is_possible && !is_left_out {
                plan.kinds.push((kind.name.to_owned(), every_ms));
                plan.add(kind, every_ms, &mut Rng::of(seed, stream));
            }
        }
        plan.steps.sort_by_key(|step| step.at_ms);
        plan
    }

    /// The plan of an ordinary day: now this node is killed, now that one, and comes back.
    pub fn soak(seed: u64, storm_ms: u64) -> Plan {
        let mut plan = Plan { seed, storm_ms, kinds: Vec::new(), steps: Vec::new() };
        let mut rng = Rng::of(seed, 0);
        let mut at_ms = WARM_UP_MS;
        while at_ms < storm_ms {
            let node = STEADY_NODES + rng.below((NODES - STEADY_NODES) as u64) as usize;
            let fault = Fault::Kill { nodes: vec![node], down_ms: rng.below(10_000) };
            plan.steps.push(Step { at_ms, fault });
            at_ms += CHURN_MS / 2 + rng.below(CHURN_MS);
        }
        plan.kinds.push(("kill".to_owned(), CHURN_MS));
        plan
    }

    /// Steps of one kind, from its own stream: half to one and a half times the mean apart.
    fn add(&mut self, kind: &Kind, every_ms: u64, rng: &mut Rng) {
        let mut at_ms = WARM_UP_MS + rng.below(every_ms);
        while at_ms < self.storm_ms {
            self.steps.push(Step { at_ms, fault: kind.draw(rng) });
            at_ms += every_ms / 2 + rng.below(every_ms);
        }
    }
}

/// As likely between one and two as between two and four.
fn log_uniform(rng: &mut Rng, (low, high): (u64, u64)) -> u64 {
    let mut octaves = 0;
    while low << (octaves + 1) <= high {
        octaves += 1;
    }
    let octave = low << rng.below(octaves + 1);
    rng.between(octave, (octave * 2).min(high + 1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::place::DRAWERS;

    const MINUTE: u64 = 60_000;

    #[test]
    fn one_seed_is_one_plan() {
        assert_eq!(Plan::draw(1, 15 * MINUTE, true), Plan::draw(1, 15 * MINUTE, true));
        assert_ne!(Plan::draw(1, MINUTE, true).steps, Plan::draw(2, MINUTE, true).steps);
    }

    #[test]
    fn every_plan_kills_often_enough() {
        for seed in 0..200 {
            let plan = Plan::draw(seed, 15 * MINUTE, true);
            let kills = plan.steps.iter().map(|step| {
                if let Fault::Kill { nodes, .. } = &step.fault { nodes.len() } else { 0 }
            });
            let per_minute = kills.sum::<usize>() as f64 / 15.0;
            assert!(per_minute >= 12.0, "seed {seed}: {per_minute} kills a minute");
        }
    }

    #[test]
    fn seeds_differ_in_kinds_and_all_kinds_come() {
        let mut seen = BTreeSet::new();
        let mut sets = BTreeSet::new();
        for seed in 0..100 {
            let plan = Plan::draw(seed, 10 * MINUTE, true);
            let kinds: BTreeSet<_> = plan.kinds.iter().map(|(name, _)| name.clone()).collect();
            seen.extend(kinds.clone());
            sets.insert(kinds);
        }
        assert_eq!(seen.len(), KINDS.len());
        assert!(sets.len() > 80, "{} different sets", sets.len());
    }

    /// Each kind, drawn as a plan draws it, is about somebody who is there, ends, and is written and
    /// read as itself.
    #[test]
    fn every_kind_is_about_somebody_and_ends() {
        for (stream, kind) in (1..).zip(KINDS) {
            let mut rng = Rng::of(9, stream);
            for _ in 0..200 {
                let fault = kind.draw(&mut rng);
                let text = serde_json::to_string(&fault).expect("written");
                assert_eq!(serde_json::from_str::<Fault>(&text).expect("read"), fault);
                let value: serde_json::Value = serde_json::from_str(&text).expect("read");
                let lasts =
                    ["for-ms", "down-ms", "after-ms"].iter().find_map(|it| value[it].as_u64());
                assert!(lasts.unwrap_or_default() < 15_000, "{}: {text}", kind.name);
                let nodes = value["nodes"].as_array().into_iter().flatten();
                for node in nodes.chain(["node", "middle", "from", "to"].map(|it| &value[it])) {
                    assert!(node.as_u64().unwrap_or_default() < NODES as u64, "{text}");
                }
                let drawer = value["drawer"].as_u64().unwrap_or_default();
                assert!(drawer < DRAWERS as u64, "{text}");
            }
        }
    }

    /// Of the faults that this project was asked to withstand none is forgotten.
    #[test]
    fn what_must_be_withstood_has_a_kind() {
        let has = |name: &str| KINDS.iter().any(|kind| kind.name == name);
        for name in [
            "kill",
            "pause",
            "isolate",
            "one-way",
            "bridge",
            "no-store",
            "no-queues",
            "store-killed",
            "store-lost",
            "queues-killed",
            "disk-full",
            "clock-step",
            "gc-lagging",
            "gc-booting",
            "gc-killed",
            "mass-restart",
            "reset",
            "thin-line",
            "flicker",
        ] {
            assert!(has(name), "{name}");
        }
    }

    /// A seed that found something finds it again though there are more kinds by now: a new one is put
    /// behind the others, and has a stream of its own.
    #[test]
    fn one_more_kind_changes_nothing_about_the_others() {
        let plan = Plan::draw(5, MINUTE, true);
        let every = |name: &str| plan.kinds.iter().find(|(kind, _)| kind == name).map(|it| it.1);
        assert_eq!((every("kill"), every("store-killed")), (Some(3_371), Some(87_474)));
        assert_eq!((every("gc"), every("reschedule")), (Some(30_186), None));
        let killed = plan.steps.iter().find(|step| matches!(step.fault, Fault::Kill { .. }));
        let fault = Fault::Kill { nodes: vec![4], down_ms: 235 };
        assert_eq!(killed, Some(&Step { at_ms: 8_161, fault }));
    }

    #[test]
    fn what_is_left_out_is_all_that_is_missing() {
        let whole = Plan::draw(1, 10 * MINUTE, true);
        let less = Plan::draw_of(1, 10 * MINUTE, true, Kinds::Some, &["kill".to_owned()]);
        let is_kill =
            |fault: &Fault| matches!(fault, Fault::Kill { nodes, .. } if nodes.len() == 1);
        let mut expected = whole.steps.clone();
        expected.retain(|step| !is_kill(&step.fault));
        assert!(whole.steps.len() > expected.len() + 100);
        assert_eq!(less.steps, expected);
    }

    #[test]
    fn every_kind_is_what_the_seed_has_and_all_others() {
        let some = Plan::draw(1, 10 * MINUTE, true);
        let all = Plan::draw_of(1, 10 * MINUTE, true, Kinds::All, &[]);
        let names: Vec<_> = all.kinds.iter().map(|(name, _)| name.as_str()).collect();
        let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(names, known);
        assert!(some.kinds.len() < all.kinds.len());
        assert!(some.steps.iter().all(|step| all.steps.contains(step)), "the same, and more");
    }

    #[test]
    fn without_a_sandbox_nothing_is_cut_or_filled() {
        for seed in 0..50 {
            for step in Plan::draw(seed, 10 * MINUTE, false).steps {
                let is_cut = matches!(
                    step.fault,
                    Fault::Isolate { .. }
                        | Fault::Split { .. }
                        | Fault::Bridge { .. }
                        | Fault::OneWay { .. }
                        | Fault::NoStore { .. }
                        | Fault::DeafToStore { .. }
                        | Fault::NoQueues { .. }
                        | Fault::DrawerCut { .. }
                        | Fault::DiskFull { .. }
                        | Fault::Reset { .. }
                        | Fault::ThinLine { .. }
                        | Fault::Flicker { .. }
                );
                assert!(!is_cut, "seed {seed}: {step:?}");
            }
        }
    }

    #[test]
    fn on_an_ordinary_day_most_stay() {
        let plan = Plan::soak(4, 60 * MINUTE);
        let killed = |step: &Step| {
            let Fault::Kill { nodes, .. } = &step.fault else { panic!("{step:?}") };
            nodes.clone()
        };
        let killed: BTreeSet<_> = plan.steps.iter().flat_map(killed).collect();
        assert_eq!(killed, (STEADY_NODES..NODES).collect());
        assert!(plan.steps.len() > 80, "{} kills in an hour", plan.steps.len());
    }

    #[test]
    fn a_plan_is_written_and_read() {
        let plan = Plan::draw(3, MINUTE, true);
        let text = serde_json::to_string(&plan).expect("written");
        assert_eq!(serde_json::from_str::<Plan>(&text).expect("read"), plan);
    }

    #[test]
    fn nothing_goes_wrong_while_it_warms_up() {
        let plan = Plan::draw(5, 10 * MINUTE, true);
        assert!(plan.steps.iter().all(|step| step.at_ms >= WARM_UP_MS && step.at_ms < 10 * MINUTE));
        assert!(plan.steps.is_sorted_by_key(|step| step.at_ms));
    }
}
