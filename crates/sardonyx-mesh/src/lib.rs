//! The mesh: which nodes are here, who leads, and how they talk.
//!
//! [`Member`] is the whole protocol as a value: messages and time go in; messages, writes, changes
//! and the time of the next step come out. It has no clock, no socket, no disk and no randomness of
//! its own, so the simulator runs the same code as the transports do.
//!
//! Read in this order: [`claim`] (what leading means), [`view`] (the table), [`vote`] and [`slots`]
//! (how a leader is chosen), [`message`], then [`member`].

pub mod address;
pub mod change;
pub mod claim;
mod clock;
pub mod config;
mod connections;
pub mod durable;
pub mod events;
pub mod greet;
pub mod kept;
pub mod member;
pub mod memory;
pub mod mesh;
pub mod message;
pub mod moment;
pub mod mutant;
mod net;
pub mod report;
mod rng;
mod runtime;
pub mod slots;
pub mod tcp;
pub mod view;
pub mod vote;
pub mod wire;

pub use address::{Address, Incarnation, NodeId};
pub use change::{Change, Reason};
pub use claim::{Claim, ClusterId, FencingToken, Quality, Version};
pub use config::{Config, ConfigError, Profile, Timers};
pub use connections::Counts;
pub use kept::Kept;
pub use member::{Input, Member, Output, Save};
pub use mesh::{Leader, Mesh, Options, Seen, StartError, Store, Watch};
pub use message::{Message, Outgoing};
pub use moment::Moment;
pub use net::Network;
pub use report::{Phase, Report};
pub use runtime::describe;
pub use view::{Row, Status, Table};
