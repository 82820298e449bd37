//! The inputs and outputs that come with Sardonyx, by the names that job files use.
//!
//! Each says in its file which keys it reads and what it guarantees; `docs/guide/inputs-and-outputs.md`
//! has the table. Paths in job files are opened by the [`Files`](crate::Files) of their terms: any
//! file, seen from the working directory, or those beneath the roots of a node.

mod channel;
mod file;
mod generate;
pub mod memory;
mod nats;
pub mod null;
mod stdin;
mod stdout;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use crate::{Input, Output, Terms};

pub use channel::{CAPACITY_ROWS, Channel};

/// Whether a plugin reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads.
    Input,
    /// It writes.
    Output,
}

/// The time since the beginning of 1970: handed in, so that tests say what time it is.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// What the machine says.
pub fn system_clock() -> Clock {
    Arc::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

type MakeInput = fn(&Terms) -> Result<Arc<dyn Input>, String>;
type MakeOutput = fn(&Terms) -> Result<Arc<dyn Output>, String>;

/// Every input: its name, the keys it reads beside those of all tasks, and how it is made.
pub const INPUTS: &[(&str, &[&str], MakeInput)] = &[
    ("file", file::INPUT_KEYS, file::input),
    ("generate", generate::KEYS, generate::input),
    ("memory", memory::INPUT_KEYS, memory::input),
    ("nats", nats::input::KEYS, nats::input::input),
    ("stdin", stdin::KEYS, stdin::input),
];

/// Every output, in the same way.
pub const OUTPUTS: &[(&str, &[&str], MakeOutput)] = &[
    ("file", file::OUTPUT_KEYS, file::output),
    ("memory", memory::OUTPUT_KEYS, memory::output),
    ("nats", nats::output::KEYS, nats::output::output),
    ("null", null::KEYS, null::output),
    ("stdout", stdout::KEYS, stdout::output),
];

/// The input of this name, made for a task; `None` if there is none.
pub fn input(name: &str, terms: &Terms) -> Option<Result<Arc<dyn Input>, String>> {
    let (_, _, make) = INPUTS.iter().find(|(known, ..)| *known == name)?;
    Some(make(terms))
}

/// The output of this name, made for a task; `None` if there is none.
pub fn output(name: &str, terms: &Terms) -> Option<Result<Arc<dyn Output>, String>> {
    let (_, _, make) = OUTPUTS.iter().find(|(known, ..)| *known == name)?;
    Some(make(terms))
}

/// The keys that a plugin reads, beside those of all tasks.
pub fn keys_of(kind: Kind, name: &str) -> &'static [&'static str] {
    let keys = match kind {
        Kind::Input => INPUTS.iter().find(|(known, ..)| *known == name).map(|(_, keys, _)| *keys),
        Kind::Output => OUTPUTS.iter().find(|(known, ..)| *known == name).map(|(_, keys, _)| *keys),
    };
    keys.unwrap_or_default()
}

/// The names there are.
pub fn names(kind: Kind) -> Vec<&'static str> {
    match kind {
        Kind::Input => INPUTS.iter().map(|(name, ..)| *name).collect(),
        Kind::Output => OUTPUTS.iter().map(|(name, ..)| *name).collect(),
    }
}

/// A size such as `64MB`, or a number of bytes, if the key is there.
fn size(terms: &Terms, key: &str) -> Result<Option<u64>, String> {
    match terms.keys.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(_)) => terms.number(key),
        Some(_) => {
            let text = terms.text(key)?.unwrap_or_default();
            let wrong = || format!("{key}: {text:?} is no size: write 500KB, 64MB or 1GB");
            parse_size(text).map(Some).ok_or_else(wrong)
        }
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let unit = match unit.trim_start() {
        "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// A position that is a number.
fn number_of(position: &[u8], what: &str) -> Result<u64, String> {
    let number = std::str::from_utf8(position).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{what} has no position {:?}", String::from_utf8_lossy(position)))
}

/// The lock, also after somebody who held it panicked: what it guards is changed in one step.
fn lock<T: ?Sized>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_read_and_what_is_none_is_told_what_to_write() {
        let size = |value| size(&Terms::new("j", "t", &json!({ "roll": value })), "roll");
        assert_eq!(size(json!("64MB")), Ok(Some(64_000_000)));
        assert_eq!(size(json!("1 GiB")), Ok(Some(1 << 30)));
        assert_eq!(size(json!(17)), Ok(Some(17)));
        assert_eq!(size(json!(null)), Ok(None));
        for wrong in ["", "MB", "64", "64MX", "-1MB", "99999999999999999999GB"] {
            assert!(size(json!(wrong)).unwrap_err().contains("64MB"), "{wrong}");
        }
    }

    #[test]
    fn every_plugin_is_found_by_its_name() {
        assert_eq!(names(Kind::Input), ["file", "generate", "memory", "nats", "stdin"]);
        assert_eq!(names(Kind::Output), ["file", "memory", "nats", "null", "stdout"]);
        assert!(keys_of(Kind::Input, "file").contains(&"follow"));
        assert!(keys_of(Kind::Output, "file").contains(&"roll"));
        assert!(input("nowhere", &Terms::default()).is_none());
        assert!(keys_of(Kind::Output, "nowhere").is_empty());
    }
}
