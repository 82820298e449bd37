//! A run from one seed: a mesh of three, five or seven voters and perhaps a few members more, a storm,
//! a calm, a judgement.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use sardonyx_mesh::{Address, Config, Input, Profile, kept::Recovery, slots::Slots};

use super::{network::Network, world::World};
use crate::rng::Rng;

/// What can go wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// kill -9; writes that were not synced are lost. Comes back.
    Crash,
    /// kill -9 of the leader.
    CrashLeader,
    /// kill -9 of everybody.
    CrashAll,
    /// The disk is gone too. Never so many that no majority of voters remembers.
    LoseDisk,
    /// SIGSTOP, for less or more than the ttl.
    Pause,
    /// SIGSTOP of the leader.
    PauseLeader,
    /// Two groups that do not hear each other.
    Split,
    /// One hears nobody and nobody hears it.
    Isolate,
    /// The leader, alone or with one other.
    IsolateLeader,
    /// Two members that do not hear each other, in one direction or in both; everybody else does.
    Link,
    /// Links that carry one way only.
    OneWay,
    /// Two groups, and one member that both hear.
    Bridge,
    /// Everybody hears only its neighbours.
    Chain,
    /// Everybody hears only one, which is not the leader.
    Star,
    /// Every cut link is whole again.
    Heal,
    /// From now on more or less is lost, doubled or late.
    Weather,
    /// A member leaves, and comes back later.
    Leave,
    /// The leader hands over.
    Transfer,
    /// The operator gives a voter's slot to a member that has none.
    Replace,
}

/// Every fault there is.
pub const FAULTS: [Fault; 19] = [
    Fault::Crash,
    Fault::CrashLeader,
    Fault::CrashAll,
    Fault::LoseDisk,
    Fault::Pause,
    Fault::PauseLeader,
    Fault::Split,
    Fault::Isolate,
    Fault::IsolateLeader,
    Fault::Link,
    Fault::OneWay,
    Fault::Bridge,
    Fault::Chain,
    Fault::Star,
    Fault::Heal,
    Fault::Weather,
    Fault::Leave,
    Fault::Transfer,
    Fault::Replace,
];

/// How long a storm lasts.
const STORM: Duration = Duration::from_secs(15);
/// How long a mesh may take until all is well again once nothing goes wrong any more: four times what
/// it takes to miss a leader and ask again, and one ttl more.
const CALM: Duration = Duration::from_millis(4 * (900 + 200) + 900);

/// A run in which everything held.
#[derive(Clone, Debug)]
pub struct Passed {
    /// How many steps all members took together.
    pub n_steps: u64,
    /// How many leaders were elected.
    pub n_elections: usize,
    /// The same for the same run.
    pub hash: u64,
    /// How long it took until all was well; `None` if too many had lost their votes.
    pub calm_after: Option<Duration>,
    /// What was seen, and how often.
    pub seen: BTreeMap<String, u64>,
}

/// A run in which something did not hold.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Which run.
    pub seed: u64,
    /// The law.
    pub law: &'static str,
    /// What was seen.
    pub what: String,
    /// Everything that happened, if it was recorded.
    pub trace: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failed { seed, law, what, trace } = self;
        write!(f, "{trace}mesh seed {seed}: {law}: {what}")
    }
}

/// Runs one seed, with or without writing everything down.
pub fn run_once(seed: u64, record: bool) -> Result<Passed, Failed> {
    let mut storm = Storm::draw(seed);
    if record {
        storm.world.record();
    }
    storm.rage();
    storm.judge()
}

struct Storm {
    seed: u64,
    rng: Rng,
    world: World,
    faults: Vec<Fault>,
    every: u64,
    seen: BTreeMap<String, u64>,
    n_lost_disks: usize,
    /// When a node that is down is to come back.
    back: BTreeMap<usize, Duration>,
}

