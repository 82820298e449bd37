//! What the store holds: keys named as the document names them, values that a person can read.
//!
//! | key | value | life |
//! |---|---|---|
//! | `workers/live/N` | who holds N, since when | ends with the holder's session |
//! | `workers/last_reported_time/N` | the first millisecond that may not be used yet | for ever |
//! | `workers/retired/N` | when N was taken out of use | until an operator takes it back |
//! | `workers/floor` | no id at or below this time, ever again | for ever |
//! | `workers/layout` | the cluster's layout | for ever, written once |

use std::collections::BTreeMap;

use bytes::Bytes;
use sardonyx_store::{Item, Version};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::layout::{Layout, Millis};

/// Everything about worker numbers begins with this.
pub const PREFIX: &str = "workers/";
/// The cluster's layout.
pub const LAYOUT: &str = "workers/layout";
/// The operator's floor.
pub const FLOOR: &str = "workers/floor";

/// The liveness key of a number.
pub fn live_key(number: u32) -> String {
    format!("workers/live/{number}")
}

/// The freshness key of a number.
pub fn fresh_key(number: u32) -> String {
    format!("workers/last_reported_time/{number}")
}

/// The key that keeps a number out of use.
pub fn retired_key(number: u32) -> String {
    format!("workers/retired/{number}")
}

/// Who holds a number.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Live {
    /// The holder's incarnation: random, new for every process.
    pub owner: String,
    /// What the holder calls itself.
    pub name: String,
    /// When it took the number.
    pub since: Millis,
}

/// Which times of a number may have been used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fresh {
    /// No id of this number has this time or a later one.
    pub until: Millis,
    /// Where the term of the last writer begins.
    pub from: Millis,
    /// The last writer's incarnation.
    pub owner: String,
    /// The last writer's attempt: random, new for every write, so that a writer which heard no
    /// answer can recognise its own, and a copy of its memory cannot.
    pub attempt: String,
    /// How far the writer's wall clock was ahead of its steady one.
    #[serde(default)]
    pub offset: i64,
    /// Whether the last writer gave the number back: it is not somewhere out there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_released: bool,
}

/// Something stored, and its version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held<T> {
    /// What.
    pub value: T,
    /// Its version.
    pub version: Version,
}

/// All that the store knows about worker numbers, at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// Who is there.
    pub live: BTreeMap<u32, Held<Live>>,
    /// What was used.
    pub fresh: BTreeMap<u32, Held<Fresh>>,
    /// Numbers out of use.
    pub retired: BTreeMap<u32, Version>,
    /// The operator's floor.
    pub floor: Option<Held<Millis>>,
    /// The cluster's layout.
    pub layout: Option<Layout>,
}

/// A value that no build of ours wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Its key.
    pub key: String,
    /// What is wrong with it.
    pub why: String,
}

/// Writes a value down.
pub(crate) fn write<T: Serialize>(value: &T) -> Bytes {
    // These types have text keys and no floats: there is nothing that could fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn held<T: DeserializeOwned>(item: &Item) -> Result<Held<T>, Unreadable> {
    let why = |why: serde_json::Error| Unreadable { key: item.key.clone(), why: why.to_string() };
    Ok(Held { value: serde_json::from_slice(&item.value).map_err(why)?, version: item.version })
}

impl Listing {
    /// Reads the items below [`PREFIX`]. Keys of no known kind are left alone; a known key with an
    /// unreadable value stops the reader, since guessing could repeat ids.
    pub fn read(items: &[Item]) -> Result<Listing, Unreadable> {
        let mut listing = Listing::default();
        for item in items {
            let Some(name) = item.key.strip_prefix(PREFIX) else { continue };
            let (kind, number) = name.split_once('/').unwrap_or((name, ""));
            match (kind, number.parse::<u32>()) {
                ("live", Ok(number)) => drop(listing.live.insert(number, held(item)?)),
                ("last_reported_time", Ok(number)) => {
                    listing.fresh.insert(number, held(item)?);
                }
                ("retired", Ok(number)) => drop(listing.retired.insert(number, item.version)),
                ("floor", Err(_)) => listing.floor = Some(held(item)?),
                ("layout", Err(_)) => listing.layout = Some(held(item)?.value),
                _ => {}
            }
        }
        Ok(listing)
    }
}
