//! What the core promises, from the outside: examples, properties, goldens, storms.

mod examples;
mod garbage;
mod golden;
mod peer;
mod properties;
mod rng;
mod storm;
mod text;
mod tree;
