//! Many appends at once over a backend that loses requests and answers: everybody reads each
//! acknowledged append once, in one order. And each rule that makes it so is missed when it is off.
//! `cargo xtask mutants` reads the lines that begin with `MUTANT`.

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::{PeerId, Position};
use tokio::task::JoinSet;

use super::{Mutant, with_mutant};
use crate::{
    Backend, Committed, Delivery, Error, Item, Lease, Options, Result, Start, Store, Subscription,
    Tail, Token, Txn,
    local::Local,
    suite::{label, labelled},
    token::lock,
};

const N_WRITERS: usize = 2;
const N_LANES: usize = 100;
const N_EACH: usize = 3;

/// Memory behind a bad line: of five appends one does not arrive, and the answer to another is lost.
struct BadLine {
    memory: Local,
    dice: Mutex<u64>,
}

impl BadLine {
    fn roll(&self) -> u64 {
        let mut dice = lock(&self.dice);
        *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*dice >> 33) % 5
    }
}

#[async_trait]
impl Backend for BadLine {
    async fn append(&self, token: Token, bytes: Bytes) -> Result<Position> {
        let roll = self.roll();
        // Others come between.
        tokio::task::yield_now().await;
        if roll == 0 {
            return Err(Error::Unavailable("it did not arrive".into()));
        }
        let appended = self.memory.append(token, bytes).await;
        match roll {
            1 => Err(Error::Unavailable("the answer was lost".into())),
            _ => appended,
        }
    }

    fn tail(&self, after: Option<Position>) -> Box<dyn Tail> {
        self.memory.tail(after)
    }

    async fn end(&self) -> Result<Option<Position>> {
        self.memory.end().await
    }

    async fn origin(&self) -> Result<Option<(Position, Bytes)>> {
        self.memory.origin().await
    }

    async fn set_origin(&self, position: Position, bytes: Bytes) -> Result<bool> {
        self.memory.set_origin(position, bytes).await
    }

    async fn trim(&self, before: Position) -> Result<()> {
        self.memory.trim(before).await
    }

    async fn open_session(&self, timeout: Duration) -> Result<Box<dyn Lease>> {
        self.memory.open_session(timeout).await
    }

    async fn alive(&self, peer: &PeerId) -> Result<bool> {
        self.memory.alive(peer).await
    }

    async fn pulse_end(&self, peer: &PeerId) -> Result<()> {
        self.memory.pulse_end(peer).await
    }

    async fn fill_cell(&self, name: &str, value: Bytes) -> Result<Bytes> {
        self.memory.fill_cell(name, value).await
    }

    async fn cell(&self, name: &str) -> Result<Option<Bytes>> {
        self.memory.cell(name).await
    }

    async fn items(&self, prefix: &str) -> Result<Vec<Item>> {
        self.memory.items(prefix).await
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        self.memory.commit(txn).await
    }
}

/// Everything up to the entry that says `last`.
async fn read_until_last(mut subscription: Subscription) -> Result<Vec<String>, String> {
    let mut read = Vec::new();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(2), subscription.next()).await;
        let next = next.map_err(|_| "the last entry never comes".to_owned())?;
        if let Delivery::Entry { command: Ok(command), .. } = next.map_err(|why| why.to_string())? {
            let said = label(&command);
            if said == "last" {
                return Ok(read);
            }
            read.push(said);
        }
    }
}

/// Runs the seeds side by side, since most of a run is waiting before something is sent again. All
/// of it is in this thread, where the switch is.
fn run_all(seeds: RangeInclusive<u64>) -> Vec<(u64, Result<(), String>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let runs: JoinSet<_> = seeds.map(async |seed| (seed, run(seed).await)).collect();
        runs.join_all().await
    })
}

/// One run; what is wrong with it, if anything.
async fn run(seed: u64) -> Result<(), String> {
    let memory = crate::memory::open();
    let line = Arc::new(BadLine { memory, dice: Mutex::new(seed) });
    let mut lanes = JoinSet::new();
    let early = Store::over(line.clone(), Options::default()).unwrap();
    let early = early.subscribe(Start::Origin);
    for writer in 0..N_WRITERS {
        let store = Store::over(line.clone(), Options::default()).unwrap();
        for lane in 0..N_LANES {
            let store = store.clone();
            lanes.spawn(async move {
                let mut said = Vec::new();
                for n in 0..N_EACH {
                    let label = format!("{writer}-{lane}-{n}");
                    store.append(&labelled(&label)).await.unwrap();
                    said.push(label);
                }
                said
            });
        }
    }
    let said: BTreeSet<String> = lanes.join_all().await.into_iter().flatten().collect();
    let late = Store::over(line, Options::default()).unwrap();
    late.append(&labelled("last")).await.unwrap();
    let early = read_until_last(early).await?;
    let late = read_until_last(late.subscribe(Start::Origin)).await?;
    let distinct: BTreeSet<String> = early.iter().cloned().collect();
    if early != late {
        return Err("two readers see two logs".into());
    }
    if distinct.len() != early.len() {
        return Err(format!("{} entries are read twice", early.len() - distinct.len()));
    }
    match distinct == said {
        true => Ok(()),
        false => Err(format!("{} of {} are read", distinct.len(), said.len())),
    }
}

#[test]
fn over_a_bad_line_everybody_reads_each_append_once() {
    for (seed, outcome) in run_all(1..=20) {
        assert_eq!(outcome, Ok(()), "seed {seed}");
    }
}

#[test]
fn each_rule_switched_off_is_found() {
    let only = std::env::var("MUTANT_ONLY").ok();
    for mutant in [Mutant::SmallWindow, Mutant::WokenFor, Mutant::FreshTokens] {
        let name = format!("{mutant:?}");
        if only.as_ref().is_some_and(|only| only.split(',').all(|it| it != name)) {
            continue;
        }
        let begun = Instant::now();
        let find = |seed: u64| run_all(seed..=seed).into_iter().find_map(|(_, it)| it.err());
        let found = with_mutant(Some(mutant), || (1..=100).find_map(|it| Some((it, find(it)?))));
        let (seed, why) = found.unwrap_or_else(|| panic!("{name} goes unnoticed"));
        let ms = begun.elapsed().as_millis();
        println!("MUTANT\t{name}\tstore over a bad line: {why}\tseed {seed}\t{ms}");
    }
}
