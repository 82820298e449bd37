//! `sardonyx bench replica`: joins and leaves at several sizes of cluster.

use std::{collections::BTreeMap, hint::black_box, time::Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sardonyx_core::{
    Command, Entry, PeerId, Phase, Position, Replica, apply,
    command::{AcceptJoinCluster, LeaveCluster, NotifyJoinCluster, PrepareJoinCluster},
    wire,
};
use serde::Serialize;

use super::{
    Failure,
    bench::{print, thousands},
};

/// Plays a churn of joins and leaves against clusters of several sizes.
#[derive(Args)]
pub(crate) struct BenchReplica {
    /// The sizes of cluster to try.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000,10000", value_name = "N,…")]
    peers: Vec<u32>,

    /// How many entries to play at each size.
    #[arg(long, default_value_t = 400_000, value_name = "N")]
    entries: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    peers: u32,
    /// Played in place, as a node does that follows the log.
    entries_per_second: u64,
    /// With the replica before each entry kept, as a node does that compares the two.
    entries_per_second_keeping_old: u64,
    /// The same number of changes to a bare ordered map of the standard library.
    map_changes_per_second: u64,
    /// How many bare map changes an entry costs.
    map_changes_per_entry: f64,
    bytes_per_peer: u64,
    origin_bytes: u64,
    origin_load_ms: f64,
}

impl BenchReplica {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        if self.peers.is_empty() || self.peers.contains(&0) || self.entries == 0 {
            return Err(Failure::input("--peers and --entries must be at least 1"));
        }
        let bar = ProgressBar::new(self.peers.len() as u64)
            .with_style(ProgressStyle::with_template("{bar:30} {msg}").map_err(Failure::world)?);
        let mut rows = Vec::new();
        for &peers in &self.peers {
            bar.set_message(format!("{} peers", thousands(peers.into())));
            rows.push(measure(peers, self.entries));
            bar.inc(1);
        }
        bar.finish_and_clear();
        let head = [
            "peers",
            "entries/s",
            "keeping old",
            "bare map/s",
            "map/entry",
            "bytes/peer",
            "origin bytes",
            "load ms",
        ];
        print(json, "replica", &head, &rows, |row| {
            vec![
                thousands(row.peers.into()),
                thousands(row.entries_per_second),
                thousands(row.entries_per_second_keeping_old),
                thousands(row.map_changes_per_second),
                format!("{:.1}", row.map_changes_per_entry),
                thousands(row.bytes_per_peer),
                thousands(row.origin_bytes),
                format!("{:.1}", row.origin_load_ms),
            ]
        })
    }
}

fn measure(peers: u32, entries: u32) -> Row {
    let mut churn = Churn::default();
    for _ in 0..peers {
        churn.join();
    }
    let start = churn.replica.clone();
    churn.log.clear();
    while churn.log.len() < entries as usize {
        churn.join();
        churn.leave();
    }
    let log = churn.log;

    let in_place = per_second(log.len(), || {
        let mut replica = start.clone();
        for entry in &log {
            _ = black_box(replica.play(entry));
        }
    });
    let keeping = per_second(log.len(), || {
        let mut replica = start.clone();
        for entry in &log {
            let (new, _) = apply(&replica, entry);
            drop(black_box(std::mem::replace(&mut replica, new)));
        }
    });
    let bare = bare_map(&start, log.len());
    let origin = wire::replica_to_json(&start);
    let loads = per_second(1, || drop(black_box(wire::replica_from_json(&origin))));
    Row {
        peers,
        entries_per_second: in_place as u64,
        entries_per_second_keeping_old: keeping as u64,
        map_changes_per_second: bare as u64,
        map_changes_per_entry: bare / in_place,
        bytes_per_peer: start.bytes() as u64 / u64::from(peers),
        origin_bytes: origin.len() as u64,
        origin_load_ms: 1e3 / loads,
    }
}

/// The best of three, since others use this machine too.
fn per_second(count: usize, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let started = Instant::now();
        work();
        best = best.min(started.elapsed().as_secs_f64());
    }
    count as f64 / best
}

/// One insertion or removal in a map of the same keys, `changes` times.
fn bare_map(replica: &Replica, changes: usize) -> f64 {
    let mut map: BTreeMap<PeerId, PeerId> =
        replica.peers().map(|peer| (peer.clone(), peer.clone())).collect();
    let keys: Vec<PeerId> = map.keys().cloned().collect();
    per_second(changes, || {
        for index in 0..changes / 2 {
            let key = &keys[(index * 7919) % keys.len()];
            let value = map.remove(key);
            map.insert(key.clone(), value.unwrap_or_else(|| key.clone()));
        }
    })
}

/// Writes a log that makes sense: whole joins, and leaves of members.
#[derive(Default)]
struct Churn {
    replica: Replica,
    log: Vec<Entry>,
    position: u64,
    named: u64,
}

impl Churn {
    fn append(&mut self, command: impl Into<Command>) {
        let entry = Entry { position: Position(self.position), command: command.into() };
        self.position += 1;
        _ = self.replica.play(&entry);
        self.log.push(entry);
    }

    fn join(&mut self) {
        let joiner = self.fresh_id();
        self.append(PrepareJoinCluster { joiner: joiner.clone() });
        let observer = self.replica.joins_in(Phase::Prepared).into_keys().next().cloned();
        if let Some(observer) = observer {
            let subject = observer.clone();
            let (j, o, s) = (joiner.clone(), observer.clone(), subject.clone());
            self.append(NotifyJoinCluster { joiner: j, observer: o, subject: s });
            self.append(AcceptJoinCluster { joiner, observer, subject });
        }
    }

    fn leave(&mut self) {
        let index = scramble(self.position) as usize % self.replica.n_peers().max(1);
        if let Some(peer) = self.replica.peer_at(index).cloned() {
            self.append(LeaveCluster { peer });
        }
    }

    /// An id as long as a UUID, which is what real peers have.
    fn fresh_id(&mut self) -> PeerId {
        self.named += 1;
        let (high, low) = (scramble(self.named), scramble(!self.named));
        let id = format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        );
        PeerId::new(&id).unwrap_or_else(|_| unreachable!("a UUID is an id"))
    }
}

/// Spreads numbers evenly, the same on every machine.
fn scramble(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
