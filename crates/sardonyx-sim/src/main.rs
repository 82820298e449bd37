//! Runs one seed or one plan and shows what happened: `cargo run -p sardonyx-sim -- 42`.

use std::{
    io::{Read as _, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use sardonyx_core::JoinProtocol;
use sardonyx_sim::{Failed, Passed, Plan, World, joins::Start, shrink};

/// Runs a cluster under weather, in one thread, from one seed. Exit code 1 if it did not hold.
#[derive(Parser)]
#[command(name = "sardonyx-sim")]
struct Cli {
    /// The seed of the run.
    #[arg(required_unless_present_any = ["plan", "joins"], conflicts_with = "plan")]
    seed: Option<u64>,
    /// Starts so many nodes of so many virtual peers at once instead, and says what the joins cost:
    /// `--joins 20x50`. May be given several times.
    #[arg(long, value_name = "NODESxPEERS", value_parser = shape, conflicts_with = "plan")]
    joins: Vec<(usize, usize)>,
    /// The longest that a message takes when nodes are started at once, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20)]
    latency: u64,
    /// Joins by two phases instead of three when nodes are started at once.
    #[arg(long)]
    two_phase: bool,
    /// Runs the plan in this file instead, as a failing run prints it; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Prints the whole trace, also of a run that holds.
    #[arg(long)]
    trace: bool,
    /// Leaves a failing plan as it is, instead of making it small.
    #[arg(long)]
    no_shrink: bool,
    /// Switches off this rule, by its name in `sardonyx_core::mutant`.
    #[cfg(feature = "mutants")]
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
}

fn shape(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('x').and_then(|(nodes, peers)| {
        Some((nodes.parse().ok()?, peers.parse().ok()?)).filter(|(n, p)| *n > 0 && *p > 0)
    });
    parts.ok_or_else(|| "two numbers from 1 on with an x between them, as in 20x50".to_owned())
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if !cli.joins.is_empty() {
        return match show_joins(&mut std::io::stdout().lock(), &cli) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("sardonyx-sim: {why}");
                ExitCode::FAILURE
            }
        };
    }
    let plan = match plan(&cli) {
        Ok(plan) => plan,
        Err(why) => {
            eprintln!("sardonyx-sim: {why}");
            return ExitCode::from(2);
        }
    };
    let mut out = std::io::stdout().lock();
    let shown = with_mutant(&cli, || show(&mut out, &cli, &plan));
    match shown {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::FAILURE,
        Ok(Err(why)) => {
            eprintln!("sardonyx-sim: {why}");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("sardonyx-sim: {why}");
            ExitCode::from(2)
        }
    }
}

fn plan(cli: &Cli) -> Result<Plan, String> {
    let Some(path) = &cli.plan else { return Ok(Plan::draw(cli.seed.unwrap_or_default())) };
    let text = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|why| format!("cannot read {}: {why}", path.display()))?;
    Plan::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
}

fn show_joins(out: &mut impl Write, cli: &Cli) -> Result<(), String> {
    let protocol = if cli.two_phase { JoinProtocol::TwoPhase } else { JoinProtocol::ThreePhase };
    let told = |why: std::io::Error| format!("cannot write: {why}");
    let seed = cli.seed.unwrap_or(1);
    let head = ["peers", "nodes", "entries", "per join", "simulated", "µs per entry and node"];
    let [peers, nodes, entries, join, time, cost] = head;
    writeln!(out, "{peers:>7}  {nodes:>7}  {entries:>8}  {join:>8}  {time:>9}  {cost}")
        .map_err(told)?;
    for &(nodes, peers) in &cli.joins {
        let start = Start { protocol, nodes, peers, latency: cli.latency };
        let cost = start.run(seed)?;
        let (n, each) = (start.n_peers(), cost.entries_per_join(&start));
        let micros = cost.per_entry_and_node(&start).as_secs_f64() * 1e6;
        let seconds = cost.simulated.as_secs_f64();
        let entries = cost.entries;
        writeln!(
            out,
            "{n:>7}  {nodes:>7}  {entries:>8}  {each:>8.2}  {seconds:>7.1} s  {micros:.1}"
        )
        .map_err(told)?;
    }
    Ok(())
}

/// Says whether the run held.
fn show(out: &mut impl Write, cli: &Cli, plan: &Plan) -> std::io::Result<bool> {
    let (result, trace) = World::play_traced(plan);
    if cli.trace && result.is_ok() {
        trace.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    match result {
        Ok(passed) => show_passed(out, plan, &passed).map(|()| true),
        Err(failed) => show_failed(out, cli, failed).map(|()| false),
    }
}

fn show_passed(out: &mut impl Write, plan: &Plan, passed: &Passed) -> std::io::Result<()> {
    let (entries, hash) = (passed.entries, passed.trace_hash);
    let (seed, boots) = (plan.seed, passed.boots);
    writeln!(
        out,
        "seed {seed}: holds, {entries} entries, {boots} virtual peers, trace {hash:016x}"
    )?;
    passed.probes.counts().iter().try_for_each(|(what, n)| writeln!(out, "{n:>8}  {what}"))
}

fn show_failed(out: &mut impl Write, cli: &Cli, failed: Failed) -> std::io::Result<()> {
    writeln!(out, "{failed}")?;
    if cli.no_shrink {
        return Ok(());
    }
    let n_steps = failed.plan.steps.len();
    let (small, runs) = shrink::shrink(failed, |plan| World::play(plan).err());
    writeln!(
        out,
        "{runs} runs made it small: {} steps of {n_steps} are left.\n",
        small.plan.steps.len()
    )?;
    writeln!(out, "{small}")?;
    writeln!(
        out,
        "The small plan. Put it into a file; `cargo run -p sardonyx-sim -- --plan FILE`"
    )?;
    writeln!(out, "runs it again:\n\n{}", small.plan)
}

#[cfg(feature = "mutants")]
fn with_mutant<T>(cli: &Cli, body: impl FnOnce() -> T) -> Result<T, String> {
    use sardonyx_core::mutant::{Mutant, with_mutant};
    let found = cli.mutant.as_ref().map(|name| {
        let known = Mutant::ALL.iter().find(|it| format!("{it:?}") == *name);
        known.copied().ok_or_else(|| format!("no rule {name}; there are {:?}", Mutant::ALL))
    });
    Ok(with_mutant(found.transpose()?, body))
}

#[cfg(not(feature = "mutants"))]
fn with_mutant<T>(_cli: &Cli, body: impl FnOnce() -> T) -> Result<T, String> {
    Ok(body())
}
