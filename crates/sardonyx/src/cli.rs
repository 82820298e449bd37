//! The command line: one file per subcommand, one way to fail.

mod audit;
mod bench;
mod bench_http;
mod bench_ids;
mod bench_ids_service;
mod bench_job;
mod bench_log;
mod bench_mesh;
mod bench_mesh_events;
mod bench_mesh_faults;
mod bench_mesh_join;
mod bench_mesh_nodes;
mod bench_node;
mod bench_replica;
mod bench_schedule;
mod bench_store;
mod bench_store_limits;
mod bench_stream;
mod check;
mod cluster;
mod completions;
mod dashboard;
mod demo;
mod demo_report;
mod demo_ring;
mod demo_story;
mod demo_text;
mod diff;
mod failure;
mod gc;
mod ids;
mod ids_serve;
mod job_file;
mod job_schema;
mod jobs;
mod kill;
mod log;
mod man;
mod mesh;
mod mesh_client;
mod mesh_http;
mod mesh_options;
mod mesh_start;
mod nodes;
mod peers;
mod replay;
mod replica;
mod run;
mod run_spy;
mod settings;
mod start;
mod start_events;
mod start_files;
mod start_http;
mod start_log;
mod start_mesh;
mod start_number;
mod start_queues;
mod start_traces;
mod store;
mod submit;
mod token;
mod top;
mod top_view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use failure::Failure;
use sardonyx_task::secret;

/// A masterless engine for batch and streaming jobs: the cluster is a value.
#[derive(Parser)]
#[command(name = "sardonyx", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    Demo(demo::Demo),
    Run(run::Run),
    Check(check::Check),
    Start(Box<start::Start>),
    Nodes(nodes::Nodes),
    Peers(peers::Peers),
    Top(top::Top),
    Submit(submit::Submit),
    Jobs(jobs::Jobs),
    Kill(kill::Kill),
    Gc(gc::Gc),
    Replay(replay::Replay),
    Log(log::Log),
    Replica(replica::Replica),
    Diff(diff::Diff),
    Store(store::Store),
    Ids(ids::Ids),
    Mesh(mesh::Mesh),
    Dashboard(dashboard::Dashboard),
    Token(token::Token),
    Audit(audit::Audit),
    Bench(bench::Bench),
    Completions(completions::Completions),
    Man(man::Man),
}

/// Runs the program with the arguments of this process.
pub(crate) fn run() -> ExitCode {
    let parsed = match parse() {
        Ok(cli) => cli,
        Err(failure) => return failure.report(),
    };
    let result = match parsed.command {
        Subcommands::Demo(it) => it.run(),
        Subcommands::Run(it) => it.run(),
        Subcommands::Check(it) => it.run(),
        Subcommands::Start(it) => it.run(),
        Subcommands::Nodes(it) => it.run(),
        Subcommands::Peers(it) => it.run(),
        Subcommands::Top(it) => it.run(),
        Subcommands::Submit(it) => it.run(),
        Subcommands::Jobs(it) => it.run(),
        Subcommands::Kill(it) => it.run(),
        Subcommands::Gc(it) => it.run(),
        Subcommands::Replay(it) => it.run(),
        Subcommands::Log(it) => it.run(),
        Subcommands::Replica(it) => it.run(),
        Subcommands::Diff(it) => it.run(),
        Subcommands::Store(it) => it.run(),
        Subcommands::Ids(it) => it.run(),
        Subcommands::Mesh(it) => it.run(),
        Subcommands::Dashboard(it) => it.run(),
        Subcommands::Token(it) => it.run(),
        Subcommands::Audit(it) => it.run(),
        Subcommands::Bench(it) => it.run(),
        Subcommands::Completions(it) => it.run(),
        Subcommands::Man(it) => it.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Reads the arguments, and what the environment and a file say of those that were left out.
fn parse() -> Result<Cli, Failure> {
    let settings::Completed { arguments, notes } = settings::arguments()?;
    Cli::try_parse_from(arguments).map_err(|why| {
        // clap says it in its own way, with colours where there are any.
        let text = why.render().to_string();
        match secret::has_password(&text) {
            true => eprint!("{}", secret::hide_passwords(&text)),
            false => drop(why.print()),
        }
        if why.use_stderr() {
            notes.iter().for_each(|note| eprintln!("  note: {note}"));
        }
        std::process::exit(why.exit_code())
    })
}

/// Runs what needs sockets, timers and files.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(Failure::world)?.block_on(work)
}

/// Returns when somebody wants this process to end.
async fn stopped() -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Opens a store to look into it: one that is not there is a mistake, not a new one.
async fn open_existing(url: &str) -> Result<sardonyx_store::Store, Failure> {
    if let sardonyx_store::Location::Embedded(dir) = sardonyx_store::Location::parse(url)?
        && !dir.is_dir()
    {
        return Err(Failure::input(format!("there is no store in {}", dir.display())));
    }
    open_store(url).await
}

/// Opens the store that a person named, and does not keep them waiting for long.
async fn open_store(url: &str) -> Result<sardonyx_store::Store, Failure> {
    let options = sardonyx_store::Options { patience: std::time::Duration::from_secs(5) };
    Ok(sardonyx_store::Store::open(url, options).await?)
}

/// After so much silence a log is read to its end, wherever the store says that it ends: its last
/// entries may be copies of earlier ones, which nobody is handed.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// What comes next in a log that is read to its present end; nothing when it is silent.
async fn next_batch(
    subscription: &mut sardonyx_store::Subscription,
    batch: &mut Vec<sardonyx_store::Delivery>,
) -> Result<(), Failure> {
    match tokio::time::timeout(SILENCE, subscription.next_batch(batch)).await {
        Ok(read) => Ok(read?),
        Err(_) => Ok(()),
    }
}
