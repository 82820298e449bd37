//! Sardonyx as a library: register functions, start an embedded cluster, run jobs.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use sardonyx::{Embedded, Options, Registry, job};
//!
//! let mut registry = Registry::built_in();
//! registry.record("double", |n: i64| [n * 2]);
//! let names = job::RegisteredNames::new(registry.clone());
//! let text = std::fs::read_to_string("job.toml")?;
//! let job = job::Job::read(&text, job::Language::Toml, &names).map_err(|all| format!("{all:?}"))?;
//! let cluster = Embedded::start(Options { registry, ..Options::default() }).await?;
//! let ended = cluster.run(&job, "double-1").await?;
//! println!("{:?}", ended.outcome);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod embedded;
pub mod http;
pub mod shown;

pub use embedded::{Embedded, Ended, Node, Options, Submitted};
pub use sardonyx_core::replica::job::JobOutcome;
pub use sardonyx_peer::job;
pub use sardonyx_queue::{Place, Queues};
pub use sardonyx_task::{
    Function, Input, Output, Registry, Terms, input, kit, meter, output, registry,
    spy::{NoSpy, Phase, Spy},
};
