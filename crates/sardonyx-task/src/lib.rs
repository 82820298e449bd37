//! Runs one task: reads what is for it, applies its function, sends on what comes of it.
//!
//! What users bring are [`Function`]s, aggregates, [`Input`]s and [`Output`]s, by name in a
//! [`Registry`]; each gets its [`Terms`], which is what the job file says about the task. A pipeline
//! moves batches through them, and commits each step as one transaction of the queues.
//!
//! Not here: which peer runs what (that is the cluster's), and how messages are kept (the queues').

pub mod flow;
pub mod function;
pub mod group;
pub mod input;
mod nearest;
pub mod on_error;
pub mod output;
pub mod partition;
pub mod record;
pub mod registry;
mod sql;
mod terms;
#[cfg(test)]
mod testing;

pub use function::Function;
pub use input::Input;
pub use output::Output;
pub use registry::Registry;
pub use terms::Terms;
