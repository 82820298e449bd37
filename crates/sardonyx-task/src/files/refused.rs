//! Why a path is refused, and what to write instead.

use std::{fmt, io};

/// So many characters of a path are repeated in a complaint.
const SHOWN_MAX: usize = 200;

/// A path that jobs may not name here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It begins at `/`, and not beneath a root.
    Outside {
        /// What was written.
        path: String,
        /// Where it may be.
        roots: String,
    },
    /// It has a `..`.
    Upwards {
        /// What was written.
        path: String,
    },
    /// A link leads out of the root.
    LeadsOut {
        /// What was written.
        path: String,
        /// Where it may be.
        roots: String,
    },
    /// Links that never end, or such as `/proc` has.
    Links {
        /// What was written.
        path: String,
    },
    /// It has `%2e`, `%2f` or the like, which somebody else may take for more than a name.
    Encoded {
        /// What was written.
        path: String,
    },
    /// It has a zero byte, or a backslash in front of dots.
    Garbled {
        /// What was written.
        path: String,
    },
    /// It is longer than names and paths can be.
    TooLong {
        /// What was written.
        path: String,
    },
    /// There is something else than a file.
    NoFile {
        /// What was written.
        path: String,
        /// What there is.
        what: NoFile,
    },
    /// It lies in a file system that the kernel makes up.
    Kernel {
        /// What was written.
        path: String,
        /// The name of the file system.
        name: &'static str,
    },
    /// No directory is for jobs here.
    NoRoots {
        /// What was written.
        path: String,
    },
    /// This system cannot keep paths beneath a directory.
    OldSystem,
}

/// What else there is than files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFile {
    /// A directory.
    Directory,
    /// A FIFO.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl fmt::Display for NoFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoFile::Directory => "a directory",
            NoFile::Pipe => "a pipe",
            NoFile::Socket => "a socket",
            NoFile::Device => "a device",
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Outside { path, roots } => write!(
                f,
                "{path} is not beneath a directory that jobs may use here: write a path beneath {roots}"
            ),
            Refused::Upwards { path } => {
                write!(
                    f,
                    "{path} has a ..: write the path without it, beneath a directory for jobs"
                )
            }
            Refused::LeadsOut { path, roots } => write!(
                f,
                "{path} leads out of the directory that jobs may use, by a link: write a path that \
                 stays beneath {roots}"
            ),
            Refused::Links { path } => {
                write!(f, "{path} goes through links without an end: write the path of the file")
            }
            Refused::Encoded { path } => write!(
                f,
                "{path} has dots or slashes written with %: paths are taken as they stand, write \
                 the characters themselves"
            ),
            Refused::Garbled { path } => {
                write!(f, "{path} has a character that no path has: write the name of a file")
            }
            Refused::TooLong { path } => {
                write!(f, "{path} is too long: write names of up to 255 bytes, and 4095 in all")
            }
            Refused::NoFile { path, what } => {
                write!(f, "{path} is {what}: jobs use plain files here, write the path of one")
            }
            Refused::Kernel { path, name } => write!(
                f,
                "{path} lies in the file system {name}, which has no files of anybody: write the \
                 path of a file on a disk"
            ),
            Refused::NoRoots { path } => write!(
                f,
                "{path} cannot be used: no directory is for jobs on this node; start it with \
                 --files-root DIR"
            ),
            Refused::OldSystem => f.write_str(
                "this system cannot keep jobs in directories: it takes Linux 5.6 or newer, or \
                 --any-file",
            ),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, refused)
    }
}

/// A path to be shown: what cannot be printed is escaped, and what is very long is cut.
pub(super) fn short(path: &str) -> String {
    let mut shown: String = path.chars().take(SHOWN_MAX).flat_map(printable).collect();
    if path.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn printable(c: char) -> Vec<char> {
    match c.is_control() {
        true => c.escape_default().collect(),
        false => vec![c],
    }
}
