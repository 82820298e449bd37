//! `sardonyx completions`: what a shell needs to complete our commands.

use std::io::{self, Write};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Failure};

/// Print shell completions, to be sourced by your shell.
#[derive(Args)]
#[command(
    after_help = "Example: sardonyx completions bash > ~/.local/share/bash-completion/completions/sardonyx"
)]
pub(crate) struct Completions {
    /// Which shell.
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "sardonyx", &mut script);
        Ok(io::stdout().write_all(&script)?)
    }
}
