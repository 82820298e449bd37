//! Judges read what was written down while everything went wrong: whatever stands there, they judge.
//! What has no sense is broken or left out; it never ends the judge, and never makes a record well
//! that was not.

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use std::collections::{BTreeMap, BTreeSet};

use harness::Target;
use sardonyx_core::Position;

use super::{
    ids::{below_marks, differ, grows, runs},
    log::{Line, judge},
    tokens::leave_out,
};
use crate::{plan::Plan, trace};

#[test]
fn a_trace() {
    let lines = "{\"at-micros\":10,\"what\":\"stopped\",\"who\":\"node1\"}\n\
                 {\"at-micros\":11,\"what\":\"killed\",\"who\":\"node2\",\"pid\":7}\n\
                 {\"at-micros\":12,\"what\":\"killed\",\"who\":\"drawer0\"}\n\
                 {\"at-micros\":20,\"what\":\"continued\",\"who\":\"node1\"}\n\
                 {\"at-micros\":21,\"what\":\"exited\",\"who\":\"node3\",\"code\":3}\n";
    let seeds = vec![lines.as_bytes().to_vec(), b"{\"at-micros\":1,\"what\":\"calm\"}\n".to_vec()];
    let words = &["\"who\":", "null", "node", "18446744073709551615", "-1", "{", "}", "[", "\n"];
    Target { name: "fire-trace", seeds, words }.run(|input| {
        let text = String::from_utf8_lossy(input);
        let lines = trace::read(&text);
        let (kills, exits, still) =
            (trace::kills(&lines), trace::exits(&lines), trace::stillnesses(&lines));
        assert!(kills + exits.len() as u64 <= lines.len() as u64, "more than happened");
        assert!(still.iter().all(|it| it.from_micros <= it.to_micros), "{still:?}");
        leave_out(&mut Vec::new(), &still);
        let counted: u64 = trace::counts(&lines).iter().map(|(_, n)| n).sum();
        assert!(counted <= lines.len() as u64, "counted twice");
        let some = |n: usize| "x".repeat(n.min(3));
        let kinds = [kills as usize, exits.len(), still.len(), lines.len()].map(some);
        format!("{} {:?}", kinds.join(" "), exits.first())
    });
}

#[test]
fn a_written_log() {
    let seeds = vec![
        b"{\"id\":0,\"fn\":\"prepare-join-cluster\",\"args\":{\"joiner\":\"a\"}}\n\
          {\"id\":1,\"fn\":\"prepare-join-cluster\",\"args\":{\"joiner\":\"b\"}}\n\
          {\"id\":4,\"fn\":\"leave-cluster\",\"args\":{\"peer\":\"a\"}}\n"
            .to_vec(),
        b"{\"origin\":3,\"replica\":\"{\\\"peers\\\":[\\\"a\\\"]}\"}\n\
          {\"id\":5,\"fn\":\"gc\",\"args\":{\"caller\":\"c\"}}\n{\"unreadable\":6,\"why\":\"noise\"}\n"
            .to_vec(),
        b"{\"id\":2,\"fn\":\"kill-job\",\"args\":{\"job\":\"j\",\"reason\":\"r\"}}\n".to_vec(),
    ];
    let words = &["\"id\":", "\"fn\":", "\"args\":", "origin", "unreadable", "null", "\n", "{}"];
    Target { name: "fire-log", seeds, words }.run(|input| {
        let text = String::from_utf8_lossy(input);
        let lines: Result<Vec<_>, _> = text.lines().map(Line::parse).collect();
        let lines = match lines {
            Ok(lines) => lines,
            Err(why) => return why,
        };
        for line in &lines {
            assert_eq!(Line::parse(&line.to_text()).as_ref(), Ok(line), "read is written is read");
        }
        let played = judge(&lines, &BTreeSet::from([Position(1)]));
        let unread = lines.iter().filter(|line| matches!(line, Line::Unreadable(..))).count();
        assert!(played.broken.len() >= unread, "an entry that cannot be read is broken");
        // The same lines once more cannot be well: positions would go back.
        let twice: Vec<_> = lines.iter().chain(&lines).cloned().collect();
        let has_entries = lines.iter().any(|line| matches!(line, Line::Entry(_)));
        assert!(!has_entries || !judge(&twice, &BTreeSet::new()).broken.is_empty());
        played.broken.join(" ")
    });
}

#[test]
fn what_was_drawn() {
    let numbers = |all: &[u64]| all.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    let seeds = vec![
        numbers(&[7, 2, 9, 5, 1 << 40, 4_096]),
        numbers(&[u64::MAX, 1]),
        numbers(&[10, 100, 20, 1]),
        vec![1, 2, 3],
    ];
    Target { name: "fire-ids", seeds, words: &[] }.run(|input| {
        let mut all = runs(input);
        assert_eq!(all.len(), input.len() / 16, "half of one is what a kill left");
        let falls = grows("p", &all).len();
        let (_, twice) = differ(&mut all);
        let beyond = below_marks(&all, |id| (1, id), &BTreeMap::from([(1, 1 << 50)]));
        // One that is there twice is found by whoever looks at all of them.
        let mut doubled: Vec<_> = all.iter().chain(&all).copied().collect();
        let has_ids = all.iter().any(|run| run.n > 0);
        assert!(!has_ids || !differ(&mut doubled).1.is_empty(), "{all:?}");
        let is = |broken: bool| if broken { "broken" } else { "well" };
        format!("{} {} {}", is(falls > 0), is(!twice.is_empty()), is(!beyond.is_empty()))
    });
}

#[test]
fn a_plan() {
    let written = |seed| serde_json::to_vec(&Plan::draw(seed, 20_000, true)).expect("a plan");
    let words = &["\"at-ms\":", "\"fault\":", "kill", "pause", "null", "-1", "{", "}", "[", "]"];
    Target { name: "fire-plan", seeds: (0..4).map(written).collect(), words }.run(|input| {
        match serde_json::from_slice::<Plan>(input) {
            Err(why) => why.to_string(),
            Ok(plan) => {
                let text = serde_json::to_string(&plan).expect("written");
                assert_eq!(serde_json::from_str::<Plan>(&text).expect("read"), plan);
                "a plan".into()
            }
        }
    });
}
