//! The program `sardonyx`.

mod cli;

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Only the program has it: whoever uses the library chooses for themselves.
#[global_allocator]
static MEMORY: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    cli::run()
}
