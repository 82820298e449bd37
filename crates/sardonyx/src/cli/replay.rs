//! `sardonyx replay`: the cluster's debugger.

use std::{
    fs,
    io::{self, BufRead, BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use sardonyx_core::{
    Command, Diff, Effect, Entry, JobScheduler, JoinProtocol, Outcome, PeerId, Position, Replica,
    apply, diff, rehearse::Rehearsal, respond, wire,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Failure;

/// Play a log and show the cluster after every entry.
///
/// Reads entries from stdin, one JSON object a line, and writes one JSON object a line: whether the
/// entry was applied or why it was rejected, the replica after it, and what changed.
#[derive(Args)]
#[command(after_help = "\
Example: who joins at whom?
  printf '%s\\n' '{\"id\":0,\"fn\":\"prepare-join-cluster\",\"args\":{\"joiner\":\"a\"}}' \\
                 '{\"id\":1,\"fn\":\"prepare-join-cluster\",\"args\":{\"joiner\":\"b\"}}' |
    sardonyx replay --settle

Exit code 2: a line or an option cannot be understood.")]
pub(crate) struct Replay {
    /// Also show what this peer says ("reactions") and does ("effects").
    #[arg(long = "as", value_name = "PEER", value_parser = peer_id)]
    me: Option<PeerId>,

    /// Start from the replica in this file, as `replay` prints it, instead of an empty cluster.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["join", "job_scheduler"])]
    origin: Option<PathBuf>,

    /// The join protocol of the empty cluster.
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    join: Option<Protocol>,

    /// The job scheduler of the empty cluster.
    #[arg(long, value_enum, value_name = "NAME")]
    job_scheduler: Option<Scheduler>,

    /// After each entry, play whatever the living peers say in answer, until nobody says anything;
    /// "said" lists it. Positions are then given in the order of playing, from the first entry's
    /// id on.
    #[arg(long)]
    settle: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Protocol {
    TwoPhase,
    ThreePhase,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scheduler {
    Greedy,
    RoundRobin,
    Percentage,
}

fn peer_id(text: &str) -> Result<PeerId, String> {
    PeerId::new(text).map_err(|why| why.to_string())
}

impl Replay {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut player = Player {
            rehearsal: self.settle.then(|| self.start().map(Rehearsal::new)).transpose()?,
            replica: self.start()?,
            me: self.me,
            next: None,
        };
        let mut out = BufWriter::new(io::stdout().lock());
        let mut last = None;
        for (index, line) in io::stdin().lock().lines().enumerate() {
            let number = index + 1;
            let line = line.map_err(|why| Failure::input(format!("line {number}: {why}")))?;
            if line.trim().is_empty() {
                continue;
            }
            let played = wire::entry_from_json(&line)
                .map_err(|why| why.to_string())
                .inspect(|entry| warn_if_out_of_order(number, &mut last, entry.position))
                .and_then(|entry| player.play(entry));
            match played {
                Ok(played) => out.write_all(played.as_bytes())?,
                Err(why) => {
                    // What was understood is shown before what was not.
                    out.flush()?;
                    return Err(Failure::input(format!("line {number}: {why}")));
                }
            }
        }
        Ok(out.flush()?)
    }

    fn start(&self) -> Result<Replica, Failure> {
        if let Some(path) = &self.origin {
            return read_origin(path);
        }
        let protocol = self.join.map(|it| match it {
            Protocol::TwoPhase => JoinProtocol::TwoPhase,
            Protocol::ThreePhase => JoinProtocol::ThreePhase,
        });
        let scheduler = self.job_scheduler.map(|it| match it {
            Scheduler::Greedy => JobScheduler::Greedy,
            Scheduler::RoundRobin => JobScheduler::RoundRobin,
            Scheduler::Percentage => JobScheduler::Percentage,
        });
        Ok(Replica::configured(protocol, scheduler))
    }
}

fn read_origin(path: &Path) -> Result<Replica, Failure> {
    let at = |why: &dyn std::fmt::Display| Failure::input(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|why| at(&why))?;
    wire::replica_from_json(&text).map_err(|why| at(&why))
}

fn warn_if_out_of_order(line: usize, last: &mut Option<Position>, position: Position) {
    if let Some(before) = *last
        && position <= before
    {
        eprintln!("sardonyx: line {line}: id {position} comes after {before}; ids should grow");
    }
    *last = Some(position);
}

struct Player {
    replica: Replica,
    /// Instead of `replica`, when the cluster is to settle after every entry.
    rehearsal: Option<Rehearsal>,
    me: Option<PeerId>,
    /// Where the next entry goes while settling.
    next: Option<Position>,
}

/// One line of output. The keys that depend on an option are left out without it.
#[derive(Serialize)]
struct Line<'a> {
    id: Position,
    applied: bool,
    rejected: Option<String>,
    replica: &'a Replica,
    diff: Diff,
    #[serde(skip_serializing_if = "Option::is_none")]
    reactions: Option<Vec<Box<RawValue>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effects: Option<Vec<Effect>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<Vec<Box<RawValue>>>,
}

impl Player {
    fn play(&mut self, entry: Entry) -> Result<String, String> {
        match self.rehearsal.take() {
            Some(rehearsal) => self.settle(rehearsal, entry),
            None => self.step(&entry),
        }
    }

    fn step(&mut self, entry: &Entry) -> Result<String, String> {
        let (new, outcome) = apply(&self.replica, entry);
        let old = std::mem::replace(&mut self.replica, new);
        let new = &self.replica;
        let response = self.me.as_ref().map(|me| respond(entry, &outcome, &old, new, me));
        let (reactions, effects) =
            response.map(|it| (raw_commands(&it.commands), it.effects)).unzip();
        Line { reactions, effects, ..Line::new(entry.position, &outcome, &old, new) }.write()
    }

    fn settle(&mut self, mut rehearsal: Rehearsal, entry: Entry) -> Result<String, String> {
        let old = rehearsal.replica().clone();
        let position = self.next.unwrap_or(entry.position);
        let settled = rehearsal
            .settle(position, entry.command, self.me.as_ref())
            .map_err(|why| why.to_string())?;
        self.next = Some(Position(position.0 + 1 + settled.said.len() as u64));
        let said = settled.said.iter().map(|(entry, _)| raw(wire::entry_to_json(entry))).collect();
        let asked = self.me.is_some();
        let line = Line {
            reactions: asked.then(|| raw_commands(&settled.reactions)),
            effects: asked.then_some(settled.effects),
            said: Some(said),
            ..Line::new(entry.position, &settled.outcome, &old, rehearsal.replica())
        };
        let text = line.write();
        self.rehearsal = Some(rehearsal);
        text
    }
}

impl<'a> Line<'a> {
    fn new(id: Position, outcome: &Outcome, old: &Replica, new: &'a Replica) -> Line<'a> {
        Line {
            id,
            applied: outcome.is_ok(),
            rejected: outcome.as_ref().err().map(ToString::to_string),
            replica: new,
            diff: diff(old, new),
            reactions: None,
            effects: None,
            said: None,
        }
    }

    fn write(&self) -> Result<String, String> {
        let text = serde_json::to_string(self).map_err(|why| why.to_string())?;
        Ok(text + "\n")
    }
}

fn raw_commands(commands: &[Command]) -> Vec<Box<RawValue>> {
    commands.iter().map(|command| raw(wire::command_to_json(command))).collect()
}

/// JSON that is written already.
fn raw(json: String) -> Box<RawValue> {
    RawValue::from_string(json).unwrap_or_default()
}
