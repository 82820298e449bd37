//! The project's own tool: what continuous integration runs, a person runs too, by the same name.
//!
//! `run`, `ids`, `fire`, `fuzz_all`, `mutants` and `pictures` call cargo, `tidy` looks after what no compiler checks, `docs` writes
//! `docs/commands.md`.

mod bench_peers;
mod bench_report;
mod docs;
mod fire;
mod fuzz_all;
mod ids;
mod mutants;
mod pictures;
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
    /// Everything a change must pass: format, lints, the core without std, all tests, tidy, and half a
    /// minute of fire.
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
    /// A failure prints its seed and its trace; `cargo run -p sardonyx-sim -- SEED` shows it again,
    /// and makes it small.
    Sim {
        /// Members of a mesh instead of nodes with jobs.
        #[arg(long)]
        mesh: bool,
        /// Data on its way through tasks instead: peers die, stand still and come late.
        #[arg(long, conflicts_with_all = ["mesh", "mutants", "joins"])]
        data: bool,
        /// How many seeds to run; with --mutants, how many for each rule at most.
        #[arg(long, value_name = "N", value_parser = at_least_one())]
        seeds: Option<u64>,
        /// The first seed; left out, the test's own choice.
        #[arg(long, value_name = "S", conflicts_with = "mutants")]
        seed: Option<u64>,
        /// Switches off one rule after the other instead, and says which seed notices.
        #[arg(long)]
        mutants: bool,
        /// Starts 100, 1,000 and 10,000 virtual peers at once instead, and says what joins cost.
        #[arg(long, conflicts_with_all = ["seeds", "seed", "mutants"])]
        joins: bool,
    },
    /// Tries every interleaving of a small cluster, and says how many states there were.
    ///
    /// Memory and time grow fast with each number.
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
        /// How many may lose their session and go on for a while.
        #[arg(long, value_name = "N", default_value_t = 0)]
        losses: u64,
        /// How many tasks the one job has; none for no job.
        #[arg(long, value_name = "N", default_value_t = 0)]
        tasks: u64,
        /// How long the log may become.
        #[arg(long, value_name = "N", default_value_t = 14)]
        log_max: u64,
        /// Joins by two phases instead of three.
        #[arg(long)]
        two_phase: bool,
        /// Tries also orders that nobody can tell apart.
        #[arg(long)]
        every_order: bool,
    },
    /// Looks for an id that comes twice: simulation, model, loom, and real processes under faults.
    ///
    /// The processes draw ids from a real etcd of three servers while they and the servers are
    /// stopped and killed.
    Ids {
        /// How many seeds to simulate.
        #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least_one())]
        seeds: u64,
        /// How long the processes run.
        #[arg(long, value_name = "S", default_value_t = 300, value_parser = at_least_one())]
        seconds: u64,
    },
    /// Runs five nodes on real servers while everything goes wrong, and judges what came of it.
    ///
    /// Builds the program and the driver for release and runs the driver; what follows is for it, and
    /// `cargo xtask fire --help` shows what there is: --minutes, --seed, --store, --queues, --json.
    /// Exit codes: 0 nothing is broken, 1 something is, 3 too little happened to say anything.
    #[command(disable_help_flag = true)]
    Fire {
        /// For the driver.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The short fire of `cargo xtask test`, alone: twenty seconds of storm from one seed.
    ///
    /// On a store and queues of our own, built without optimisation, in namespaces, which need root.
    FireShort,
    /// Throws noise and spoiled input at every decoder and machine that strangers' bytes reach.
    ///
    /// A finding is left in the corpus of its target below fuzz/corpus, where every test run tries it
    /// from then on.
    FuzzAll {
        /// For how long each target is fuzzed.
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = at_least_one())]
        seconds: u64,
        /// How many targets are fuzzed at a time; as many as there are cores lose nothing.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one())]
        at_once: u64,
        /// Only the targets whose names begin so.
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
        /// The first seed; left out, the same every time.
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// Switches off the 32 rules that matter most, one after the other, and says what notices.
    ///
    /// Fails if one goes unnoticed: then a check has a hole.
    Mutants {
        /// Only this one, by its number (M17) or by its switch.
        #[arg(long, value_name = "M")]
        only: Option<String>,
        /// One JSON object a line instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Runs the same jobs here and on timely, Flink, Spark, Bytewax, DuckDB and Polars, and says who is
    /// how fast.
    BenchPeers {
        /// How often each; the median is shown.
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one())]
        runs: u64,
    },
    /// Runs every benchmark in one go, and writes docs/benchmarks.md with ratios, tables and plots.
    ///
    /// Takes half an hour, and wants a machine that does nothing else.
    BenchReport {
        /// How often each job beside other engines; the median is shown.
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one())]
        runs: u64,
    },
    /// Takes the guide's pictures of the dashboard anew, in a real browser.
    Pictures,
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
        Task::Sim { mesh: true, seeds, seed, .. } => {
            run::MESH_SIM.run(seeds.unwrap_or(10_000), seed)
        }
        Task::Sim { data: true, seeds, seed, .. } => {
            run::DATA_SIM.run(seeds.unwrap_or(10_000), seed)
        }
        Task::FuzzAll { seconds, at_once, only, seed } => {
            fuzz_all::run(seconds, at_once as usize, only.as_deref(), seed)
        }
        Task::Mutants { only, json } => mutants::run(only.as_deref(), json),
        Task::Sim { joins: true, .. } => run::joins(),
        Task::Sim { seeds, mutants: true, .. } => run::MUTANTS.run(seeds.unwrap_or(2_000), None),
        Task::Sim { seeds, seed, .. } => run::SIM.run(seeds.unwrap_or(10_000), seed),
        Task::Model {
            members,
            joiners,
            crashes,
            losses,
            tasks,
            log_max,
            two_phase,
            every_order,
        } => run::model(&[
            ("MODEL_MEMBERS", members),
            ("MODEL_JOINERS", joiners),
            ("MODEL_CRASHES", crashes),
            ("MODEL_LOSSES", losses),
            ("MODEL_TASKS", tasks),
            ("MODEL_LOG_MAX", log_max),
            ("MODEL_TWO_PHASE", u64::from(two_phase)),
            ("MODEL_EVERY_ORDER", u64::from(every_order)),
        ]),
        Task::Ids { seeds, seconds } => ids::run(&ids::Amounts { seeds, seconds }),
        Task::Fire { args } => match fire::run(&args) {
            Ok(code) => return code,
            Err(why) => Err(why),
        },
        Task::FireShort => fire::build_and_run_short(),
        Task::BenchPeers { runs } => bench_peers::run(runs),
        Task::BenchReport { runs } => bench_report::run(runs),
        Task::Pictures => Tree::read().and_then(|tree| pictures::take(&tree)),
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
