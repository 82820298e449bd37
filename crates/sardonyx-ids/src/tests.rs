//! Tests of the pure parts: tables, properties, a simulation, an exhaustive model.

mod conditions;
#[cfg(feature = "loom")]
mod loom;
mod model;
mod properties;
mod simulation;
mod world;