impl Storm {
    fn draw(seed: u64) -> Storm {
        let mut rng = Rng::new(seed);
        let nodes = *rng.pick(&[3_u32, 3, 5, 5, 7]).unwrap_or(&3);
        let mut world = World::new(rng.next());
        // Members beyond the voters, of which one may never want to vote.
        let n_more = *rng.pick(&[0_u32, 0, 1, 2]).unwrap_or(&0);
        let shy = rng.chance(30).then_some(nodes as usize);
        let addresses: Vec<Address> = (0..nodes + n_more)
            .filter_map(|it| Address::new("127.0.0.1", 10_001 + u16::try_from(it).ok()?).ok())
            .collect();
        let n_seeds = 1 + rng.below(u64::from(nodes)) as usize;
        // One that may not vote leads nobody, and a mesh with such seeds alone would never come to be.
        let mut seeds = addresses[..nodes as usize].to_vec();
        while seeds.len() > n_seeds {
            seeds.remove(rng.below(seeds.len() as u64) as usize);
        }
        // If more could vote than there are slots, and nobody said who does, two groups that do not hear
        // each other could found a cluster each.
        let is_fixed = n_more > 0 || rng.chance(30);
        for (at, address) in addresses.iter().enumerate() {
            let config = Config {
                nodes,
                address: address.clone(),
                name: format!("n{}", address.port()),
                cluster: "storm".to_owned(),
                seeds: seeds.clone(),
                voters: is_fixed.then(|| addresses[..nodes as usize].to_vec()),
                observer: shy == Some(at),
                found_by_itself: true,
                timers: Profile::Test.timers(),
            };
            let index = world.add(config);
            let ppm = *rng.pick(&[-50_000, 0, 50_000, 13_000]).unwrap_or(&0);
            world.set_clock(index, ppm, rng.below(1 << 40));
            let sync = *rng.pick(&[100, 2_000, 40_000]).unwrap_or(&100);
            world.set_sync(index, Duration::from_micros(sync));
        }
        let mut faults: Vec<Fault> = FAULTS.into_iter().filter(|_| rng.chance(50)).collect();
        if faults.is_empty() {
            faults.push(Fault::CrashLeader);
        }
        let every = *rng.pick(&[100, 300, 1_000, 2_000]).unwrap_or(&300);
        let seen = BTreeMap::new();
        let back = BTreeMap::new();
        Storm { seed, rng, world, faults, every, seen, n_lost_disks: 0, back }
    }

    fn rage(&mut self) {
        for node in 0..self.world.len() {
            let at = Duration::from_millis(self.rng.below(1_500));
            self.back.insert(node, at);
        }
        if self.rng.chance(70) {
            // Let it come to be, before anything goes wrong.
            while !self.back.is_empty() {
                self.run(100);
            }
            self.run(1_000);
        }
        while self.world.now() < STORM && self.world.broken().is_none() {
            let pause = 1 + self.rng.below(2 * self.every);
            self.run(pause);
            let fault = self.rng.pick(&self.faults).copied().unwrap_or(Fault::Heal);
            self.strike(fault);
        }
    }

    /// Lets time pass, and brings back who is due.
    fn run(&mut self, millis: u64) {
        let mut left = millis;
        while left > 0 && self.world.broken().is_none() {
            let slice = left.min(50);
            self.world.run(Duration::from_millis(slice));
            left -= slice;
            let now = self.world.now();
            let due: Vec<usize> =
                self.back.iter().filter(|(_, at)| **at <= now).map(|(node, _)| *node).collect();
            for node in due {
                self.back.remove(&node);
                self.world.start(node);
            }
        }
    }

    fn see(&mut self, what: impl fmt::Debug) {
        *self.seen.entry(format!("{what:?}")).or_default() += 1;
    }

    fn strike(&mut self, fault: Fault) {
        let n_nodes = self.world.len();
        let any = self.rng.below(n_nodes as u64) as usize;
        let leader = (0..n_nodes).find(|it| self.world.token(*it).is_some());
        let leader = leader.or_else(|| (0..n_nodes).find_map(|it| self.world.leader_of(it)));
        let leader = leader.unwrap_or(any);
        self.see(fault);
        match fault {
            Fault::Crash => self.crash(any),
            Fault::CrashLeader => self.crash(leader),
            Fault::CrashAll => (0..n_nodes).for_each(|node| self.crash(node)),
            Fault::LoseDisk => self.lose_disk(any),
            Fault::Pause => self.pause(any),
            Fault::PauseLeader => self.pause(leader),
            Fault::Leave => {
                if self.world.is_awake(any) {
                    self.world.order(any, Input::Leave);
                }
            }
            Fault::Transfer => {
                let to = self.world.address(any).clone();
                if self.world.is_awake(leader) {
                    self.world.order(leader, Input::Transfer { to });
                }
            }
            Fault::Replace => self.replace(leader),
            Fault::Weather => self.change_weather(),
            Fault::Split
            | Fault::Isolate
            | Fault::IsolateLeader
            | Fault::Link
            | Fault::OneWay
            | Fault::Bridge
            | Fault::Chain
            | Fault::Star
            | Fault::Heal => self.cut(fault, any, leader),
        }
        self.restart_departed();
    }

