//! What always holds in a ledger. Checked after operations wherever the suite runs.

use std::collections::BTreeMap;

use super::Ledger;
use crate::message::QueueName;

impl<B> Ledger<B> {
    /// The first law that does not hold, in words.
    pub(crate) fn broken_law(&self) -> Option<String> {
        self.conservation().or_else(|| self.fencing())
    }

    /// DP-4: enqueued = ready + in flight + acked, and the counters are what they count.
    fn conservation(&self) -> Option<String> {
        let mut flights: BTreeMap<&QueueName, (u64, u64)> = BTreeMap::new();
        for flight in self.sessions.values().flat_map(|session| session.in_flight.values()) {
            let (n, bytes) = flights.entry(&flight.queue).or_default();
            (*n, *bytes) = (*n + 1, *bytes + flight.message.bytes);
        }
        for (name, queue) in &self.queues {
            let (n_in_flight, flying) = flights.remove(name).unwrap_or_default();
            let ready = || queue.ready.values().flat_map(BTreeMap::values);
            let n_ready = ready().count() as u64;
            let bytes = ready().map(|message| message.bytes).sum::<u64>() + flying;
            if queue.ready.values().any(BTreeMap::is_empty) {
                return Some(format!("{name} keeps an empty lane"));
            }
            if (n_ready, n_in_flight, bytes) != (queue.n_ready, queue.n_in_flight, queue.bytes) {
                return Some(format!("{name} counts wrongly"));
            }
            if queue.n_enqueued != n_ready + n_in_flight + queue.n_acked {
                let (enqueued, acked) = (queue.n_enqueued, queue.n_acked);
                return Some(format!(
                    "{name}: {enqueued} enqueued, {n_ready} ready, {n_in_flight} in flight, \
                     {acked} acked"
                ));
            }
        }
        flights
            .keys()
            .next()
            .map(|name| format!("a message of {name}, which is gone, is in flight"))
    }

    /// Sessions are of owners on the roster, one each, and hold only partitions that are theirs.
    fn fencing(&self) -> Option<String> {
        for (id, session) in &self.sessions {
            let task = self.tasks.get(&session.place);
            if task.and_then(|task| task.sessions.get(&session.owner)) != Some(id) {
                return Some(format!("{id:?} is not its owner's session"));
            }
            let Some(roster) = task.and_then(|task| task.roster.as_ref()) else {
                return Some(format!("{id:?} has no roster"));
            };
            if !roster.owners.contains(&session.owner) {
                return Some(format!("{id:?} is of {:?}, who left", session.owner));
            }
            let partitions = session.in_flight.values().filter_map(|flight| flight.lane);
            for partition in partitions {
                if roster.owner_of(partition) != Some(&session.owner) {
                    return Some(format!("{id:?} holds partition {partition}, which moved"));
                }
            }
        }
        None
    }
}
