//! How a subcommand fails: one line on stderr, and an exit code that says whose turn it is.

use std::{fmt, io, process::ExitCode};

use sardonyx_task::secret::hide_passwords;

/// Why a subcommand ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was given is wrong: exit code 2, and nothing will help but other input.
    Input(String),
    /// The world did not play along: exit code 1; trying again may help.
    World(String),
    /// Two nodes disagree about the cluster: exit code 3, and a person has to look.
    Diverged(String),
    /// Somebody stopped it: exit code 130, as a shell would say.
    Interrupted(String),
    /// Whoever read our output has gone away, which is how `head` ends a pipe: no failure at all.
    ReaderGone,
}

impl Failure {
    pub(crate) fn input(why: impl fmt::Display) -> Failure {
        Failure::Input(why.to_string())
    }

    pub(crate) fn world(why: impl fmt::Display) -> Failure {
        Failure::World(why.to_string())
    }

    pub(crate) fn report(self) -> ExitCode {
        let (why, code) = match self {
            Failure::Input(why) => (why, 2),
            Failure::World(why) => (why, 1),
            Failure::Diverged(why) => (why, 3),
            Failure::Interrupted(why) => (why, 130),
            Failure::ReaderGone => return ExitCode::SUCCESS,
        };
        eprintln!("sardonyx: {}", hide_passwords(&why));
        ExitCode::from(code)
    }
}

/// Failing to write is the world's fault, unless the reader left on purpose.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() == io::ErrorKind::BrokenPipe {
            true => Failure::ReaderGone,
            false => Failure::World(error.to_string()),
        }
    }
}

/// What a person has to change first is input; the rest is the world's.
impl From<sardonyx_store::Error> for Failure {
    fn from(error: sardonyx_store::Error) -> Failure {
        use sardonyx_store::Error;
        match error {
            Error::NotConfigured(_) | Error::TooLarge { .. } => Failure::input(error),
            Error::Unavailable(_) | Error::SessionLost(_) | Error::Corrupt(_) => {
                Failure::world(error)
            }
        }
    }
}

/// The same for queues.
impl From<sardonyx_queue::OpenError> for Failure {
    fn from(error: sardonyx_queue::OpenError) -> Failure {
        use sardonyx_queue::OpenError;
        match error {
            OpenError::NotConfigured(_) => Failure::input(error),
            OpenError::Unavailable(_) | OpenError::Corrupt(_) => Failure::world(error),
        }
    }
}

/// A node that stops for good says why.
impl From<sardonyx_peer::Fatal> for Failure {
    fn from(fatal: sardonyx_peer::Fatal) -> Failure {
        use sardonyx_peer::Fatal;
        match fatal {
            Fatal::Diverged { .. } => Failure::Diverged(fatal.to_string()),
            Fatal::Store(why) => why.into(),
            Fatal::Stuck(..) => Failure::world(fatal),
        }
    }
}
