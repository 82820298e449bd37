//! What travels between two nodes, as bytes: frames of a bounded size, and a closed set of messages
//! in them.
//!
//! Nothing here waits or opens anything. A decoder is fed with whatever a connection gave, and
//! answers with whole messages or with the reason for which the connection has to go. No length
//! that a stranger wrote is believed before it was compared with its limit.

pub mod codec;
pub mod frame;
pub mod limits;
