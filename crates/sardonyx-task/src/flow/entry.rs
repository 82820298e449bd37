//! One `[[flow]]` of a job file, read and checked.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Test;
use crate::{Registry, nearest, sql::Condition};

/// How many conditions a task can have.
pub const CONDITIONS_MAX: usize = 64;

const KEYS: &[&str] = &["from", "to", "when", "fn", "short-circuit", "exclude-keys", "exception"];

/// Where a segment goes if the condition is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum To {
    All,
    None,
    Tasks(Vec<String>),
}

/// A condition, as it is written.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its place in the job's list.
    pub(super) at: usize,
    pub(super) from: String,
    pub(super) to: To,
    pub(super) when: Option<String>,
    pub(super) named: Option<String>,
    pub(super) short_circuit: bool,
    pub(super) exclude: Vec<String>,
    pub(super) exception: bool,
}

impl Entry {
    /// The conditions of one task, in order.
    pub(super) fn of_task(job: &Value, task: &str) -> Result<Vec<Entry>, String> {
        let entries = list(job)?.iter().enumerate();
        let of_task = entries.filter(|(_, entry)| entry.get("from") == Some(&Value::from(task)));
        of_task
            .map(|(at, entry)| read(at, entry).map_err(|why| format!("flow[{at}]: {why}")))
            .collect()
    }

    pub(super) fn test(&self, registry: &Registry) -> Result<Test, String> {
        match (&self.when, &self.named) {
            (Some(when), None) => {
                let condition = Condition::new(when).map_err(|why| format!("when: {why}"))?;
                Ok(Test::Sql(Arc::new(condition)))
            }
            (None, Some(name)) => Ok(Test::Named(registry.make_predicate(name)?)),
            (None, None) => Ok(Test::Always),
            (Some(_), Some(_)) => Err("has when or fn, not both".into()),
        }
    }

    pub(super) fn targets(&self, downstream: &[String]) -> Result<Vec<String>, String> {
        let known = || downstream.iter().map(String::as_str);
        match &self.to {
            To::All => Ok(downstream.to_vec()),
            To::None => Ok(Vec::new()),
            To::Tasks(tasks) => match tasks.iter().find(|task| !downstream.contains(task)) {
                None => Ok(tasks.clone()),
                Some(task) => {
                    let from = &self.from;
                    Err(format!("{task} does not follow {from}; {}", nearest::hint(task, known())))
                }
            },
        }
    }
}

fn list(job: &Value) -> Result<&[Value], String> {
    match job.get("flow") {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(entries)) => Ok(entries),
        Some(_) => Err("flow is a list of conditions: write [[flow]]".into()),
    }
}

fn read(at: usize, entry: &Value) -> Result<Entry, String> {
    let table = entry.as_object().ok_or("a condition is a table: write [[flow]]")?;
    if let Some(slip) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!(
            "there is no key {slip}; {}",
            nearest::hint(slip, KEYS.iter().copied())
        ));
    }
    let from = text(table, "from")?.ok_or("needs from: write from = \"split\"")?;
    let to = match table.get("to") {
        Some(Value::String(to)) if to == "all" => To::All,
        Some(Value::String(to)) if to == "none" => To::None,
        Some(Value::String(to)) => To::Tasks(vec![to.clone()]),
        Some(_) => To::Tasks(texts(table, "to")?),
        None => return Err("needs to: write to = [\"errors\"], \"all\" or \"none\"".into()),
    };
    let (when, named) = (text(table, "when")?, text(table, "fn")?);
    let exception = truth(table, "exception")?;
    if when.is_some() && named.is_some() {
        return Err("has when or fn, not both".into());
    }
    if when.is_none() && named.is_none() && !exception {
        return Err("needs a condition: write when = \"status >= 500\" or fn = \"…\"".into());
    }
    let (short_circuit, exclude) = (truth(table, "short-circuit")?, texts(table, "exclude-keys")?);
    Ok(Entry { at, from, to, when, named, short_circuit, exclude, exception })
}

