//! The log, played entry by entry from where it begins: after every entry every law, and what the
//! simulator checks; and what is over stays over.

use std::collections::{BTreeMap, BTreeSet};

use sardonyx_core::{
    Command, Entry, JobId, PeerId, Position, Replica, TaskId, laws, replica::job::JobOutcome, wire,
};
use serde_json::{Value, json};

use super::twins;

/// What a reader of the log was handed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// The cluster from which to go on: at the beginning, or because entries had been trimmed.
    Origin(Position, Box<Replica>),
    /// An entry.
    Entry(Box<Entry>),
    /// An entry that could not be read.
    Unreadable(Position, String),
}

impl Line {
    /// As it is written down.
    pub fn to_text(&self) -> String {
        match self {
            Line::Origin(at, replica) => {
                let replica = wire::replica_to_json(replica);
                json!({"origin": at.0, "replica": replica}).to_string()
            }
            Line::Entry(entry) => wire::entry_to_json(entry),
            Line::Unreadable(at, why) => json!({"unreadable": at.0, "why": why}).to_string(),
        }
    }

    /// What was written down.
    pub fn parse(text: &str) -> Result<Line, String> {
        let value: Value = serde_json::from_str(text).map_err(|why| format!("{text}: {why}"))?;
        if let Some(at) = value["origin"].as_u64() {
            let text = value["replica"].as_str().unwrap_or_default();
            let replica = wire::replica_from_json(text).map_err(|why| why.to_string())?;
            return Ok(Line::Origin(Position(at), Box::new(replica)));
        }
        if let Some(at) = value["unreadable"].as_u64() {
            let why = value["why"].as_str().unwrap_or_default().to_owned();
            return Ok(Line::Unreadable(Position(at), why));
        }
        let entry = wire::entry_from_json(text).map_err(|why| format!("{text}: {why}"))?;
        Ok(Line::Entry(Box::new(entry)))
    }
}

/// What playing the log came to.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// The cluster at the end.
    pub replica: Replica,
    /// The last entry's position.
    pub position: Option<Position>,
    /// How many entries there were.
    pub n_entries: u64,
    /// How many of them changed nothing.
    pub n_rejected: u64,
    /// How many of each command were taken.
    pub taken: BTreeMap<&'static str, u64>,
    /// How often entries had been trimmed before they were read.
    pub n_jumps: u64,
    /// The cluster after the entries that were asked for.
    pub at: BTreeMap<Position, Replica>,
    /// What is wrong.
    pub broken: Vec<String>,
    left: BTreeSet<PeerId>,
    ended: BTreeMap<JobId, JobOutcome>,
    completed: BTreeSet<(JobId, TaskId)>,
}

impl Played {
    /// Plays one line more; `wanted` are positions at which the cluster is kept.
    pub fn play(&mut self, line: &Line, wanted: &BTreeSet<Position>) {
        match line {
            Line::Origin(at, replica) => self.origin(*at, replica),
            Line::Unreadable(at, why) => self.broken.push(format!("entry {at}: {why}")),
            Line::Entry(entry) => self.entry(entry),
        }
        if let Some(at) = self.position.filter(|at| wanted.contains(at)) {
            self.at.insert(at, self.replica.clone());
        }
    }

    fn origin(&mut self, at: Position, replica: &Replica) {
        if let Err(broken) = laws::check(replica) {
            self.broken.push(format!("origin at {at}: {broken}"));
        }
        match self.position {
            Some(last) if last > at => {
                self.broken.push(format!("an origin at {at}, after entry {last} was read"));
            }
            Some(last) if last == at && self.replica != *replica => {
                self.broken.push(format!("the origin at {at} is another cluster than was played"));
            }
            Some(last) => self.n_jumps += u64::from(last != at),
            None => {}
        }
        (self.replica, self.position) = (replica.clone(), Some(at));
    }

    fn entry(&mut self, entry: &Entry) {
        let at = entry.position;
        if let Some(last) = self.position.filter(|last| *last >= at) {
            self.broken.push(format!("entry {at} was read after entry {last}"));
        }
        self.position = Some(at);
        self.n_entries += 1;
        let leaves = if let Command::LeaveCluster(args) = &entry.command {
            Some(args.peer.clone()).filter(|peer| self.replica.is_member(peer))
        } else {
            None
        };
        let old = self.replica.clone();
        let outcome = self.replica.play(entry);
        let lawful = laws::check(&self.replica).map_err(|broken| broken.to_string());
        let checked = lawful.and_then(|()| twins::check(entry, &outcome, &old, &self.replica));
        if let Err(broken) = checked {
            self.broken.push(format!("after entry {at} ({}): {broken}", entry.command.name()));
        }
        if outcome.is_err() {
            self.n_rejected += 1;
            return;
        }
        *self.taken.entry(entry.command.name()).or_default() += 1;
        self.left.extend(leaves);
        self.stays_over(entry);
    }

