//! What was done and what happened by itself, one JSON object a line, with the time.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write as _},
    path::Path,
    sync::{Mutex, PoisonError},
};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::{judge::tokens::Stillness, place::NODES};

/// Microseconds of the clock that goes on while the machine sleeps, the same in every process of the
/// machine; tokens of the mesh end by it.
pub fn now_micros() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.max(0) as u64 * 1_000_000 + time.tv_nsec.max(0) as u64 / 1_000
}

/// The file in which all of it stands.
#[derive(Debug)]
pub struct Trace {
    file: Mutex<File>,
}

impl Trace {
    /// Begins a trace.
    pub fn create(path: &Path) -> io::Result<Trace> {
        Ok(Trace { file: Mutex::new(File::create(path)?) })
    }

    /// Writes one line. What cannot be written is said on the standard error: the run goes on, and
    /// its judge will miss it.
    pub fn note(&self, what: &str, details: Value) {
        let mut line = json!({"at-micros": now_micros(), "what": what});
        if let (Some(line), Value::Object(details)) = (line.as_object_mut(), details) {
            line.extend(details);
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = writeln!(file, "{line}") {
            eprintln!("sardonyx-fire: the trace cannot be written: {why}: {line}");
        }
    }
}

/// Reads a trace. A last line without an end is left out.
pub fn read(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn micros(line: &Value) -> u64 {
    line["at-micros"].as_u64().unwrap_or_default()
}

fn count(lines: &[Value], what: &str) -> u64 {
    lines.iter().filter(|line| line["what"] == what).count() as u64
}

/// How many nodes and servers were killed.
pub fn kills(lines: &[Value]) -> u64 {
    let is_drawer = |line: &&Value| line["who"].as_str().is_some_and(|it| it.starts_with("drawer"));
    let killed = lines.iter().filter(|line| line["what"] == "killed");
    killed.filter(|line| !is_drawer(line)).count() as u64
}

/// How often each kind of thing was done.
pub fn counts(lines: &[Value]) -> Vec<(String, u64)> {
    let mut names: Vec<_> = lines.iter().filter_map(|line| line["what"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.iter().map(|name| ((*name).to_owned(), count(lines, name))).collect()
}

/// Kinds of faults of which not a single one could be carried out, and why the last could not: such a run
/// says nothing about them.
pub fn vain(lines: &[Value]) -> Vec<String> {
    let mut tried: BTreeMap<&str, (u64, u64, &str)> = BTreeMap::new();
    for line in lines {
        if line["what"] == "fault" {
            tried.entry(kind(line)).or_default().0 += 1;
        } else if line["what"] == "fault-failed" {
            let (_, n_failed, why) = tried.entry(kind(&line["fault"])).or_default();
            *n_failed += 1;
            *why = line["why"].as_str().unwrap_or_default();
        }
    }
    let vain = tried.into_iter().filter(|(_, (n, n_failed, _))| n_failed >= n);
    vain.map(|(kind, (_, n, why))| format!("none of {n} {kind} was carried out: {why}")).collect()
}

/// What the plan calls it. Kills of one, of two and of all are written alike, and differ in how many they
/// are about.
fn kind(fault: &Value) -> &str {
    let name = fault["fault"].as_str().unwrap_or_default();
    match (name, fault["nodes"].as_array().map_or(0, Vec::len)) {
        ("kill", NODES) => "mass-restart",
        ("kill", 2..) => "kill-two",
        _ => name,
    }
}

/// How long an answer that was half ready when its process was stopped may take afterwards.
const ON_ITS_WAY_MICROS: u64 = 500_000;

/// When nodes stood still.
pub fn stillnesses(lines: &[Value]) -> Vec<Stillness> {
    let mut still = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line["what"] == "stopped") {
        let who = line["who"].as_str().unwrap_or_default();
        let Some(node) = who.strip_prefix("node").and_then(|it| it.parse().ok()) else { continue };
        let end = lines[index..].iter().find(|it| it["what"] == "continued" && it["who"] == who);
        let from = micros(line);
        let to = end.map_or(u64::MAX, micros).max(from).saturating_add(ON_ITS_WAY_MICROS);
        still.push(Stillness { node, from_micros: from, to_micros: to });
    }
    still
}

/// Processes that ended by themselves: who, and with which code; none if a signal ended them.
pub fn exits(lines: &[Value]) -> Vec<(String, Option<i64>)> {
    let exited = lines.iter().filter(|line| line["what"] == "exited");
    let text = |line: &Value| line["who"].as_str().unwrap_or_default().to_owned();
    exited.map(|line| (text(line), line["code"].as_i64())).collect()
}

/// Commands of the program that had no end.
pub fn hung(lines: &[Value]) -> Vec<String> {
    let hung = lines.iter().filter(|line| line["what"] == "hung");
    hung.map(|line| line["why"].as_str().unwrap_or("a command hung").to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Value> {
        read(
            "{\"at-micros\":10,\"what\":\"stopped\",\"who\":\"node1\"}\n\
             {\"at-micros\":11,\"what\":\"killed\",\"who\":\"node2\"}\n\
             {\"at-micros\":12,\"what\":\"killed\",\"who\":\"drawer0\"}\n\
             {\"at-micros\":20,\"what\":\"continued\",\"who\":\"node1\"}\n\
             {\"at-micros\":21,\"what\":\"exited\",\"who\":\"node3\",\"code\":3}\n\
             {\"at-mic",
        )
    }

    #[test]
    fn kills_of_those_who_draw_ids_do_not_count() {
        assert_eq!(kills(&lines()), 1);
    }

    #[test]
    fn a_pause_has_a_beginning_and_an_end() {
        let to_micros = 20 + ON_ITS_WAY_MICROS;
        assert_eq!(stillnesses(&lines()), [Stillness { node: 1, from_micros: 10, to_micros }]);
    }

    #[test]
    fn a_kind_of_which_none_was_carried_out_is_named() {
        let lines = |failed: &str| {
            let kill = "{\"what\":\"fault\",\"fault\":\"kill\",\"nodes\":[1]}\n";
            let full = "{\"what\":\"fault\",\"fault\":\"disk-full\",\"node\":1}\n";
            read(&[kill, kill, full, failed].concat())
        };
        let failed = |kind: &str| {
            format!(
                "{{\"what\":\"fault-failed\",\"fault\":{{\"fault\":\"{kind}\"}},\"why\":\"no\"}}\n"
            )
        };
        assert_eq!(vain(&lines("")), [""; 0]);
        assert_eq!(vain(&lines(&failed("kill"))), [""; 0], "the other was");
        assert_eq!(vain(&lines(&failed("disk-full"))), ["none of 1 disk-full was carried out: no"]);
        assert_eq!(vain(&lines(&failed("kill").repeat(2))).len(), 1);
    }

    #[test]
    fn kills_of_one_of_two_and_of_all_are_three_kinds() {
        let fault = |nodes| json!({"fault": "kill", "nodes": nodes, "down-ms": 0});
        let line = |nodes| {
            let mut line = fault(nodes);
            line["what"] = json!("fault");
            line
        };
        let failed = |nodes| json!({"what": "fault-failed", "fault": fault(nodes), "why": "no"});
        let (one, two, all) = (vec![1], vec![1, 2], (0..NODES).collect::<Vec<_>>());
        let mut lines = vec![line(one), line(two.clone()), line(all.clone())];
        assert_eq!(vain(&lines), [""; 0]);
        lines.extend([failed(two), failed(all)]);
        let vain = vain(&lines);
        assert_eq!(vain[0], "none of 1 kill-two was carried out: no");
        assert_eq!(vain[1], "none of 1 mass-restart was carried out: no");
        assert_eq!(vain.len(), 2);
    }

    #[test]
    fn a_command_without_an_end_is_named() {
        assert_eq!(hung(&lines()), [""; 0]);
        assert_eq!(hung(&[json!({"what": "hung", "why": "no end: gc"})]), ["no end: gc"]);
    }

    #[test]
    fn who_ended_by_itself_is_known() {
        assert_eq!(exits(&lines()), [("node3".to_owned(), Some(3))]);
    }
}
