//! The public forms: JSON for people and programs, bytes for the log.
//!
//! Both are pinned by golden files in testdata/wire; changing either needs a decision record.

mod bytes;
mod json;
mod origin;
mod terms;
mod view;

pub use bytes::{COMMAND_BYTES_MAX, Unreadable, command_from_bytes, command_to_bytes};
pub use json::{Malformed, command_from_json, command_to_json, entry_from_json, entry_to_json};
pub use origin::{BadOrigin, digest, replica_from_json, replica_to_json};
pub use terms::terms_from_json;
