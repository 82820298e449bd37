//! What can go wrong, sorted by what the caller does about it.

use std::fmt;

/// What became of a request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One variant per thing that a caller would do differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The store did not answer in time. A write may or may not have happened; nothing that was
    /// acknowledged is lost. Try again: appends carry a token, so trying again is safe.
    Unavailable(String),
    /// Our sign of life is gone, and others may already have said that we left. Stop every task,
    /// take new peer ids, join again. Never retry.
    SessionLost(String),
    /// What is stored contradicts itself. Stop the process; a person decides.
    Corrupt(String),
    /// The store cannot be used as it was named: a wrong URL, a wrong password, a directory that
    /// is in use, a format that is too new. Somebody has to change something first.
    NotConfigured(String),
    /// Refused before it was sent.
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The largest that every backend takes.
        bytes_max: usize,
    },
}

impl Error {
    /// Whether the same request may succeed later without anybody's help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Unavailable(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unavailable(why) => write!(f, "the store does not answer: {why}; try again"),
            Error::SessionLost(why) => {
                write!(f, "the session is lost: {why}; stop, take new peer ids and join again")
            }
            Error::Corrupt(why) => write!(f, "the store is corrupt: {why}; a person must decide"),
            Error::NotConfigured(why) => f.write_str(why),
            Error::TooLarge { what, bytes, bytes_max } => {
                write!(f, "{what} has at most {bytes_max} bytes, this one has {bytes}")
            }
        }
    }
}

impl std::error::Error for Error {}
