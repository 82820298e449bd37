//! Runs one seed and shows what happened: `cargo run -p sardonyx-sim -- 42`.

use std::{io::Write as _, process::ExitCode};

use sardonyx_sim::World;

fn main() -> ExitCode {
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let Some(seed) = seed else {
        eprintln!("usage: sardonyx-sim SEED, where SEED is a number");
        return ExitCode::from(2);
    };
    let mut out = std::io::stdout().lock();
    let shown = match World::run(seed) {
        Ok(passed) => {
            let hash = passed.trace_hash;
            _ = writeln!(out, "seed {seed}: {} entries, trace {hash:016x}", passed.entries);
            passed.probes.counts().iter().try_for_each(|(what, n)| writeln!(out, "{n:>8}  {what}"))
        }
        Err(failed) => {
            _ = write!(out, "{failed}");
            return ExitCode::FAILURE;
        }
    };
    if shown.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
