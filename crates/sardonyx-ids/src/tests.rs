//! Tests of the pure parts: tables, properties, a simulation, an exhaustive model.

#![allow(clippy::wildcard_enum_match_arm)]

mod conditions;
mod crowd;
mod doubt;
mod fuzz;
mod leaps;
#[cfg(feature = "loom")]
mod loom;
mod model;
mod mutants;
mod properties;
mod simulation;
mod world;
