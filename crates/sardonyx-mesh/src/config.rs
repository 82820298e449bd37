//! What a member is told before it starts, checked once.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::address::Address;

/// How often things happen, and how long a silence may last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timers {
    /// The period of a follower's sign of life to the leader, and of the leader's to every seed.
    pub heartbeat_interval: Duration,
    /// After this silence the leader calls a follower unreachable.
    pub heartbeat_timeout: Duration,
    /// After this silence the leader removes a follower, and a follower gives up its leader. Also
    /// how long a voter holds back its vote for a leader that it heard.
    pub ttl_timeout: Duration,
    /// The pause between two attempts to join, and between two questions about the leader.
    pub retry_interval: Duration,
}

/// A set of timers with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// One data centre: 0.5 / 1.5 / 4.5 / 1 s. The default.
    Lan,
    /// The document's: 10 / 30 / 90 / 5 s.
    Documented,
    /// For tests: 0.1 / 0.3 / 0.9 / 0.2 s.
    Test,
}

impl Profile {
    /// Every profile there is.
    pub const ALL: [Profile; 3] = [Profile::Lan, Profile::Documented, Profile::Test];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Lan => "lan",
            Profile::Documented => "documented",
            Profile::Test => "test",
        }
    }

    /// Interval, timeout, ttl and retry.
    pub fn timers(self) -> Timers {
        let millis = |interval, timeout, ttl, retry| Timers {
            heartbeat_interval: Duration::from_millis(interval),
            heartbeat_timeout: Duration::from_millis(timeout),
            ttl_timeout: Duration::from_millis(ttl),
            retry_interval: Duration::from_millis(retry),
        };
        match self {
            Profile::Lan => millis(500, 1_500, 4_500, 1_000),
            Profile::Documented => millis(10_000, 30_000, 90_000, 5_000),
            Profile::Test => millis(100, 300, 900, 200),
        }
    }
}

impl FromStr for Profile {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Profile, ConfigError> {
        let known = Profile::ALL.into_iter().find(|it| it.name() == text);
        known.ok_or_else(|| {
            ConfigError(format!("{text:?} is no profile: use lan, documented or test"))
        })
    }
}

/// Everything a member is told. All members of a cluster must agree on `cluster` and `nodes`, and
/// on the timers up to [`TIMER_RATIO_MAX`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// How many voters the cluster has in all; fixed for its life.
    pub nodes: u32,
    /// Where this member listens and how others name it.
    pub address: Address,
    /// A label for people.
    pub name: String,
    /// The cluster's name; members of another name are refused.
    pub cluster: String,
    /// Where to look for the cluster. A member whose own address is in the list is a seed.
    pub seeds: Vec<Address>,
    /// Who may vote, by hand. Without it the first `nodes` members that join do.
    pub voters: Option<Vec<Address>>,
    /// Whether this member never wants to vote.
    pub observer: bool,
    /// Whether a new cluster may come to be without an operator saying so ([`crate::Input::Found`]).
    pub found_by_itself: bool,
    /// The timers.
    pub timers: Timers,
}

/// The most voters of a cluster.
pub const NODES_MAX: u32 = 101;
/// The most seeds in a list.
pub const SEEDS_MAX: usize = 256;
/// The longest name of a member or a cluster.
pub const NAME_BYTES_MAX: usize = 128;
/// The longest of any timer: a day.
pub const TIMER_MAX: Duration = Duration::from_secs(86_400);
/// Two members may differ in a timer by this factor, but not by more.
pub const TIMER_RATIO_MAX: u32 = 8;

/// Why a configuration was refused, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// What two members compare when they greet, before anything else is said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConfigSummary {
    /// The cluster's name.
    pub cluster: String,
    /// How many voters it has.
    pub nodes: u32,
    /// The timers.
    pub timers: Timers,
}

impl Config {
    /// The one place where a configuration is refused; the first rule that fails is named.
    pub fn check(self) -> Result<Config, ConfigError> {
        let refuse = |why: String| Err(ConfigError(why));
        if self.nodes == 0 || self.nodes > NODES_MAX {
            return refuse(format!("nodes must be from 1 to {NODES_MAX}, got {}", self.nodes));
        }
        for (what, name) in [("name", &self.name), ("cluster", &self.cluster)] {
            if name.trim().is_empty() || name.len() > NAME_BYTES_MAX {
                return refuse(format!(
                    "{what} must have 1 to {NAME_BYTES_MAX} bytes and not be blank"
                ));
            }
        }
        if self.seeds.is_empty() || self.seeds.len() > SEEDS_MAX {
            let n_seeds = self.seeds.len();
            return refuse(format!("seeds must be 1 to {SEEDS_MAX} addresses, got {n_seeds}"));
        }
        self.timers.check()?;
        if let Some(voters) = &self.voters {
            let mut distinct = voters.clone();
            distinct.sort();
            distinct.dedup();
            if distinct.len() != self.nodes as usize || distinct.len() != voters.len() {
                let nodes = self.nodes;
                return refuse(format!(
                    "voters must be exactly {nodes} different addresses, as many as nodes"
                ));
            }
            if self.observer && voters.contains(&self.address) {
                return refuse("an observer cannot be in voters: drop one of the two".to_owned());
            }
        }
        Ok(self)
    }

