//! A1: every order of one election of three voters, two proposers, one crash.

use sardonyx_mesh::mutant::{Mutant, with_mutant};
use sardonyx_sim::mesh::model::{Explored, Small, explore};

use crate::number;

fn small(crashes: u8) -> Small {
    let states_max = usize::try_from(number("MESH_MODEL_STATES", 20_000_000)).unwrap();
    let slow_disks = number("MESH_MODEL_SLOW_DISKS", 0) > 0;
    Small { crashes, doubled: false, slow_disks, states_max }
}

fn show(what: &str, explored: &Explored) {
    let Explored { states, steps, elected, is_complete, witness } = explored;
    println!("{what}: {states} states, {steps} steps, {elected} with a leader, all: {is_complete}");
    if let Some((broken, way)) = witness {
        println!("{broken}, after {} steps", way.len());
    }
}

#[test]
fn every_order_of_one_election_has_one_leader() {
    let crashes = u8::try_from(number("MESH_MODEL_CRASHES", 1)).unwrap();
    let explored = explore(small(crashes));
    show("one election", &explored);
    assert_eq!(explored.witness, None);
    assert!(explored.is_complete && explored.elected > 0 && explored.states > 1_000);
}

/// The same when a write takes time, so that a crash loses what was not on the disk yet. All of it is
/// half a million states and takes minutes: `MESH_MODEL_FULL=1` asks for it, otherwise a tenth is
/// looked at.
#[test]
fn every_order_with_a_crash_that_loses_writes_has_one_leader() {
    let is_full = number("MESH_MODEL_FULL", 0) > 0;
    let states_max = if is_full { 20_000_000 } else { 50_000 };
    let explored = explore(Small { slow_disks: true, states_max, ..small(1) });
    show("one election, one crash, writes that take time", &explored);
    assert_eq!(explored.witness, None);
    assert!(explored.elected > 0);
    if is_full {
        assert!(explored.is_complete && explored.states > 500_000);
    }
}

#[test]
fn the_model_finds_the_holes_that_are_opened_again() {
    // That the last answer decides shows only where one's own may come last.
    for (mutant, crashes, slow_disks) in [(Mutant::H1, 0, true), (Mutant::H4, 1, false)] {
        let small = Small { slow_disks, ..small(crashes) };
        let explored = with_mutant(Some(mutant), || explore(small));
        show(&format!("{mutant:?}"), &explored);
        assert!(explored.witness.is_some(), "{mutant:?} went unnoticed");
    }
}
