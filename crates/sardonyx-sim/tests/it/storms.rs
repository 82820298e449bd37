//! Many seeds hold, each is the same run every time, and together they have seen everything.

use std::collections::BTreeSet;

use sardonyx_sim::{Passed, Plan, Probes, World, plan::What, seeds::spread, weather};

use crate::number;

/// Every seed holds, and together they have seen every rare path.
#[test]
fn every_storm_calms_down() {
    let (first, seeds) = (number("SIM_SEED", 1), number("SIM_SEEDS", 300));
    let totals = spread(first, seeds, |total: &mut (Probes, usize, usize), seed| {
        let Passed { probes, entries, boots, .. } =
            World::run(seed).unwrap_or_else(|failed| panic!("{failed}"));
        total.0.add(&probes);
        total.1 += entries;
        total.2 += boots;
    });
    let mut probes = Probes::default();
    totals.iter().for_each(|(seen, ..)| probes.add(seen));
    let (entries, boots) = totals.iter().fold((0, 0), |sum, it| (sum.0 + it.1, sum.1 + it.2));
    println!("{seeds} seeds, {entries} entries, {boots} virtual peers");
    for (what, count) in probes.counts() {
        println!("{count:>8}  {what}");
        assert!(count > 0 || seeds < 300, "no seed has seen: {what}");
    }
}

/// A fault or a request that no plan contains would test nothing.
#[test]
fn the_seeds_of_a_test_run_draw_every_kind_of_weather_and_work() {
    let kind = |what: &What| {
        let json = serde_json::to_value(what).unwrap();
        let (fault_or_request, inner) = json.as_object().unwrap().iter().next().unwrap();
        let name = inner.as_str().map_or_else(
            || inner.as_object().unwrap().keys().next().unwrap().clone(),
            str::to_owned,
        );
        format!("{fault_or_request} {name}")
    };
    let steps = (1..=300).flat_map(|seed| Plan::draw(seed).steps);
    let kinds: BTreeSet<_> = steps.map(|step| kind(&step.what)).collect();
    println!("{kinds:?}");
    assert_eq!(kinds.len() as u64, weather::KINDS + 4, "{kinds:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 1..50 {
        let hash = || World::run(seed).unwrap().trace_hash;
        assert_eq!(hash(), hash());
    }
}

#[test]
fn a_plan_that_was_printed_is_read_as_the_same_plan() {
    for seed in 1..50 {
        let plan = Plan::draw(seed);
        assert_eq!(Plan::parse(&plan.to_string()), Ok(plan));
    }
    let wrong = Plan::parse("{\"seed\":1}").unwrap_err();
    assert!(wrong.starts_with("line 1: missing field"), "{wrong}");
}
