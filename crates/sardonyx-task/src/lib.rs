//! Runs one task: reads what is for it, applies its function, sends on what comes of it.
//!
//! What users bring are [`Function`]s, aggregates, [`Input`]s and [`Output`]s, by name in a
//! registry; each gets its [`Terms`], which is what the job file says about the task. A pipeline
//! moves batches through them, and commits each step as one transaction of the queues.
//!
//! Not here: which peer runs what (that is the cluster's), and how messages are kept (the queues').

mod format;
pub mod function;
pub mod input;
pub mod output;
pub mod plugin;
pub mod suite;
mod terms;

pub use format::{Format, column::Type};
pub use function::Function;
pub use input::Input;
pub use output::Output;
pub use terms::Terms;
