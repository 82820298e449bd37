//! A node: a process with its virtual peers.
//!
//! ```text
//!              entries, origin          ┌────────────┐   effects: watch, start, stop, trim
//!   store ─────────────────────────────►│            ├──────────────────────────────► perform
//!   pulses that end, timers, reports ──►│    Node    │   then commands
//!   of tasks, a request to stop         │ (decides)  ├──────────────────────────────► outbox
//!                                       └────────────┘                                  │
//!   store ◄─────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! [`Node`] is the machine: one replica for all of a node's peers, entries and pulses in, effects
//! and commands out. It decides what the core decides, does nothing, and runs the same in a process
//! and in the simulator. [`Driver`] is the one loop that feeds it from a store and carries out what
//! it says. [`Tasks`] is how tasks are started and stopped; [`Client`] is for those who only want
//! to say something to a cluster; [`job`] reads job files.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod chores;
mod client;
mod driver;
mod figures;
pub mod job;
mod log_size;
mod node;
mod nodes;
mod tasks;
mod trim;

pub use chores::{Chores, Due, HistoryTerms, Office, Term};
pub use client::{Client, Said};
pub use driver::{
    CHECKPOINT_EVERY, Config, Driver, Event, Fatal, INBOX_MAX, Namer, OUTBOX_MAX, TASK_STOP_MAX,
    View, fresh_name, is_checkpoint,
};
pub use figures::{
    FIGURES_TASKS_MAX, Figure, Figures, HISTORY_MAX, Others, Summed, TaskFigure, Told, heard,
};
pub use log_size::LogSize;
pub use node::{BULK_MIN, Effect, Input, Node, Output};
pub use nodes::{About, CARD_PEERS_MAX, CARD_TEXT_BYTES_MAX, Load, NodeCard, Nodes, Worker};
pub use tasks::{DataTasks, Members, Reports, Task, Tasks, WaitTasks, Work};
pub use trim::{JOB_PIECE_BYTES_MAX, TRIM_STEPS, TrimStep, is_over, job_text, trim_steps};
