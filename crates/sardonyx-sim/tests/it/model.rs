//! All interleavings of small clusters.

use sardonyx_core::{
    JoinProtocol,
    mutant::{Mutant, with_mutant},
};
use sardonyx_sim::model::{Explored, Small, explore};

use crate::number;

/// The documents ask for formal verification: here every interleaving of a small cluster is tried.
#[test]
fn a_small_cluster_has_no_corner_without_a_way_out() {
    for protocol in [JoinProtocol::ThreePhase, JoinProtocol::TwoPhase] {
        let small =
            Small { protocol, members: 2, joiners: 1, crashes: 1, may_crash: None, log_max: 8 };
        let explored = explore(small);
        println!("{small:?}: {explored:?}");
        assert!(explored.witness.is_none(), "{small:?}: {:#?}", explored.witness);
        assert!(explored.at_rest > 0 && explored.states > 1_000, "{explored:?}");
    }
}

/// What ten thousand random runs may miss, looking at everything cannot: a watch that is lost when
/// a member leaves between notify and accept.
#[test]
fn without_derived_watches_there_is_a_corner_without_a_way_out() {
    let protocol = JoinProtocol::ThreePhase;
    // The second member is the one whom the joiner is to watch.
    let may_crash = Some(1);
    let small = Small { protocol, members: 3, joiners: 1, crashes: 1, may_crash, log_max: 6 };
    let explored = with_mutant(Some(Mutant::EdgeWatches), || explore(small));
    let (why, way) = explored.witness.expect("the model must notice");
    println!("{} states, {} stuck: {why}\n{}", explored.states, explored.stuck, way.join("\n"));
    assert!(way.iter().any(|step| step.contains("crashes")));
}

/// The size that the documents' examples have. Larger ones: MODEL_MEMBERS and so on.
#[test]
fn three_members_one_joiner_one_crash() {
    let size = |name, otherwise| number(name, otherwise) as usize;
    let small = Small {
        protocol: JoinProtocol::ThreePhase,
        members: size("MODEL_MEMBERS", 3),
        joiners: size("MODEL_JOINERS", 1),
        crashes: size("MODEL_CRASHES", 1) as u8,
        may_crash: None,
        log_max: size("MODEL_LOG_MAX", 5),
    };
    let explored = explore(small);
    let Explored { states, steps, at_rest, cut, stuck, witness } = explored;
    println!(
        "{small:?}: {states} states, {steps} steps, {at_rest} at rest, {cut} cut, {stuck} stuck"
    );
    assert!(witness.is_none(), "{small:?}: {witness:#?}");
    assert!(at_rest > 0, "nothing was ever at rest");
}
