//! Which queues, and where: one URL.

use std::{fmt, path::PathBuf};

/// Why queues could not be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// What was asked for cannot be: this says what to write or to mend.
    NotConfigured(String),
    /// They cannot be reached now; try again later.
    Unavailable(String),
    /// They are damaged: this names the file and the place. Nothing was changed; restore a copy.
    Corrupt(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotConfigured(why) => f.write_str(why),
            OpenError::Unavailable(why) => write!(f, "the queues cannot be reached: {why}"),
            OpenError::Corrupt(why) => write!(f, "the queues are damaged: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What a URL names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Location {
    Memory,
    Embedded(PathBuf),
}

const FORMS: &str =
    "write memory:, embedded:DIR, sardonyx://HOST:PORT or nats://HOST:4222,HOST:4222/NAME";

impl Location {
    pub(crate) fn parse(url: &str) -> Result<Location, OpenError> {
        let (scheme, rest) = url
            .split_once(':')
            .ok_or_else(|| wrong(url, &format!("it does not say what kind of queues; {FORMS}")))?;
        match (scheme, rest.strip_prefix("//")) {
            ("memory", None) if rest.is_empty() => Ok(Location::Memory),
            ("memory", _) => Err(wrong(url, "memory: takes nothing behind the colon")),
            ("embedded", None) if !rest.is_empty() => Ok(Location::Embedded(rest.into())),
            ("embedded", _) => Err(wrong(url, "write embedded:DIR")),
            _ => Err(wrong(url, &format!("there are no queues {scheme:?}; {FORMS}"))),
        }
    }
}

fn wrong(url: &str, why: &str) -> OpenError {
    OpenError::NotConfigured(format!("{url} does not name queues: {why}"))
}
