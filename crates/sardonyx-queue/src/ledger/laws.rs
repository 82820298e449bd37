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

#[cfg(test)]
mod tests {
    use crate::{
        ledger::{Entries, Ledger, Sending, SessionId, Wakes},
        message::QueueName,
        session::{Owner, Place, Roster},
    };

    fn queue() -> QueueName {
        QueueName { job: "j".into(), task: "t".into(), from: "u".into() }
    }

    /// Three messages in partition 0, of which one is in flight and one acknowledged.
    fn ledger() -> (Ledger<()>, SessionId) {
        let place = Place { job: "j".into(), task: "t".into() };
        let owner = Owner { peer: "p".into(), epoch: 1 };
        let (mut ledger, mut wakes) = (Ledger::default(), Wakes::default());
        let roster = Roster { at: 1, owners: vec![owner.clone()] };
        ledger.announce(&place, &roster, &mut wakes);
        let session = ledger.open(&place, &owner, &mut wakes).unwrap();
        let sending = Sending { queue: queue(), lane: Some(0), bytes: 5, body: () };
        let empty = Entries {
            holds: Vec::new(),
            acks: Vec::new(),
            sends: Vec::new(),
            puts: Vec::new(),
            expects: Vec::new(),
        };
        let sends = Entries { sends: vec![sending; 3], ..empty.clone() };
        ledger.commit(session, sends, 0, &mut wakes).unwrap();
        let held = ledger.receive(session, 2).unwrap();
        let acks = Entries { acks: vec![held[0].receipt], ..empty };
        ledger.commit(session, acks, 0, &mut wakes).unwrap();
        assert_eq!(ledger.broken_law(), None);
        (ledger, session)
    }

    fn complaint(disturb: impl FnOnce(&mut Ledger<()>, SessionId)) -> String {
        let (mut ledger, session) = ledger();
        disturb(&mut ledger, session);
        ledger.broken_law().expect("a law notices")
    }

    #[test]
    fn every_law_can_be_broken() {
        let of = |disturb: fn(&mut super::super::Queue<()>)| {
            complaint(|ledger, _| disturb(ledger.queues.get_mut(&queue()).unwrap()))
        };
        assert!(of(|queue| queue.n_acked = 9).contains("9 acked"));
        assert!(of(|queue| queue.n_ready = 9).contains("counts wrongly"));
        assert!(of(|queue| queue.n_in_flight = 9).contains("counts wrongly"));
        assert!(of(|queue| queue.bytes = 9).contains("counts wrongly"));
        assert!(of(|queue| queue.ready.entry(Some(7)).or_default().clear()).contains("empty lane"));
        // A message that is lost on the way, and one that is doubled.
        let lost = complaint(|ledger, id| {
            ledger.sessions.get_mut(&id).unwrap().in_flight.clear();
        });
        assert!(lost.contains("counts wrongly"), "{lost}");
        let gone = complaint(|ledger, _| drop(ledger.queues.remove(&queue())));
        assert!(gone.contains("which is gone"), "{gone}");
        let left = complaint(|ledger, _| {
            let task = ledger.tasks.values_mut().next().unwrap();
            task.roster = Some(Roster { at: 2, owners: Vec::new() });
        });
        assert!(left.contains("who left"), "{left}");
        let second = complaint(|ledger, _| {
            ledger.tasks.values_mut().next().unwrap().sessions.clear();
        });
        assert!(second.contains("not its owner's"), "{second}");
        let moved = complaint(|ledger, _| {
            let task = ledger.tasks.values_mut().next().unwrap();
            let mut owners = vec![Owner { peer: "q".into(), epoch: 2 }];
            owners.extend(task.roster.take().unwrap().owners);
            task.roster = Some(Roster { at: 2, owners });
        });
        assert!(moved.contains("which moved"), "{moved}");
    }
}
