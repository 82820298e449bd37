//! The store of the simulated world: a log with tokens, pulses with sessions, watches, an origin.

use std::collections::{BTreeMap, BTreeSet};

use sardonyx_core::{
    Command, Entry, JobId, Outcome, PeerId, Position, Replica, apply,
    command::JobText,
    laws,
    mutant::{self, Mutant},
};

/// Who is connected: a process and which of its lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SessionId {
    pub(crate) process: usize,
    pub(crate) boot: u32,
}

/// An append, by which a repeated one is recognised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Token(pub(crate) u64);

pub(crate) struct Store {
    /// What was appended, and whether it is new or a copy. Readers begin at `trimmed`.
    log: Vec<(bool, Entry)>,
    trimmed: usize,
    origin: Option<(Position, Replica)>,
    /// The jobs that were put aside, and where each job stands in the log.
    pub(crate) texts: BTreeMap<JobId, JobText>,
    submitted: BTreeMap<JobId, Position>,
    /// The cluster after each entry that is no copy, as anybody who plays the log computes it.
    pub(crate) history: BTreeMap<Position, Replica>,
    pub(crate) replica: Replica,
    /// After how many entries the laws are checked and the cluster is kept.
    pub(crate) check_every: u64,
    tokens: BTreeSet<Token>,
    pub(crate) pulses: BTreeMap<PeerId, SessionId>,
    pub(crate) watches: BTreeMap<PeerId, BTreeSet<SessionId>>,
    pub(crate) expired: BTreeSet<SessionId>,
}

/// What a reader finds.
pub(crate) enum Read {
    Entries(Vec<Entry>),
    /// What it wanted is gone; it may go on from here.
    Origin(Position, Replica),
}

impl Store {
    pub(crate) fn new() -> Store {
        Store {
            log: Vec::new(),
            trimmed: 0,
            origin: None,
            texts: BTreeMap::new(),
            submitted: BTreeMap::new(),
            history: BTreeMap::new(),
            replica: Replica::new(),
            check_every: 1,
            tokens: BTreeSet::new(),
            pulses: BTreeMap::new(),
            watches: BTreeMap::new(),
            expired: BTreeSet::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.log.len()
    }

    /// Appends, unless it is a copy: then it takes a place in the log that readers pass over.
    /// Returns the entry, and what became of it if it was new.
    pub(crate) fn append(
        &mut self,
        token: Token,
        command: Command,
    ) -> Result<(Entry, Option<Outcome>), laws::Broken> {
        let entry = Entry { position: Position(self.log.len() as u64), command };
        let is_new = self.tokens.insert(token);
        self.log.push((is_new, entry.clone()));
        if !is_new {
            return Ok((entry, None));
        }
        let (next, outcome) = apply(&self.replica, &entry);
        if let (Command::SubmitJob(it), Ok(())) = (&entry.command, &outcome) {
            self.submitted.insert(it.id.clone(), entry.position);
        }
        if entry.position.0.is_multiple_of(self.check_every) {
            laws::check(&next)?;
            self.history.insert(entry.position, next.clone());
        }
        self.replica = next;
        Ok((entry, Some(outcome)))
    }

    /// The command that was appended so many entries ago.
    pub(crate) fn command_back(&self, back: usize) -> Option<Command> {
        let (_, entry) = self.log.iter().rev().nth(back)?;
        Some(entry.command.clone())
    }

    /// Up to `most` entries from the place `at` on; also says where to read on.
    pub(crate) fn read(&self, at: usize, most: usize) -> (Read, usize) {
        if at < self.trimmed
            && let Some((position, replica)) = &self.origin
        {
            return (Read::Origin(*position, replica.clone()), position.0 as usize + 1);
        }
        let at = at.max(self.trimmed);
        let until = self.log.len().min(at + most);
        let fresh = self.log[at..until].iter().filter(|(is_new, _)| *is_new);
        (Read::Entries(fresh.map(|(_, entry)| entry.clone()).collect()), until)
    }

    /// Stores an origin, unless a later one is there.
    pub(crate) fn set_origin(&mut self, position: Position, replica: &Replica) -> bool {
        let is_later = self.origin.as_ref().is_none_or(|(at, _)| *at < position);
        let is_taken = is_later || mutant::is_on(Mutant::OlderOriginWins);
        if is_taken {
            self.origin = Some((position, replica.clone()));
        }
        is_taken
    }

    /// Forgets the entries before the origin.
    pub(crate) fn trim(&mut self) {
        if let Some(position) = self.origin.as_ref().map(|(position, _)| *position) {
            self.forget_until(position);
        }
    }

    pub(crate) fn forget_until(&mut self, position: Position) {
        self.trimmed = self.trimmed.max(position.0 as usize + 1);
    }

    /// Whoever begins to read finds an origin, every entry behind it, and every unfinished job. Holds
    /// whenever somebody who trims may die.
    pub(crate) fn can_be_begun(&self) -> Result<(), String> {
        let origin = self.origin.as_ref().map(|(position, _)| *position);
        let behind = origin.map_or(0, |position| position.0 as usize + 1);
        if behind < self.trimmed {
            let (from, to) = (behind, self.trimmed);
            return Err(format!("whoever begins finds a beginning: {from} to {to} are gone"));
        }
        let is_before = |job: &JobId| self.submitted.get(job).copied() <= origin;
        let mut live = self.replica.jobs().filter(|job| job.is_live()).map(|job| job.id());
        let lost = live.find(|job| is_before(job) && !self.texts.contains_key(*job));
        match lost {
            Some(job) => Err(format!("whoever begins knows every job: {job} is not put aside")),
            None => Ok(()),
        }
    }

    /// How many entries there are since the last `gc`, copies left out.
    pub(crate) fn since_gc(&self) -> usize {
        let fresh = self.log.iter().rev().filter(|(is_new, _)| *is_new);
        fresh.take_while(|(_, entry)| !matches!(entry.command, Command::Gc(_))).count()
    }

    /// Whether nothing was appended under the token yet.
    pub(crate) fn is_new(&self, token: Token) -> bool {
        !self.tokens.contains(&token)
    }

    /// Ends a session: its pulses are gone. Returns who has to be told of which.
    pub(crate) fn expire(&mut self, session: SessionId) -> Vec<(SessionId, PeerId)> {
        self.expired.insert(session);
        let ended = self.pulses.iter().filter(|(_, owner)| **owner == session);
        let ended: Vec<_> = ended.map(|(peer, _)| peer.clone()).collect();
        ended.iter().flat_map(|peer| self.end_pulse(peer)).collect()
    }

    pub(crate) fn end_pulse(&mut self, peer: &PeerId) -> Vec<(SessionId, PeerId)> {
        self.pulses.remove(peer);
        let watchers = self.watches.remove(peer).unwrap_or_default();
        watchers.into_iter().map(|watcher| (watcher, peer.clone())).collect()
    }
}
