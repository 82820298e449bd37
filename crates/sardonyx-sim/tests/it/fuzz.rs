//! A plan in a file is made by hand, or cut out of a failing run: it is read, or refused with its line.

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use harness::Target;
use sardonyx_sim::plan::Plan;

#[test]
fn a_plan_in_a_file() {
    let seeds = (0..6).map(|seed| Plan::draw(seed).to_string().into_bytes()).collect();
    let words =
        &["\"at\":", "\"what\":", "\"fault\":", "\"request\":", "null", "-1", "{", "}", "\n"];
    Target { name: "sim-plan", seeds, words }.run(|input| {
        match Plan::parse(&String::from_utf8_lossy(input)) {
            Err(why) => {
                assert!(why.starts_with("line ") || why == "the plan is empty", "{why}");
                why
            }
            Ok(plan) => {
                assert_eq!(Plan::parse(&plan.to_string()).as_ref(), Ok(&plan));
                format!("a plan of {:?}", plan.scheduler)
            }
        }
    });
}
