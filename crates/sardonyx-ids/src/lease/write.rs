//! The transactions: each is one request, and each condition in it closes a race.
//!
//! | transaction | condition | without it |
//! |---|---|---|
//! | claim | nobody is live on N | two holders at once |
//! | claim | freshness as it was read | a claim on an old reading begins in used times |
//! | claim | the floor as it was read | a floor set meanwhile is ignored |
//! | claim | N is not retired | a retired number comes back |
//! | extend, release | our liveness key | a holder that was replaced goes on writing |
//! | extend, release | freshness as we wrote it | a late or copied write moves the mark |
//!
//! The tests take each of them away and look for the duplicate.

use sardonyx_store::{Condition, Txn, Version, Write};

use super::record::{FLOOR, Fresh, LAYOUT, Live, fresh_key, live_key, retired_key, write};
use crate::layout::{Layout, Millis};

fn as_read(key: String, version: Option<Version>) -> Condition {
    match version {
        Some(version) => Condition::Is(key, version),
        None => Condition::Absent(key),
    }
}

/// What a claim was decided on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Basis {
    pub(crate) number: u32,
    /// Our own liveness key of a former session, if it is still there.
    pub(crate) live: Option<Version>,
    pub(crate) fresh: Option<Version>,
    pub(crate) floor: Option<Version>,
}

/// Takes a number. Writes the liveness key first, then the freshness key.
pub(crate) fn claim(basis: Basis, live: &Live, fresh: &Fresh) -> Txn {
    let number = basis.number;
    Txn {
        when: vec![
            as_read(live_key(number), basis.live),
            as_read(fresh_key(number), basis.fresh),
            as_read(FLOOR.into(), basis.floor),
            Condition::Absent(retired_key(number)),
        ],
        then: vec![
            Write::Lease(live_key(number), write(live)),
            Write::Put(fresh_key(number), write(fresh)),
        ],
    }
}

/// A number that is held: the versions that say so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold {
    pub(crate) number: u32,
    pub(crate) live: Version,
    pub(crate) fresh: Version,
}

fn is_held(hold: Hold) -> Vec<Condition> {
    vec![
        Condition::Is(live_key(hold.number), hold.live),
        Condition::Is(fresh_key(hold.number), hold.fresh),
    ]
}

/// Moves the mark.
pub(crate) fn extend(hold: Hold, fresh: &Fresh) -> Txn {
    let then = vec![Write::Put(fresh_key(hold.number), write(fresh))];
    Txn { when: is_held(hold), then }
}

/// Gives a number back: the only write that may lower the mark, since its writer has stopped.
pub(crate) fn release(hold: Hold, fresh: &Fresh) -> Txn {
    let put = Write::Put(fresh_key(hold.number), write(fresh));
    Txn { when: is_held(hold), then: vec![put, Write::Delete(live_key(hold.number))] }
}

/// Fixes the cluster's layout, unless somebody has.
pub(crate) fn fix_layout(layout: &Layout) -> Txn {
    Txn {
        when: vec![Condition::Absent(LAYOUT.into())],
        then: vec![Write::Put(LAYOUT.into(), write(layout))],
    }
}

/// Raises the floor from what was read.
pub(crate) fn raise_floor(read: Option<Version>, floor: Millis) -> Txn {
    Txn {
        when: vec![as_read(FLOOR.into(), read)],
        then: vec![Write::Put(FLOOR.into(), write(&floor))],
    }
}

/// Takes a number out of use: whoever holds it finds that out at its next extension.
pub(crate) fn retire(number: u32, now: Millis) -> Txn {
    let then = vec![Write::Put(retired_key(number), write(&now)), Write::Delete(live_key(number))];
    Txn { when: vec![], then }
}
