//! The command line: one file per subcommand, one way to fail.

mod bench;
mod bench_replica;
mod completions;
mod failure;
mod replay;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use failure::Failure;

/// A masterless engine for batch and streaming jobs: the cluster is a value.
#[derive(Parser)]
#[command(name = "sardonyx", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    Replay(replay::Replay),
    Bench(bench::Bench),
    Completions(completions::Completions),
}

/// Runs the program with the arguments of this process.
pub(crate) fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Subcommands::Replay(it) => it.run(),
        Subcommands::Bench(it) => it.run(),
        Subcommands::Completions(it) => it.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
