//! `sardonyx audit`: whether the log of who changed what is what was written.

use std::{
    fs::File,
    io::{self, BufReader, Write},
    path::PathBuf,
};

use clap::{Args, Subcommand};
use sardonyx::http::audit;
use serde_json::json;

use super::Failure;

/// Look after the log that `--http-audit FILE` writes.
#[derive(Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Subcommand)]
enum Commands {
    Verify(Verify),
}

/// Check that no line was changed, taken out or put in.
#[derive(Args)]
#[command(after_help = "\
Each line has the hash of the one before. Whoever may write the file can make a whole new one, or cut
off its end: keep the last hash somewhere else, and give it here the next time.

Example:
  sardonyx audit verify audit.jsonl --holds 3b0f…

Exit codes: 0 it is whole, 1 it is not, 2 what was given is wrong.")]
struct Verify {
    /// The log.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// A hash that was the last one at another time: the log must have a line with it.
    #[arg(long, value_name = "HASH")]
    holds: Option<String>,

    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Commands::Verify(it) => it.run(),
        }
    }
}

impl Verify {
    fn run(self) -> Result<(), Failure> {
        let shown = self.file.display();
        let wrong = |why: io::Error| Failure::input(format!("{shown}: {why}"));
        let file = File::open(&self.file).map_err(wrong)?;
        let broken =
            |why: audit::Broken| Failure::world(format!("{shown} is not what was written: {why}"));
        let found = audit::verify_holding(BufReader::new(file), self.holds.as_deref());
        let (whole, is_held) = found.map_err(broken)?;
        if let (Some(hash), false) = (&self.holds, is_held) {
            let why = "no line has that hash: lines are missing at its end, or it is another log";
            return Err(Failure::world(format!("{shown} is not what was written: {hash}: {why}")));
        }
        let mut out = io::stdout().lock();
        if self.json {
            return Ok(writeln!(out, "{}", json!(whole))?);
        }
        let head = &whole.head;
        writeln!(out, "{shown}: {} lines, none changed", whole.lines)?;
        if let (Some(first), Some(last)) = (&whole.first, &whole.last) {
            writeln!(out, "  from {first} to {last}\n  last hash {head}")?;
        }
        for line in &whole.cut_off {
            writeln!(out, "  line {line} was not finished: its node was killed while it wrote")?;
        }
        Ok(())
    }
}
