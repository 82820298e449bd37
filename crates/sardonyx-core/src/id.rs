//! Names and places: peers, jobs, tasks, positions. Newtypes, so that none can stand for another.

use alloc::{borrow::Cow, sync::Arc};
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The longest id in bytes. Ids are repeated all over the replica, so a long one costs everybody.
pub const ID_BYTES_MAX: usize = 255;

/// Why a text is not an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadId {
    /// An id needs at least one character.
    Empty,
    /// Longer than [`ID_BYTES_MAX`].
    TooLong(usize),
    /// Control characters would tear lines apart wherever the id is shown.
    Control(char),
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadId::Empty => write!(f, "an id must have at least one character"),
            BadId::TooLong(bytes) => {
                write!(f, "an id has at most {ID_BYTES_MAX} bytes, this one has {bytes}")
            }
            BadId::Control(c) => write!(f, "an id has no control characters, this one has {c:?}"),
        }
    }
}

impl core::error::Error for BadId {}

fn checked(text: &str) -> Result<Arc<str>, BadId> {
    if text.is_empty() {
        return Err(BadId::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(BadId::TooLong(text.len()));
    }
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Err(BadId::Control(c));
    }
    Ok(Arc::from(text))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes `text` as an id, or says why it cannot be one.
            pub fn new(text: &str) -> Result<$name, BadId> {
                checked(text).map($name)
            }

            /// The id as it is written outside.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'_, str>::deserialize(deserializer)?;
                $name::new(&text).map_err(de::Error::custom)
            }
        }
    };
}

id! {
    /// A virtual peer. Fresh at every boot, so a restarted peer never answers for its past.
    PeerId
}
id! {
    /// A job, as its submitter named it.
    JobId
}
id! {
    /// A task of a job. Unique within its job only.
    TaskId
}

/// A place in the log. Positions grow; they need not be dense.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// The index that every peer picks among `count` candidates. `None` when there is none.
    pub fn pick(self, count: usize) -> Option<usize> {
        self.0.checked_rem(count as u64).map(|index| index as usize)
    }

    /// The next dense position; the last one stays the last.
    pub fn next(self) -> Position {
        Position(self.0.saturating_add(1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
