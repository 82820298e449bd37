//! Settings from the environment and from a file, for the flags that were not given.
//!
//! Generic over the command line: whatever flag a subcommand has is also a variable, `SARDONYX_` and
//! its name in capitals, and a key of the file. A flag wins over a variable, a variable over the file.
//! What is found becomes flags in front of those that were given, so there is one place that knows
//! what a value may be, and one form of complaint.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, Command, CommandFactory};
use sardonyx_task::{nearest, secret};

use super::{Cli, Failure};

/// The subcommands that can be configured this way.
const CONFIGURED: &[&str] = &["start"];

/// What every variable begins with.
const PREFIX: &str = "SARDONYX_";

/// The file that is read if nobody names one.
const FILE: &str = "sardonyx.toml";

/// The flag that names the file; it cannot stand in the file itself.
const CONFIG: &str = "config";

/// Tables in tables are names with dashes; deeper than this, nobody means it.
const DEPTH_MAX: usize = 4;

/// A flag that was not given on the command line, and where its value is from.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Found {
    flag: String,
    /// `None` for a flag that takes none.
    value: Option<String>,
    from: String,
}

/// The arguments of this process, completed.
pub(super) struct Completed {
    pub(super) arguments: Vec<OsString>,
    /// Which flags are from where, for a complaint about one of them.
    pub(super) notes: Vec<String>,
}

/// Completes the arguments of this process by what the environment and the file say.
pub(super) fn arguments() -> Result<Completed, Failure> {
    let arguments: Vec<OsString> = env::args_os().collect();
    let Some(command) = configured(&arguments) else {
        return Ok(Completed { arguments, notes: Vec::new() });
    };
    let variables = variables();
    let file = match named_file(&arguments, &variables) {
        Some(path) => Some(read(&path)?),
        None if Path::new(FILE).is_file() => Some(read(Path::new(FILE))?),
        None => None,
    };
    let file = file.as_ref().map(|(name, table)| (name.as_str(), table));
    complete(&command, arguments, &variables, file).map_err(Failure::Input)
}

/// Whether a file configures `name` rightly: what `name` would be started with, or a complaint.
pub(super) fn check(name: &str, path: &Path) -> Result<Vec<String>, Failure> {
    let Some(command) = subcommand(name) else { return Ok(Vec::new()) };
    let (file, table) = read(path)?;
    let arguments = vec!["sardonyx".into(), name.into()];
    let file = Some((file.as_str(), &table));
    let done = complete(&command, arguments, &BTreeMap::new(), file).map_err(Failure::Input)?;
    let tried = Cli::command().try_get_matches_from(&done.arguments);
    tried.map_err(|why| Failure::input(format!("{}: {why}", path.display())))?;
    let shown = |it: &OsString| secret::hide_passwords(&it.to_string_lossy());
    Ok(done.arguments[2..].iter().map(shown).collect())
}

fn subcommand(name: &str) -> Option<Command> {
    CONFIGURED.contains(&name).then(|| Cli::command().find_subcommand(name).cloned())?
}

/// The subcommand, if it can be configured and does not only show its help.
fn configured(arguments: &[OsString]) -> Option<Command> {
    let helps = ["-h", "--help", "-V", "--version"];
    let asks = arguments.iter().any(|it| helps.iter().any(|help| *it == OsStr::new(help)));
    let name = arguments.get(1)?.to_str()?;
    if asks { None } else { subcommand(name) }
}

fn variables() -> BTreeMap<String, String> {
    let all = env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        // An empty one is how many programs say that there is none.
        let is_ours = name.starts_with(PREFIX) && !name.starts_with(secret::VARIABLES);
        (is_ours && !value.is_empty()).then_some((name, value))
    });
    all.collect()
}

fn named_file(arguments: &[OsString], variables: &BTreeMap<String, String>) -> Option<PathBuf> {
    let mut left = arguments.iter();
    while let Some(it) = left.next() {
        let text = it.to_string_lossy();
        if text == format!("--{CONFIG}") {
            return left.next().map(PathBuf::from);
        }
        if let Some(path) = text.strip_prefix(&format!("--{CONFIG}=")) {
            return Some(path.into());
        }
    }
    variables.get(&variable(CONFIG)).map(PathBuf::from)
}

fn read(path: &Path) -> Result<(String, toml::Table), Failure> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|why| Failure::input(format!("{name}: {why}")))?;
    let table = text.parse().map_err(|why| Failure::input(format!("{name}: {why}")))?;
    Ok((name, table))
}

/// The flags of a subcommand that can be configured.
fn flags(command: &Command) -> Vec<(&Arg, &str)> {
    let named = command.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    let is_setting = |arg: &Arg| {
        !matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        )
    };
    named.filter(|(arg, name)| is_setting(arg) && *name != CONFIG).collect()
}

fn variable(flag: &str) -> String {
    format!("{PREFIX}{}", flag.to_uppercase().replace('-', "_"))
}

fn complete(
    command: &Command,
    mut arguments: Vec<OsString>,
    variables: &BTreeMap<String, String>,
    file: Option<(&str, &toml::Table)>,
) -> Result<Completed, String> {
    let mut complaints = Vec::new();
    let mut found = BTreeMap::new();
    if let Some((name, table)) = file {
        from_file(command, name, table, &mut found, &mut complaints);
    }
    from_variables(command, variables, &mut found, &mut complaints);
    if !complaints.is_empty() {
        return Err(complaints.join("\n  "));
    }
    let given = &arguments[2..];
    let wanted = flags(command).into_iter().filter(|(arg, name)| !is_given(arg, name, given));
    let found: Vec<_> = wanted.filter_map(|(_, name)| found.remove(name)).flatten().collect();
    let notes = found.iter().map(|it| format!("--{} is from {}", it.flag, it.from)).collect();
    let written = found.into_iter().map(|it| match it.value {
        Some(value) => OsString::from(format!("--{}={value}", it.flag)),
        None => OsString::from(format!("--{}", it.flag)),
    });
    arguments.splice(2..2, written);
    Ok(Completed { arguments, notes })
}

