//! Sealing: all input has ended, nothing is in flight, and the right to say so is ours.
//!
//! Groups are emitted partition by partition, from what is committed, whoever computed it; each in a
//! transaction that happens once. Then the sentinels go downstream, once. A sealer that dies half-way
//! is followed by another, which finds out how far it came.

use bytes::Bytes;
use sardonyx_queue::{Body, Outgoing, Owner, Refused, Roster, Session, Transaction};

use super::{End, Task};
use crate::{
    mutant::{self, Mutant},
    registry::Kind,
    spy::Phase,
    worker::PART,
};

const SEALED: &str = "sealed";

/// How many parts are forgotten at once; one of them that has changed keeps the others of its time.
const FORGOTTEN_MAX: usize = 32;

impl Task {
    pub(super) async fn seal(&self, session: &Session) -> Result<(), End> {
        if let Some(grouping) = &self.order.blueprint.grouping {
            for partition in 0..grouping.partitions() {
                self.emit(session, partition).await?;
            }
        }
        if self.order.blueprint.kind == Kind::Output {
            self.finish(session).await?;
        }
        let sentinel =
            |queue| Outgoing { queue, partition: None, body: Body::Sentinel(self.sentinel()) };
        let last = Transaction {
            sends: self.egress().into_iter().map(sentinel).collect(),
            puts: vec![(SEALED.into(), Some(Bytes::new()))],
            expects: vec![(SEALED.into(), None)],
            ..Transaction::default()
        };
        once(session.commit(last).await)?;
        self.saw(Phase::Seal);
        Ok(())
    }

    /// What the groups of a partition came to, sent on; once.
    async fn emit(&self, session: &Session, partition: u16) -> Result<(), End> {
        let key = format!("emitted/{partition:05}");
        let again = mutant::is_on(Mutant::EmitAgain);
        if !again && session.get(&key).await?.is_some() {
            return Ok(());
        }
        let mut worker = self.worker(0)?;
        self.load(session, &mut worker, partition).await?;
        let (sends, counts) =
            self.desk.run(move || worker.emit_all()).await?.map_err(End::Failed)?;
        let (head, prefix) = crate::worker::Worker::state_keys(partition);
        let mut puts = vec![(key.clone(), Some(Bytes::new()))];
        if !again {
            puts.push((head, None));
            let saved = session.scan(&prefix).await?;
            puts.extend(saved.into_iter().map(|(key, _)| (key, None)));
        }
        let expects = if again { Vec::new() } else { vec![(key, None)] };
        let emission = Transaction { sends, puts, expects, ..Transaction::default() };
        if once(session.commit(emission).await)? {
            self.count(&counts);
        }
        Ok(())
    }

    /// The parts of an output become one.
    async fn finish(&self, session: &Session) -> Result<(), End> {
        let parts = self.parts(session).await?;
        let output = self.engine.registry.make_output(&self.order.blueprint.terms);
        let output = output.map_err(End::Failed)?;
        self.desk.run(move || output.finish(&parts)).await?.map_err(End::Failed)
    }

    /// Parts whose sessions are over may show what they committed. Ours are, but for the one that we have
    /// now. Of the others over is who is not among the owners, unless it was given the task later than
    /// we know of: the queues may let us in on an older roster than somebody else's.
    pub(super) async fn recover(
        &self,
        session: &Session,
        n_session: u32,
        roster: &Roster,
    ) -> Result<(), End> {
        let ours = self.part(n_session);
        let others = roster.owners.iter().filter(|owner| **owner != self.order.owner);
        let alive: Vec<String> = others.map(part_prefix).collect();
        let later = epoch_prefix(roster.at + 1);
        let mut parts = self.parts(session).await?;
        parts.retain(|(part, _)| {
            let is_alive = *part == ours || alive.iter().any(|prefix| part.starts_with(prefix));
            *part < later && !is_alive
        });
        if parts.is_empty() {
            return Ok(());
        }
        let output = self.engine.registry.make_output(&self.order.blueprint.terms);
        let output = output.map_err(End::Failed)?;
        let done = parts.clone();
        let recover = move || output.recover(&parts).map(|()| output.forgets());
        if self.desk.run(recover).await?.map_err(End::Failed)? {
            for parts in done.chunks(FORGOTTEN_MAX) {
                let key = |part: &str| format!("{PART}{part}");
                let puts = parts.iter().map(|(part, _)| (key(part), None)).collect();
                // Only what was recovered: queues may have told us less than was committed. Of what is
                // different by now whoever recovers next is told again.
                let expects =
                    parts.iter().map(|(part, is)| (key(part), Some(is.clone()))).collect();
                let forget = Transaction { puts, expects, ..Transaction::default() };
                once(session.commit(forget).await)?;
            }
        }
        Ok(())
    }

    /// What each part committed last, as far as it is still to be remembered.
    async fn parts(&self, session: &Session) -> Result<Vec<(String, Bytes)>, End> {
        let mut parts = session.scan(PART).await?;
        for (key, _) in &mut parts {
            *key = key.strip_prefix(PART).unwrap_or(key).to_owned();
        }
        Ok(parts)
    }

    /// The name of what a session of ours writes.
    pub(super) fn part(&self, n_session: u32) -> String {
        format!("{}{n_session}", part_prefix(&self.order.owner))
    }

    /// The name of the sentinels that this owner sends.
    pub(super) fn sentinel(&self) -> String {
        format!("{}@{}", self.order.owner.peer, self.order.owner.epoch)
    }
}

/// Whether it happened now. That it has happened before is as good.
fn once(committed: Result<(), Refused>) -> Result<bool, End> {
    match committed {
        Ok(()) => Ok(true),
        Err(Refused::Changed(_)) => Ok(false),
        Err(refused) => Err(refused.into()),
    }
}

/// With what the names of all parts of an owner begin. They sort by when it was given the task.
fn part_prefix(owner: &Owner) -> String {
    format!("{}{}-", epoch_prefix(owner.epoch), owner.peer)
}

/// The least name of all parts whose owners were given the task at an entry.
fn epoch_prefix(epoch: u64) -> String {
    format!("{epoch:016x}-")
}
