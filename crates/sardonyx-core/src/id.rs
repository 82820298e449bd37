//! Names and places: peers, jobs, tasks, positions. Newtypes, so that none can stand for another.

use alloc::sync::Arc;
use core::{cmp::Ordering, fmt};

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

/// A checked text that compares fast: most ids differ in their first bytes, and those are at hand
/// without following the pointer. The trees of the replica live on this.
#[derive(Clone, PartialEq, Eq)]
struct Text {
    first_bytes: u64,
    all: Arc<str>,
}

impl Text {
    fn new(text: &str) -> Result<Text, BadId> {
        let all = checked(text)?;
        let mut first = [0; 8];
        for (place, byte) in first.iter_mut().zip(text.bytes()) {
            *place = byte;
        }
        Ok(Text { first_bytes: u64::from_be_bytes(first), all })
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_first = self.first_bytes.cmp(&other.first_bytes);
        by_first.then_with(|| self.all.cmp(&other.all))
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Takes an id straight from the input, without a copy in between.
struct TextVisitor;

impl de::Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an id of 1 to {ID_BYTES_MAX} bytes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
        Text::new(text).map_err(E::custom)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(Text);

        impl $name {
            /// Takes `text` as an id, or says why it cannot be one.
            pub fn new(text: &str) -> Result<$name, BadId> {
                Text::new(text).map($name)
            }

            /// The id as it is written outside.
            pub fn as_str(&self) -> &str {
                &self.0.all
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(TextVisitor).map($name)
            }
        }
    };
}

id! {
    /// A virtual peer. Every boot takes a new one, so nobody is held to what an earlier life said.
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
    /// The index that all peers agree on among `count` candidates, as if it had been drawn by lot.
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