    fn crash(&mut self, node: usize) {
        if self.world.member(node).is_none() {
            return;
        }
        self.world.crash(node);
        let away = *self.rng.pick(&[1, 50, 300, 1_500, 4_000]).unwrap_or(&300);
        let at = self.world.now() + Duration::from_millis(1 + self.rng.below(2 * away));
        self.back.insert(node, at);
    }

    /// One that votes for one that does not, as the leader knows them.
    fn replace(&mut self, leader: usize) {
        let Some(report) = self.world.status(leader).filter(|_| self.world.is_awake(leader)) else {
            return;
        };
        let rest = report.members.iter().map(|row| &row.node.address);
        let rest: Vec<Address> = rest.filter(|it| !report.voters.contains(it)).cloned().collect();
        if let (Some(old), Some(new)) = (self.rng.pick(&report.voters), self.rng.pick(&rest)) {
            let order = Input::ReplaceVoter { old: old.clone(), new: new.clone() };
            if self.world.order(leader, order).is_none() {
                self.see("a replacement begins");
            }
        }
    }

    fn lose_disk(&mut self, node: usize) {
        let nodes = self.world.len();
        // Who never knew of the cluster and who forgot it look alike: together they could found
        // another. So disks are lost only once everybody knows of it.
        let knows = |it: usize| self.world.disk(it).is_some_and(|kept| kept.cluster.is_some());
        if !(0..nodes).all(knows) {
            return;
        }
        // As many as a cluster must survive: the others are still a majority.
        let config = self.world.config(0);
        let n_max = config.nodes as usize - config.quorum();
        if self.n_lost_disks >= n_max || self.world.has_lost_disk(node) {
            return;
        }
        self.n_lost_disks += 1;
        self.crash(node);
        self.world.crash(node);
        self.world.lose_disk(node);
    }

    fn pause(&mut self, node: usize) {
        if self.world.is_awake(node) {
            let span = *self.rng.pick(&[50, 400, 1_000, 3_000]).unwrap_or(&400);
            let span = Duration::from_millis(1 + self.rng.below(2 * span));
            self.world.pause(node, span);
        }
    }

    fn restart_departed(&mut self) {
        for node in 0..self.world.len() {
            let has_left = self.world.member(node).is_some() && !self.world.is_up(node);
            if has_left {
                self.see("has left");
                self.crash(node);
            }
        }
    }