/// Whether a flag stands on the command line.
fn is_given(arg: &Arg, name: &str, given: &[OsString]) -> bool {
    let (whole, begun) = (format!("--{name}"), format!("--{name}="));
    given.iter().any(|it| {
        let it = it.to_string_lossy();
        let is_short = arg
            .get_short()
            .is_some_and(|short| it.strip_prefix('-').is_some_and(|rest| rest.starts_with(short)));
        *it == *whole || it.starts_with(&begun) || is_short
    })
}

type All = BTreeMap<String, Vec<Found>>;

fn from_variables(
    command: &Command,
    variables: &BTreeMap<String, String>,
    found: &mut All,
    complaints: &mut Vec<String>,
) {
    let flags = flags(command);
    let known: Vec<_> = flags.iter().map(|(_, name)| variable(name)).collect();
    for (arg, name) in &flags {
        let variable = variable(name);
        let Some(text) = variables.get(&variable) else { continue };
        let from = || format!("the variable {variable}");
        let texts: Vec<&str> = match is_repeated(arg) {
            // Commas are part of many URLs.
            true => text.split_whitespace().collect(),
            false => vec![text],
        };
        match texts.iter().map(|text| of_text(arg, name, text, from())).collect() {
            Ok(all) => drop(found.insert((*name).to_owned(), drop_nothing(all))),
            Err(why) => complaints.push(format!("{variable}: {why}")),
        }
    }
    for variable in
        variables.keys().filter(|it| !known.contains(it) && **it != self::variable(CONFIG))
    {
        // Others may have variables with this beginning, as container systems do for services; only
        // a slip is refused. Without the beginning, which would make all of them alike.
        let bare = |it: &str| it.strip_prefix(PREFIX).unwrap_or(it).to_owned();
        let names: Vec<_> = known.iter().map(|it| bare(it)).collect();
        let hint = nearest::hint(&bare(variable), names.iter().map(String::as_str));
        if let Some(meant) = hint.strip_prefix("did you mean ") {
            let meant = format!("did you mean {PREFIX}{meant}");
            complaints.push(format!("{variable}: there is no such variable; {meant}"));
        }
    }
}

/// A flag that is off is left out.
fn drop_nothing(all: Vec<Option<Found>>) -> Vec<Found> {
    all.into_iter().flatten().collect()
}

fn from_file(
    command: &Command,
    file: &str,
    table: &toml::Table,
    found: &mut All,
    complaints: &mut Vec<String>,
) {
    let flags = flags(command);
    let mut entries = Vec::new();
    flatten("", table, 0, &mut entries);
    for (key, value) in entries {
        let Some((arg, name)) = flags.iter().find(|(_, name)| *name == key) else {
            let hint = nearest::hint(&key, flags.iter().map(|(_, name)| *name));
            complaints.push(format!("{file}: {key}: there is no such key; {hint}"));
            continue;
        };
        let from = || file.to_owned();
        let values: Vec<_> = match value.as_array().filter(|_| is_repeated(arg)) {
            Some(all) => all.iter().map(text_of).collect(),
            None => vec![text_of(value)],
        };
        let read = values.into_iter().map(|text| of_text(arg, name, &text?, from()));
        match read.collect() {
            Ok(all) => drop(found.insert(key, drop_nothing(all))),
            Err(why) => complaints.push(format!("{file}: {key}: {why}")),
        }
    }
}

/// `[a] b = 1` is `a-b = 1`.
fn flatten<'a>(
    before: &str,
    table: &'a toml::Table,
    depth: usize,
    entries: &mut Vec<(String, &'a toml::Value)>,
) {
    for (key, value) in table {
        let key = if before.is_empty() { key.clone() } else { format!("{before}-{key}") };
        match value.as_table().filter(|_| depth < DEPTH_MAX) {
            Some(inner) => flatten(&key, inner, depth + 1, entries),
            None => entries.push((key, value)),
        }
    }
}

fn text_of(value: &toml::Value) -> Result<String, String> {
    Ok(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(n) => n.to_string(),
        toml::Value::Float(n) => n.to_string(),
        toml::Value::Boolean(is) => is.to_string(),
        toml::Value::Datetime(at) => at.to_string(),
        toml::Value::Array(_) => return Err("one value is wanted, not a list".into()),
        toml::Value::Table(_) => return Err("a value is wanted, not a table".into()),
    })
}

fn is_repeated(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// What a text says of a flag; `None`: nothing, because it is off.
fn of_text(arg: &Arg, name: &str, text: &str, from: String) -> Result<Option<Found>, String> {
    let flag = name.to_owned();
    if arg.get_action().takes_values() {
        return Ok(Some(Found { flag, value: Some(text.to_owned()), from }));
    }
    match text {
        "true" | "1" => Ok(Some(Found { flag, value: None, from })),
        "false" | "0" => Ok(None),
        _ => Err(format!("write true or false, not {text:?}")),
    }
}

#[cfg(test)]
#[path = "settings_fuzz.rs"]
mod fuzz;
#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
