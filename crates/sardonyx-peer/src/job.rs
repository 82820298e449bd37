//! Job files: read, checked whole, and made into the command that submits them.
//!
//! A job is TOML or JSON. Everything that is wrong with one is said at once, each complaint with
//! its place and what to write instead ([`Complaint`]); a job without complaints becomes a
//! [`Job`], whose tasks stand in topological order. What cannot be known here, which functions and
//! plugins there are, is asked of [`Names`].

mod check;
mod graph;
mod names;
mod read;

use std::{collections::BTreeMap, fmt, time::Duration};

use sardonyx_core::{
    JobId, TaskId,
    command::{JobText, SubmitJob},
};
use serde_json::Value;

pub use names::RegisteredNames;

/// The longest job file. The log takes a little more, but whoever reads it as well must move.
pub const JOB_BYTES_MAX: usize = 1 << 20;

/// A job without faults.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    name: String,
    text: JobText,
    tasks: Vec<TaskId>,
}

/// One thing that is wrong, where, and what to do about it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Complaint {
    /// Where: `catalog.read.max-peers`. Empty for the whole file.
    pub place: String,
    /// What is wrong, and what to write instead.
    pub what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.is_empty() {
            true => f.write_str(&self.what),
            false => write!(f, "{}: {}", self.place, self.what),
        }
    }
}

/// In which language a job is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// For people.
    Toml,
    /// For programs.
    Json,
}

impl Language {
    /// By the name of a file: JSON if it says so.
    pub fn of(file_name: &str) -> Language {
        if file_name.ends_with(".json") { Language::Json } else { Language::Toml }
    }
}

/// Which functions and plugins there are. What a build does not know cannot run in it, and is
/// better refused before it is submitted.
pub trait Names {
    /// Why there is no such thing for a task of this type, or `None` if there is. `keys` is the
    /// task's catalog entry, whose keys beyond the common ones are the plugin's to judge.
    fn complain(&self, kind: Kind, name: &str, keys: &BTreeMap<&str, &Value>) -> Option<String>;

    /// Whether a key that is not common to all tasks belongs to this function or plugin.
    fn knows_key(&self, kind: Kind, name: &str, key: &str) -> bool;

    /// The keys that belong to this function or plugin, to be named to whoever wrote another.
    fn own_keys(&self, _: Kind, _: &str) -> Vec<String> {
        Vec::new()
    }

    /// What is wrong with a job whose parts are right by themselves, each with its place.
    fn complain_about(&self, _: &Value, _: &[TaskId]) -> Vec<Complaint> {
        Vec::new()
    }
}

/// What kind of task a name is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reads from outside.
    Input,
    /// Makes segments of segments.
    Function,
    /// Writes to the outside.
    Output,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Function => "function",
            Kind::Output => "output",
        }
    }
}

/// Every name is taken as it is, with every key: for those who submit to nodes of another build.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyNames;

impl Names for AnyNames {
    fn complain(&self, _: Kind, _: &str, _: &BTreeMap<&str, &Value>) -> Option<String> {
        None
    }

    fn knows_key(&self, _: Kind, _: &str, _: &str) -> bool {
        true
    }
}

/// Tasks that wait, and no others.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIn;

impl Names for BuiltIn {
    fn complain(&self, kind: Kind, name: &str, keys: &BTreeMap<&str, &Value>) -> Option<String> {
        if name != "wait" {
            let kind = kind.name();
            return Some(format!("this build has no {kind} {name:?}; what there is: \"wait\""));
        }
        let text = |key: &str| keys.get(key).map(|value| value.as_str());
        match (text("for"), text("cell")) {
            (Some(None), _) => Some("for is a text such as \"2s\"".into()),
            (_, Some(None)) => Some("cell is the name of a cell, a text".into()),
            (Some(Some(after)), _) => duration(after).err(),
            (None, _) => None,
        }
    }

    fn knows_key(&self, _: Kind, name: &str, key: &str) -> bool {
        name != "wait" || matches!(key, "for" | "cell")
    }
}

impl Job {
    /// Reads and checks a whole job. `Err` has at least one complaint, in the order of places.
    pub fn read(text: &str, language: Language, names: &dyn Names) -> Result<Job, Vec<Complaint>> {
        let value = read::read(text, language).map_err(|complaint| vec![complaint])?;
        let tasks = check::check(&value, names)?;
        let name = value.get("name").and_then(Value::as_str).unwrap_or("job").to_owned();
        Ok(Job { name, text: JobText::new(&value.to_string()), tasks })
    }

    /// What its author calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The job as JSON, as it goes into the log.
    pub fn text(&self) -> &JobText {
        &self.text
    }

    /// Its tasks in topological order.
    pub fn tasks(&self) -> &[TaskId] {
        &self.tasks
    }

    /// The command that submits it under `id`.
    pub fn submit(&self, id: JobId) -> SubmitJob {
        SubmitJob { id, job: self.text.clone(), tasks: self.tasks.clone() }
    }
}

/// Reads `500ms`, `2s`, `5m` or `1h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration: write 500ms, 2s, 5m or 1h");
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