    fn cut(&mut self, fault: Fault, any: usize, leader: usize) {
        let n_nodes = self.world.len();
        let mut order: Vec<usize> = (0..n_nodes).collect();
        for at in (1..n_nodes).rev() {
            order.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
        if self.rng.chance(70) {
            self.world.network.heal();
        }
        let at = 1 + self.rng.below(n_nodes as u64 - 1) as usize;
        let other = order.iter().copied().find(|it| *it != leader).unwrap_or(any);
        let directions = self.rng.below(3);
        let network = &mut self.world.network;
        match fault {
            Fault::Split => network.split(n_nodes, &[&order[..at], &order[at..]]),
            Fault::Isolate => network.isolate(any, n_nodes),
            Fault::IsolateLeader => {
                let rest: Vec<usize> =
                    order.iter().copied().filter(|it| *it != leader && *it != other).collect();
                network.split(n_nodes, &[&[leader, other], &rest]);
            }
            Fault::Link => {
                let ways = [(leader, other), (other, leader)];
                let ways = &ways[usize::from(directions == 1)..2 - usize::from(directions == 2)];
                network.cut.extend(ways);
            }
            Fault::OneWay => {
                for to in order.iter().take(at) {
                    network.cut.insert((any, *to));
                }
            }
            Fault::Bridge => {
                network.split(n_nodes, &[&order[..at], &order[at..]]);
                for to in 0..n_nodes {
                    network.cut.remove(&(other, to));
                    network.cut.remove(&(to, other));
                }
            }
            Fault::Chain => {
                let links: Vec<(usize, usize)> =
                    order.windows(2).map(|pair| (pair[0], pair[1])).collect();
                network.only(n_nodes, &links);
            }
            Fault::Star => {
                let links: Vec<(usize, usize)> = (0..n_nodes).map(|it| (other, it)).collect();
                network.only(n_nodes, &links);
            }
            Fault::Heal
            | Fault::Crash
            | Fault::CrashLeader
            | Fault::CrashAll
            | Fault::LoseDisk
            | Fault::Pause
            | Fault::PauseLeader
            | Fault::Weather
            | Fault::Leave
            | Fault::Transfer
            | Fault::Replace => network.heal(),
        }
    }

    fn change_weather(&mut self) {
        let network = &mut self.world.network;
        network.lost_per_mille = *self.rng.pick(&[0, 10, 100, 300]).unwrap_or(&0);
        network.doubled_per_mille = *self.rng.pick(&[0, 50, 300]).unwrap_or(&0);
        network.delay_min = 100;
        network.delay_max = *self.rng.pick(&[500, 5_000, 50_000, 300_000]).unwrap_or(&500);
    }

    fn failed(&self, law: &'static str, what: String) -> Failed {
        Failed { seed: self.seed, law, what, trace: self.world.trace().to_owned() }
    }

    fn judge(mut self) -> Result<Passed, Failed> {
        let nodes = self.world.len();
        self.world.network = Network::calm();
        for node in 0..nodes {
            if !self.world.is_up(node) {
                self.back.remove(&node);
                self.world.crash(node);
                self.world.start(node);
            }
        }
        let all: Vec<usize> = (0..nodes).collect();
        // Somebody may still be on its way out, or paused.
        let mut is_well = |world: &World| {
            let holds = all.iter().filter(|it| world.token(**it).is_some()).count();
            holds == 1 && world.agree(&all, nodes).is_some()
        };
        let is_paused = |world: &World| (0..nodes).any(|it| world.is_up(it) && !world.is_awake(it));
        while is_paused(&self.world) && self.world.broken().is_none() {
            self.world.run(Duration::from_millis(50));
        }
        let begin = self.world.now();
        let mut calm_after = None;
        while self.world.now() < begin + CALM && calm_after.is_none() {
            let slice = Duration::from_millis(500);
            if self.world.until(slice, &mut is_well).is_some() {
                calm_after = Some(self.world.now() - begin);
            }
            for node in 0..nodes {
                if !self.world.is_up(node) {
                    self.world.crash(node);
                    self.world.start(node);
                }
            }
            if let Some(broken) = self.world.broken() {
                return Err(self.failed(broken.law, broken.what.clone()));
            }
        }
        if calm_after.is_none() && self.can_recover() {
            let what = self.describe();
            return Err(self.failed("I6", format!("not well {CALM:?} after the storm:\n{what}")));
        }
        for (name, count) in self.world.n_messages() {
            *self.seen.entry((*name).to_owned()).or_default() += count;
        }
        let (n_steps, hash) = self.world.fingerprint();
        let n_elections = self.world.n_elections();
        Ok(Passed { n_steps, n_elections, hash, calm_after, seen: self.seen })
    }

    /// Whether enough voters remember what they voted. Without them nobody may be elected, and
    /// that is right.
    fn can_recover(&self) -> bool {
        let voters = |node: usize| self.world.member(node).map(|it| it.kept());
        if (0..self.world.len()).filter_map(voters).all(|it| it.cluster.is_none()) {
            // Nobody has a cluster: those who voted in a founding that never ended can end it.
            return (0..self.world.len()).all(|it| !self.world.has_lost_disk(it));
        }
        // Who votes is what the newest list says. A slot that others are still about to give does not
        // count.
        let lists = (0..self.world.len()).filter_map(voters).map(|kept| &kept.slots);
        let newest = lists.max_by_key(|slots| slots.order());
        let remembers = |node: &usize| {
            voters(*node).is_some_and(|kept| {
                let has_slot = |slots: &Slots| slots.slot_of(&kept.address).is_some();
                let is_listed = has_slot(&kept.slots) && newest.is_some_and(has_slot);
                is_listed && kept.recovery == Recovery::Intact
            })
        };
        let all = (0..self.world.len()).filter(remembers);
        let all: BTreeSet<Address> = all.map(|node| self.world.address(node).clone()).collect();
        newest.is_some_and(|slots| slots.is_quorum(&all))
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        for node in 0..self.world.len() {
            if let Some(report) = self.world.status(node) {
                let leader = report.leader.map(|it| it.to_string());
                let rows: Vec<String> =
                    report.members.iter().map(|it| format!("{} {}", it.name, it.status)).collect();
                text += &format!(
                    "  {node}: {:?}, leader {leader:?}, established {}, seq {}, {:?}, {rows:?}\n",
                    report.phase, report.established, report.seq, report.voting
                );
            }
        }
        text
    }
}
