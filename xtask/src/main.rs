//! The project's own tool: what continuous integration runs, a person runs too, by the same name.
//!
//! `run` calls cargo, `tidy` looks after what no compiler checks, `docs` writes `docs/commands.md`.

mod docs;
mod run;
mod scan;
mod tidy;
mod tree;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::tree::Tree;

/// Tests, searches for broken laws, and looks after the tree.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything a change must pass: format, lints, the core without std, all tests, tidy.
    ///
    /// Licences, sources and banned crates are checked too where cargo-deny is installed. Stops
    /// at the first failure.
    Test,
    /// Plays random and senseless logs, and checks every law after every entry.
    ///
    /// A failure prints its seed; the same seed gives the same log.
    Fuzz {
        /// How many entries to play in all.
        #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = at_least_one())]
        entries: u64,
        /// Where the randomness begins; left out, the test's own choice.
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// Lets peers join and crash in random order, and checks that the survivors end in one ring.
    ///
    /// A failure prints its seed; the same seed gives the same run.
    Storm {
        /// How many storms to run.
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = at_least_one())]
        runs: u64,
        /// Where the randomness begins; left out, the test's own choice.
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// Plans random clusters, and checks every property of the schedulers on each.
    ///
    /// A failure prints its seed; the same seed gives the same cluster.
    Schedule {
        /// How many clusters to plan.
        #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least_one())]
        clusters: u64,
        /// Where the randomness begins; left out, the test's own choice.
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// Runs whole clusters in one thread under crashes, pauses, lost answers and trimming.
    ///
    /// A failure prints its seed and its trace; `cargo run -p sardonyx-sim -- SEED` shows it again.
    Sim {
        /// Members of a mesh instead of nodes with jobs.
        #[arg(long)]
        mesh: bool,
        /// How many seeds to run.
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = at_least_one())]
        seeds: u64,
        /// The first seed; left out, the test's own choice.
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// Tries every interleaving of a small cluster, and says how many states there were.
    ///
    /// Memory and time grow fast with each number: 3, 1, 1 and 6 make three million states.
    Model {
        /// How many peers are in at the beginning.
        #[arg(long, value_name = "N", default_value_t = 3)]
        members: u64,
        /// How many want in.
        #[arg(long, value_name = "N", default_value_t = 1)]
        joiners: u64,
        /// How many may crash.
        #[arg(long, value_name = "N", default_value_t = 1)]
        crashes: u64,
        /// How long the log may become.
        #[arg(long, value_name = "N", default_value_t = 6)]
        log_max: u64,
    },
    /// Throws noise and spoiled messages at every decoder of the mesh.
    ///
    /// A failure prints its seed; the same seed gives the same bytes.
    MeshFuzz {
        /// How many inputs to make.
        #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = at_least_one())]
        inputs: u64,
        /// The first seed; left out, the test's own choice.
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// Checks the tree alone: crate edges, sizes, documents, commands, dependencies.
    Tidy,
    /// Rewrites docs/commands.md from the doc comments of the commands.
    Docs,
}

fn at_least_one() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..)
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Test => run::test(),
        Task::Fuzz { entries, seed } => run::FUZZ.run(entries, seed),
        Task::Storm { runs, seed } => run::STORM.run(runs, seed),
        Task::Schedule { clusters, seed } => run::SCHEDULE.run(clusters, seed),
        Task::Sim { mesh: true, seeds, seed } => run::MESH_SIM.run(seeds, seed),
        Task::Sim { mesh: false, seeds, seed } => run::SIM.run(seeds, seed),
        Task::Model { members, joiners, crashes, log_max } => {
            run::model(members, joiners, crashes, log_max)
        }
        Task::MeshFuzz { inputs, seed } => run::MESH_FUZZ.run(inputs, seed),
        Task::Tidy => Tree::read().and_then(|tree| tidy::report(&tree)),
        Task::Docs => Tree::read().and_then(|tree| docs::write(&tree)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
