//! Runs one task: reads what is for it, applies its function, sends on what comes of it.
//!
//! What users bring are [`Function`]s, aggregates, [`Input`]s and [`Output`]s, by name in a
//! [`Registry`]; each gets its [`Terms`], which is what the job file says about the task. A pipeline
//! moves batches through them, and commits each step as one transaction of the queues.
//!
//! Not here: which peer runs what (that is the cluster's), and how messages are kept (the queues').

mod blueprint;
pub mod files;
pub mod flow;
mod format;
pub mod function;
pub mod group;
pub mod input;
pub mod kit;
pub mod meter;
pub mod mutant;
pub mod nearest;
pub mod on_error;
pub mod output;
pub mod partition;
pub mod pipeline;
pub mod plugin;
pub mod pool;
pub mod record;
pub mod registry;
pub mod secret;
pub mod spy;
mod sql;
pub mod suite;
mod terms;
#[cfg(test)]
mod testing;
mod worker;

pub use blueprint::Blueprint;
pub use files::Files;
pub use format::{Format, column::Type};
pub use function::Function;
pub use input::Input;
pub use output::Output;
pub use registry::Registry;
pub use terms::Terms;
