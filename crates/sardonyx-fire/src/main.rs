//! The whole system under fire: `cargo xtask fire --minutes 15 --seed 1`.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use sardonyx_fire::{draw, options::Options, run, sandbox};

/// Runs five nodes on real servers while everything goes wrong, and judges what came of it.
///
/// Exit codes: 0 nothing is broken, 1 something is, or it could not be run, 2 what was given is wrong,
/// 3 too little happened to say anything.
#[derive(Parser)]
#[command(name = "sardonyx-fire", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,

    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Part {
    /// Draws ids until it is killed: a part of a run, which the run starts.
    #[command(hide = true)]
    Draw(draw::Draw),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let ran = match cli.part {
        Some(Part::Draw(draw)) => draw_ids(&draw),
        None => fire(&cli.options),
    };
    ran.unwrap_or_else(|why| {
        eprintln!("sardonyx-fire: {why}");
        ExitCode::FAILURE
    })
}

fn draw_ids(draw: &draw::Draw) -> Result<ExitCode, String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|why| why.to_string())?;
    runtime.block_on(draw::run(draw))?;
    Ok(ExitCode::SUCCESS)
}

fn fire(options: &Options) -> Result<ExitCode, String> {
    let mut out = std::io::stdout().lock();
    if options.plan {
        let plan = options.plan(!options.no_sandbox);
        let text = serde_json::to_string_pretty(&plan).map_err(|why| why.to_string())?;
        writeln!(out, "{text}").map_err(|why| why.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    if !options.no_sandbox && !sandbox::is_inside() {
        return Err(sandbox::enter());
    }
    let dir = directory(options)?;
    let verdict = run::run(options, &dir).map_err(|why| {
        format!("{why}\nsardonyx-fire: what was written down is in {}", dir.display())
    })?;
    let text = match options.json {
        true => serde_json::to_string(&verdict).map_err(|why| why.to_string())?,
        false => verdict.to_string(),
    };
    writeln!(out, "{text}").map_err(|why| why.to_string())?;
    Ok(verdict.code())
}

/// Where everything is written down: a directory that was empty.
fn directory(options: &Options) -> Result<PathBuf, String> {
    let dir = match &options.dir {
        Some(dir) => dir.clone(),
        None => {
            let name =
                format!("sardonyx-fire-{}-{}", options.seed, sardonyx_fire::trace::now_micros());
            std::env::temp_dir().join(name)
        }
    };
    let why = |why: std::io::Error| format!("{}: {why}", dir.display());
    std::fs::create_dir_all(&dir).map_err(why)?;
    let dir = dir.canonicalize().map_err(why)?;
    if std::fs::read_dir(&dir).map_err(why)?.next().is_some() {
        return Err(format!("{} is not empty: give another --dir", dir.display()));
    }
    Ok(dir)
}
