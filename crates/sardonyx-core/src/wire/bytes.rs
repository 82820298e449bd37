//! A command as the log stores it: one version byte, then postcard.

use alloc::vec::Vec;
use core::fmt;

use crate::command::Command;

/// The version this build writes.
const VERSION: u8 = 1;

/// The largest command in bytes. Stores refuse values of about this size, and everybody has to
/// read every entry.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;

/// Why bytes from the log are not a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// There is nothing.
    Empty,
    /// Written by a newer build. Upgrade this one.
    Newer(u8),
    /// Not a command of that version.
    Garbled,
    /// More than [`COMMAND_BYTES_MAX`] bytes.
    TooLarge(usize),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Empty => write!(f, "an empty entry"),
            Unreadable::Newer(version) => write!(
                f,
                "an entry of format {version}, but this build reads up to {VERSION}: upgrade it"
            ),
            Unreadable::Garbled => write!(f, "not a command of format {VERSION}"),
            Unreadable::TooLarge(bytes) => {
                write!(f, "a command has at most {COMMAND_BYTES_MAX} bytes, this one has {bytes}")
            }
        }
    }
}

impl core::error::Error for Unreadable {}

/// The command as the log stores it, or [`Unreadable::TooLarge`].
pub fn command_to_bytes(command: &Command) -> Result<Vec<u8>, Unreadable> {
    let bytes = postcard::to_extend(command, Vec::from([VERSION]));
    let bytes = bytes.map_err(|_| Unreadable::Garbled)?;
    match bytes.len() > COMMAND_BYTES_MAX {
        true => Err(Unreadable::TooLarge(bytes.len())),
        false => Ok(bytes),
    }
}

/// The command that the log stores as `bytes`.
pub fn command_from_bytes(bytes: &[u8]) -> Result<Command, Unreadable> {
    let (&version, rest) = bytes.split_first().ok_or(Unreadable::Empty)?;
    if version > VERSION {
        return Err(Unreadable::Newer(version));
    }
    if bytes.len() > COMMAND_BYTES_MAX {
        return Err(Unreadable::TooLarge(bytes.len()));
    }
    match postcard::take_from_bytes(rest) {
        Ok((command, [])) if version == VERSION => Ok(command),
        Ok(_) | Err(_) => Err(Unreadable::Garbled),
    }
}
