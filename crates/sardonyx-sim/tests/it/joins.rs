//! Joining stays cheap when many do it at once.

use sardonyx_core::JoinProtocol;
use sardonyx_sim::joins::Start;

/// Three entries are the least; each failed attempt costs two more.
const ENTRIES_PER_JOIN_MAX: f64 = 6.0;

#[test]
fn a_thousand_start_together_with_few_entries_each() {
    for protocol in [JoinProtocol::ThreePhase, JoinProtocol::TwoPhase] {
        let start = Start { protocol, nodes: 20, peers: 50, latency: 20 };
        let cost = start.run(1).unwrap();
        let each = cost.entries_per_join(&start);
        println!("{protocol}: {each:.2} entries per join, {cost:?}");
        assert!(each <= ENTRIES_PER_JOIN_MAX, "{each} entries per join");
    }
}
