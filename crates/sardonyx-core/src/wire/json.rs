//! Entries as JSON: `{"id": 0, "fn": "leave-cluster", "args": {"peer": "a"}}`.

use alloc::{
    borrow::Cow,
    format,
    string::{String, ToString},
};
use core::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::{
    command::{Command, Entry},
    id::Position,
};

/// Why a text is not an entry, and what would be one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Malformed {}

const EXPECTED: &str =
    r#"expected {"id": 0, "fn": "prepare-join-cluster", "args": {"joiner": "a"}}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryForm<'a> {
    id: u64,
    #[serde(borrow, rename = "fn")]
    name: Cow<'a, str>,
    #[serde(borrow)]
    args: &'a RawValue,
}

/// Reads one entry.
pub fn entry_from_json(text: &str) -> Result<Entry, Malformed> {
    let form: EntryForm<'_> =
        serde_json::from_str(text).map_err(|why| Malformed(format!("{why}; {EXPECTED}")))?;
    let command = command_from_json(&form.name, form.args.get())?;
    Ok(Entry { position: Position(form.id), command })
}

/// Reads a command from its name and its arguments.
pub fn command_from_json(name: &str, args: &str) -> Result<Command, Malformed> {
    fn read<T: DeserializeOwned + Into<Command>>(
        name: &str,
        args: &str,
    ) -> Result<Command, Malformed> {
        let read = serde_json::from_str::<T>(args);
        read.map(Into::into).map_err(|why| Malformed(format!("the args of {name}: {why}")))
    }
    use crate::command as c;
    match name {
        "configure-cluster" => read::<c::ConfigureCluster>(name, args),
        "prepare-join-cluster" => read::<c::PrepareJoinCluster>(name, args),
        "notify-join-cluster" => read::<c::NotifyJoinCluster>(name, args),
        "notify-watchers" => read::<c::NotifyWatchers>(name, args),
        "accept-join-cluster" => read::<c::AcceptJoinCluster>(name, args),
        "abort-join-cluster" => read::<c::AbortJoinCluster>(name, args),
        "leave-cluster" => read::<c::LeaveCluster>(name, args),
        "peer-gc" => read::<c::PeerGc>(name, args),
        "submit-job" => read::<c::SubmitJob>(name, args),
        "volunteer-for-task" => read::<c::VolunteerForTask>(name, args),
        "seal-task" => read::<c::SealTask>(name, args),
        "complete-task" => read::<c::CompleteTask>(name, args),
        "kill-job" => read::<c::KillJob>(name, args),
        "gc" => read::<c::Gc>(name, args),
        _ => {
            let known = Command::NAMES.join(", ");
            Err(Malformed(format!("there is no command {name:?}; the commands are {known}")))
        }
    }
}

/// The entry as one line of JSON.
pub fn entry_to_json(entry: &Entry) -> String {
    let id = entry.position;
    let name = entry.command.name();
    format!(r#"{{"id":{id},"fn":"{name}","args":{}}}"#, args_to_json(&entry.command))
}

/// The command as JSON, without a position.
pub fn command_to_json(command: &Command) -> String {
    format!(r#"{{"fn":"{}","args":{}}}"#, command.name(), args_to_json(command))
}

fn args_to_json(command: &Command) -> String {
    fn write(args: &impl Serialize) -> String {
        serde_json::to_string(args).unwrap_or_default()
    }
    match command {
        Command::ConfigureCluster(args) => {
            // What is not configured is not mentioned.
            let mut options = serde_json::to_value(args).unwrap_or_default();
            if let Value::Object(options) = &mut options {
                options.retain(|_, value| !value.is_null());
            }
            options.to_string()
        }
        Command::PrepareJoinCluster(args) => write(args),
        Command::NotifyJoinCluster(args) => write(args),
        Command::NotifyWatchers(args) => write(args),
        Command::AcceptJoinCluster(args) => write(args),
        Command::AbortJoinCluster(args) => write(args),
        Command::LeaveCluster(args) => write(args),
        Command::PeerGc(args) => write(args),
        Command::SubmitJob(args) => write(args),
        Command::VolunteerForTask(args) => write(args),
        Command::SealTask(args) => write(args),
        Command::CompleteTask(args) => write(args),
        Command::KillJob(args) => write(args),
        Command::Gc(args) => write(args),
    }
}
