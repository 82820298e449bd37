//! `sardonyx man`: the manual pages, from the same definitions as the command line.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use clap::{Args, CommandFactory};
use clap_mangen::Man as Page;

use super::{Cli, Failure};

/// Print the manual page, or write those of all commands into a directory.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sardonyx man | man -l -
  sardonyx man --dir ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Write a page for each command here: sardonyx.1, sardonyx-start.1 and so on. The directory is
    /// made if it is missing.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut command = Cli::command();
        command.build();
        let Some(dir) = self.dir else {
            let mut page = Vec::new();
            Page::new(command).render(&mut page)?;
            return Ok(io::stdout().write_all(&page)?);
        };
        let at = |why: io::Error| Failure::world(format!("{}: {why}", dir.display()));
        fs::create_dir_all(&dir).map_err(at)?;
        // With the names that it gives: the program's, then the command's, with dashes.
        clap_mangen::generate_to(command, &dir).map_err(at)
    }
}