fn text(table: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(other) => Err(format!("{key} is a text, not {other}")),
    }
}

fn truth(table: &Map<String, Value>, key: &str) -> Result<bool, String> {
    match table.get(key) {
        None => Ok(false),
        Some(Value::Bool(truth)) => Ok(*truth),
        Some(other) => Err(format!("{key} is true or false, not {other}")),
    }
}

fn texts(table: &Map<String, Value>, key: &str) -> Result<Vec<String>, String> {
    let Some(value) = table.get(key) else { return Ok(Vec::new()) };
    let texts = value.as_array().and_then(|all| {
        all.iter().map(|it| it.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    texts.ok_or_else(|| format!("{key} is a list of texts, not {value}"))
}

/// Short-circuiting conditions come first, of them `all`, then `none`; both must short-circuit: what
/// comes after them could add nothing, or would contradict them. The error has its place.
pub(super) fn check_order(entries: &[Entry]) -> Result<(), (usize, String)> {
    if entries.len() > CONDITIONS_MAX {
        let over = entries[CONDITIONS_MAX].at;
        return Err((over, format!("a task has at most {CONDITIONS_MAX} conditions")));
    }
    for exception in [false, true] {
        let mut rank_before = 0;
        for entry in entries.iter().filter(|it| it.exception == exception) {
            let (rank, what) = match (&entry.to, entry.short_circuit) {
                (To::All | To::None, false) => {
                    return Err((
                        entry.at,
                        "to all or none needs short-circuit = true: what comes after could not \
                         change it"
                            .into(),
                    ));
                }
                (To::All, true) => (0, "to = \"all\" comes before the others"),
                (To::None, true) => (1, "to = \"none\" comes right after to = \"all\""),
                (To::Tasks(_), true) => (2, "short-circuiting conditions come before the others"),
                (To::Tasks(_), false) => (3, ""),
            };
            if rank < rank_before {
                return Err((entry.at, format!("{what}: move it up")));
            }
            rank_before = rank;
        }
    }
    Ok(())
}

/// Everything that is wrong with a job's flow conditions, each with its place. `edges` are those of
/// the workflow.
pub fn complaints(
    job: &Value,
    edges: &[(&str, &str)],
    registry: &Registry,
) -> Vec<(String, String)> {
    let list = match list(job) {
        Ok(list) => list,
        Err(why) => return vec![("flow".into(), why)],
    };
    let mut complaints = Vec::new();
    let mut read_all: Vec<Entry> = Vec::new();
    for (at, entry) in list.iter().enumerate() {
        let place = format!("flow[{at}]");
        let entry = match read(at, entry) {
            Ok(entry) => entry,
            Err(why) => {
                complaints.push((place, why));
                continue;
            }
        };
        let follows = edges.iter().filter(|(from, _)| *from == entry.from);
        let downstream: Vec<String> = follows.map(|(_, to)| (*to).to_owned()).collect();
        if downstream.is_empty() {
            let known =
                edges.iter().map(|(from, _)| *from).collect::<std::collections::BTreeSet<_>>();
            let hint = nearest::hint(&entry.from, known);
            let why = format!("nothing follows {}; {hint}", entry.from);
            complaints.push((format!("{place}.from"), why));
        } else if let Err(why) = entry.targets(&downstream) {
            complaints.push((format!("{place}.to"), why));
        }
        if let Err(why) = entry.test(registry) {
            complaints.push((place, why));
        }
        read_all.push(entry);
    }
    let mut tasks: Vec<String> = read_all.iter().map(|it| it.from.clone()).collect();
    tasks.sort();
    tasks.dedup();
    for task in tasks {
        let of_task: Vec<Entry> = read_all.iter().filter(|it| it.from == task).cloned().collect();
        if let Err((at, why)) = check_order(&of_task) {
            complaints.push((format!("flow[{at}]"), why));
        }
    }
    complaints
}
