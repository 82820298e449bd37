//! One printer: how replicas, commands and effects look to a person. Tests, the command line and
//! the logs all show the same.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use core::fmt;

use crate::{
    command::{Command, Entry},
    effect::Effect,
    id::PeerId,
    replica::{Phase, Replica},
};

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = |between: &str, pairs: BTreeMap<&PeerId, &PeerId>| {
            let pairs = pairs.into_iter().map(|(from, to)| format!("{from}{between}{to}"));
            pairs.collect::<Vec<_>>().join(" ")
        };
        match self.n_peers() {
            0 => write!(f, "nobody")?,
            1 => self.peers().try_for_each(|peer| write!(f, "{peer}"))?,
            _ => write!(f, "{}", pairs(">", self.pairs().collect()))?,
        }
        for (title, phase) in [("prepared", Phase::Prepared), ("accepted", Phase::Accepted)] {
            let joins = self.joins_in(phase);
            if !joins.is_empty() {
                write!(f, "  {title} {}", pairs(":", joins))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        match self {
            Command::ConfigureCluster(it) => {
                let protocol = it.join_protocol.map(|it| format!("join-protocol={it}"));
                let scheduler = it.job_scheduler.map(|it| format!("job-scheduler={it}"));
                let peers_max = it.peers_max.map(|it| format!("peers-max={it}"));
                let options = [protocol, scheduler, peers_max].into_iter().flatten();
                let options: String = options.map(|option| format!(" {option}")).collect();
                write!(f, "{options}")
            }
            Command::PrepareJoinCluster(it) => write!(f, " {}", it.joiner),
            Command::NotifyJoinCluster(it) => {
                write!(f, " {} observer={} subject={}", it.joiner, it.observer, it.subject)
            }
            Command::NotifyWatchers(it) => {
                write!(f, " {} observer={} subject={}", it.joiner, it.observer, it.subject)
            }
            Command::AcceptJoinCluster(it) => {
                write!(f, " {} observer={} subject={}", it.joiner, it.observer, it.subject)
            }
            Command::AbortJoinCluster(it) => write!(f, " {}", it.joiner),
            Command::LeaveCluster(it) => write!(f, " {}", it.peer),
            Command::PeerGc(it) => write!(f, " {}", it.peer),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.position, self.command)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Watch(peer) => write!(f, "watch {peer}"),
            Effect::Unwatch(peer) => write!(f, "unwatch {peer}"),
            Effect::Probe(peer) => write!(f, "probe {peer}"),
            Effect::BackOff => write!(f, "back off"),
            Effect::Stop => write!(f, "stop"),
        }
    }
}
