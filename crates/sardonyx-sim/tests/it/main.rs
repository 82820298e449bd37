//! Campaigns: many seeds, small clusters whole, and tests of the test itself.

// A test that cannot go on says so by panicking, and what a long run saw is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod data;
mod fuzz;
mod joins;
mod model;
mod mutants;
mod storms;

fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}"))
        }
        Err(_) => otherwise,
    }
}

/// Whether a rule is to be switched off: all are, unless `MUTANT_ONLY` names some, with commas.
fn is_wanted(mutant: &str) -> bool {
    std::env::var("MUTANT_ONLY").map_or(true, |only| only.split(',').any(|it| it == mutant))
}
