//! The judgement: pure functions over what was written down.
//!
//! | file | what it judges | invariants |
//! |---|---|---|
//! | `log.rs` | the log, entry by entry, from where it begins | LR, AL, ST-2 |
//! | `outputs.rs` | what jobs wrote, beside what they had to | DP-1 to DP-3 |
//! | `tokens.rs` | who could act for the mesh, and when | MB-2, MB-11 |
//! | `ids.rs` | every id that was drawn | ID-1, ID-2, ID-4 |
//! | `end.rs` | the cluster once it is calm | LR-1, LR-10, LR-12, DP-13 |
//! | `growth.rs` | who grows, on an ordinary day | memory, files, threads, the log |
//! | `traffic.rs` | whether enough happened to say anything at all | void runs |

#[cfg(test)]
mod condemned;
pub mod end;
#[cfg(test)]
mod fuzz;
pub mod growth;
pub mod ids;
pub mod log;
pub mod outputs;
pub mod tokens;
pub mod traffic;
// What the simulator checks after every entry. The file alone: with its crate would come all that data
// goes through, which would have to be built for this driver a second time.
#[path = "../../sardonyx-sim/src/twins.rs"]
mod twins;

use serde::Serialize;

/// What one judge found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// Which invariants it is about.
    pub about: &'static str,
    /// What was looked at, in words and numbers.
    pub seen: String,
    /// What is wrong; nothing, if all is well.
    pub broken: Vec<String>,
}

/// How many things that are wrong are named in one finding; the rest is counted.
pub const NAMED_MAX: usize = 12;

impl Finding {
    /// A finding that names what is wrong, as far as there is room.
    pub fn new(about: &'static str, seen: String, mut broken: Vec<String>) -> Finding {
        let n_more = broken.len().saturating_sub(NAMED_MAX);
        if n_more > 0 {
            broken.truncate(NAMED_MAX);
            broken.push(format!("and {n_more} more"));
        }
        Finding { about, seen, broken }
    }

    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        self.broken.is_empty()
    }
}
