//! What an operator asks and says: who holds which number, `retire`, `floor`.

use sardonyx_store::{Committed, Error, Result, Store, Txn, Write};

use crate::{
    layout::{Layout, Millis},
    lease::{
        record::{Listing, PREFIX, retired_key},
        write,
    },
};

/// What the store knows about one number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number {
    /// The number.
    pub number: u32,
    /// Who holds it and since when; `None`: nobody.
    pub holder: Option<(String, Millis)>,
    /// The mark; `None`: never used.
    pub until: Option<Millis>,
    /// How far the last writer's wall clock was ahead of the time it went by.
    pub offset: i64,
    /// Whether it is out of use.
    pub is_retired: bool,
}

/// Everything about worker numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overview {
    /// The cluster's layout, once somebody has joined.
    pub layout: Option<Layout>,
    /// The operator's floor.
    pub floor: Option<Millis>,
    /// The numbers that were ever used or retired.
    pub numbers: Vec<Number>,
}

async fn list(store: &Store) -> Result<Listing> {
    let items = store.items(PREFIX).await?;
    Listing::read(&items).map_err(|it| Error::Corrupt(format!("{}: {}", it.key, it.why)))
}

/// Reads the state of all numbers.
pub async fn overview(store: &Store) -> Result<Overview> {
    let listing = list(store).await?;
    let mut numbers: Vec<u32> =
        listing.fresh.keys().chain(listing.retired.keys()).copied().collect();
    numbers.extend(listing.live.keys());
    numbers.sort_unstable();
    numbers.dedup();
    let number = |number: u32| {
        let fresh = listing.fresh.get(&number).map(|it| &it.value);
        let holder = listing.live.get(&number).map(|it| {
            let name = if it.value.name.is_empty() { &it.value.owner } else { &it.value.name };
            (name.clone(), it.value.since)
        });
        let is_retired = listing.retired.contains_key(&number);
        let (until, offset) = (fresh.map(|it| it.until), fresh.map_or(0, |it| it.offset));
        Number { number, holder, until, offset, is_retired }
    };
    Ok(Overview {
        layout: listing.layout,
        floor: listing.floor.map(|it| it.value),
        numbers: numbers.into_iter().map(number).collect(),
    })
}

/// Takes a number out of use. Its holder, if any, takes another one within a period.
pub async fn retire(store: &Store, number: u32, now: Millis) -> Result<()> {
    store.commit(&write::retire(number, now)).await.map(drop)
}

/// Takes a retired number back into use.
pub async fn restore(store: &Store, number: u32) -> Result<()> {
    let then = vec![Write::Delete(retired_key(number))];
    store.commit(&Txn { when: vec![], then }).await.map(drop)
}

/// Sees to it that whoever takes a number from now on begins at `floor` or later. After a store was
/// restored from a backup, set it behind every id that may have been made since the backup: now,
/// plus the window, plus how far clocks may differ; and do it before any process is let in.
///
/// Never lowers it; says what it is now.
pub async fn raise_floor(store: &Store, floor: Millis) -> Result<Millis> {
    loop {
        let present = list(store).await?.floor;
        if let Some(present) = present.as_ref().filter(|it| it.value >= floor) {
            return Ok(present.value);
        }
        let txn = write::raise_floor(present.map(|it| it.version), floor);
        match store.commit(&txn).await? {
            Committed::Done(_) => return Ok(floor),
            Committed::Refused => {}
        }
    }
}