    /// Who left does not come back under its id, what is completed is completed once, and a job that
    /// ended ends in no other way.
    fn stays_over(&mut self, entry: &Entry) {
        let at = entry.position;
        if let Command::PrepareJoinCluster(args) = &entry.command
            && self.left.contains(&args.joiner)
        {
            self.broken.push(format!("entry {at}: {} left, and joins again", args.joiner));
        }
        if let Command::CompleteTask(args) = &entry.command
            && !self.completed.insert((args.job.clone(), args.task.clone()))
        {
            self.broken.push(format!("entry {at}: {} of {} ends twice", args.task, args.job));
        }
        if let Command::CompleteTask(_) | Command::KillJob(_) | Command::Gc(_) = &entry.command {
            let jobs = self.replica.jobs().filter_map(|job| Some((job.id(), job.outcome()?)));
            for (job, outcome) in jobs.chain(self.replica.outcomes()) {
                let first = *self.ended.entry(job.clone()).or_insert(outcome);
                if first != outcome {
                    self.broken.push(format!("entry {at}: {job} was {first:?}, now {outcome:?}"));
                }
            }
        }
    }

    /// How a job ended, if it has.
    pub fn outcome(&self, job: &JobId) -> Option<JobOutcome> {
        let found = self.replica.job(job).and_then(|job| job.outcome());
        found.or_else(|| self.replica.outcome(job)).or_else(|| self.ended.get(job).copied())
    }
}

/// Plays all that was written down.
pub fn judge(lines: &[Line], wanted: &BTreeSet<Position>) -> Played {
    let mut played = Played::default();
    lines.iter().for_each(|line| played.play(line, wanted));
    played
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line::parse(text).expect("a line")
    }

    fn joins(at: u64, peer: &str) -> Line {
        line(&format!(r#"{{"id":{at},"fn":"prepare-join-cluster","args":{{"joiner":"{peer}"}}}}"#))
    }

    fn leaves(at: u64, peer: &str) -> Line {
        line(&format!(r#"{{"id":{at},"fn":"leave-cluster","args":{{"peer":"{peer}"}}}}"#))
    }

    fn broken(lines: &[Line]) -> Vec<String> {
        judge(lines, &BTreeSet::new()).broken
    }

    #[test]
    fn an_ordinary_log_is_well() {
        let lines = [joins(0, "a"), leaves(1, "a"), joins(3, "b")];
        let played = judge(&lines, &BTreeSet::from([Position(1)]));
        assert_eq!(played.broken, [""; 0]);
        assert_eq!((played.n_entries, played.n_rejected), (3, 0));
        assert_eq!(played.at[&Position(1)].n_peers(), 0);
        assert_eq!(played.replica.n_peers(), 1);
    }

    #[test]
    fn an_entry_read_twice_or_out_of_order_is_found() {
        assert_eq!(broken(&[joins(0, "a"), joins(0, "a")]).len(), 1);
        assert_eq!(broken(&[joins(5, "a"), joins(4, "b")]).len(), 1);
    }

    #[test]
    fn who_comes_back_under_its_old_id_is_found() {
        assert_eq!(broken(&[joins(0, "a"), leaves(1, "a"), joins(2, "a")]).len(), 1);
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_found() {
        assert_eq!(broken(&[Line::Unreadable(Position(3), "noise".into())]).len(), 1);
    }

    #[test]
    fn an_origin_that_is_another_cluster_is_found() {
        let mut cluster = Replica::new();
        let Line::Entry(entry) = joins(0, "a") else { return };
        assert!(cluster.play(&entry).is_ok());
        let right = Line::Origin(Position(0), Box::new(cluster));
        let wrong = Line::Origin(Position(0), Box::new(Replica::new()));
        let late = Line::Origin(Position(0), Box::new(Replica::new()));
        assert_eq!(broken(&[joins(0, "a"), right.clone()]), [""; 0]);
        assert_eq!(broken(&[joins(0, "a"), wrong]).len(), 1);
        assert_eq!(broken(&[joins(0, "a"), joins(1, "b"), late]).len(), 1);
        assert_eq!(Line::parse(&right.to_text()), Ok(right));
    }

    /// The core never completes a task twice; a log that was replaced behind our back may.
    #[test]
    fn a_task_that_ends_twice_is_found() {
        let job = r#"{"peers":["a"],"jobs":[{"id":"j","state":"running","tasks":["t","u"],
            "allocations":{"t":["a"],"u":[]},"sealing":{"t":"a"}}]}"#;
        let origin = |at: u64| {
            let replica = wire::replica_from_json(job).expect("a replica");
            Line::Origin(Position(at), Box::new(replica))
        };
        let ends = |at: u64| {
            let args = r#"{"peer":"a","job":"j","task":"t"}"#;
            line(&format!(r#"{{"id":{at},"fn":"complete-task","args":{args}}}"#))
        };
        assert_eq!(broken(&[origin(1), ends(2)]), [""; 0]);
        let twice = judge(&[origin(1), ends(2), origin(5), ends(6)], &BTreeSet::new());
        assert_eq!((twice.broken.len(), twice.n_jumps), (1, 1), "{:?}", twice.broken);
    }

    #[test]
    fn a_job_that_ends_in_two_ways_is_found() {
        let with = |outcome: &str| {
            let text = format!(r#"{{"outcomes":{{"j":"{outcome}"}}}}"#);
            Box::new(wire::replica_from_json(&text).expect("a replica"))
        };
        let gc = |at: u64| line(&format!(r#"{{"id":{at},"fn":"gc","args":{{"caller":"c"}}}}"#));
        let same = [
            Line::Origin(Position(1), with("completed")),
            gc(2),
            Line::Origin(Position(5), with("completed")),
            gc(6),
        ];
        assert_eq!(broken(&same), [""; 0]);
        let other = [same[0].clone(), gc(2), Line::Origin(Position(5), with("killed")), gc(6)];
        assert_eq!(broken(&other).len(), 1);
    }
}