    /// Whether this member is in its own list of seeds.
    pub fn is_seed(&self) -> bool {
        self.seeds.contains(&self.address)
    }

    /// How many votes decide: more than half of all voters, whether they live or not.
    pub fn quorum(&self) -> usize {
        self.nodes as usize / 2 + 1
    }

    /// What a greeting carries.
    pub fn summary(&self) -> ConfigSummary {
        ConfigSummary { cluster: self.cluster.clone(), nodes: self.nodes, timers: self.timers }
    }

    /// Whether this member may be in one cluster with `other`.
    pub fn fits(&self, other: &ConfigSummary) -> Result<(), ConfigError> {
        if other.cluster != self.cluster {
            let (theirs, ours) = (&other.cluster, &self.cluster);
            return Err(ConfigError(format!(
                "it belongs to the cluster {theirs:?}, this is {ours:?}: check its seeds"
            )));
        }
        if other.nodes != self.nodes {
            let (theirs, ours) = (other.nodes, self.nodes);
            return Err(ConfigError(format!(
                "it counts {theirs} nodes and we count {ours}: a majority of one is not one of the other"
            )));
        }
        for ((what, ours), (_, theirs)) in self.timers.named().into_iter().zip(other.timers.named())
        {
            let (less, more) = (ours.min(theirs), ours.max(theirs));
            if more > less * TIMER_RATIO_MAX {
                return Err(ConfigError(format!(
                    "{what} is {theirs:?} there and {ours:?} here: bring them closer than {TIMER_RATIO_MAX} to 1"
                )));
            }
        }
        if other.timers.ttl_timeout != self.timers.ttl_timeout {
            let (theirs, ours) = (other.timers.ttl_timeout, self.timers.ttl_timeout);
            return Err(ConfigError(format!(
                "ttl-timeout is {theirs:?} there and {ours:?} here: leases need the same everywhere"
            )));
        }
        Ok(())
    }
}

impl Timers {
    fn named(&self) -> [(&'static str, Duration); 4] {
        [
            ("heartbeat-interval", self.heartbeat_interval),
            ("heartbeat-timeout", self.heartbeat_timeout),
            ("ttl-timeout", self.ttl_timeout),
            ("retry-interval", self.retry_interval),
        ]
    }

    fn check(&self) -> Result<(), ConfigError> {
        for (what, span) in self.named() {
            if span < Duration::from_millis(1) || span > TIMER_MAX {
                return Err(ConfigError(format!(
                    "{what} must be from 1 ms to a day, got {span:?}"
                )));
            }
        }
        let Timers { heartbeat_interval, heartbeat_timeout, ttl_timeout, .. } = *self;
        if heartbeat_timeout > ttl_timeout {
            return Err(ConfigError(format!(
                "heartbeat-timeout {heartbeat_timeout:?} must not be above ttl-timeout {ttl_timeout:?}"
            )));
        }
        if heartbeat_interval * 20 >= ttl_timeout * 9 {
            return Err(ConfigError(format!(
                "two of heartbeat-interval {heartbeat_interval:?} must fit into 0.9 of ttl-timeout \
                 {ttl_timeout:?}, or no lease would last"
            )));
        }
        Ok(())
    }

    /// How long a lease lasts on the leader's clock after a voter's promise was asked for: short
    /// enough to end before the promise does if both clocks go wrong by 5 %.
    pub fn lease(&self) -> Duration {
        // (1 - 0.05) / (1 + 0.05) = 19/21.
        self.ttl_timeout * 19 / 21
    }

    /// How long a join may take on either side.
    pub fn join_deadline(&self) -> Duration {
        (self.heartbeat_interval * 2).max(self.retry_interval)
    }

    /// How long a seed is waited for when it is asked who leads.
    pub fn query_wait(&self) -> Duration {
        self.retry_interval.min(Duration::from_secs(1))
    }

    /// After so long without a word a member begins anew.
    pub fn reset_after(&self) -> Duration {
        self.ttl_timeout * 3
    }
}
