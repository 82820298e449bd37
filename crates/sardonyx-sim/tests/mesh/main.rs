//! The mesh on virtual time: the document's cases, storms from seeds, and tests of the test itself.

// A test that cannot go on says so by panicking, and what a long run saw is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod additions;
mod cluster;
mod document;
mod goals;
mod holes;
mod model;
mod relays;
mod storms;

fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}"))
        }
        Err(_) => otherwise,
    }
}
