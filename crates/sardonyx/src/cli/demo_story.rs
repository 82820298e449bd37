//! What happened to the cluster while the demo ran, as the log tells it.
//!
//! Pure: entries in, rings and phases out. What is shown is what every peer computes, not what the
//! demo believes it did.

use std::collections::BTreeMap;

use sardonyx_core::{Entry, PeerId, Replica};

/// How many entries about the ring are kept for the end.
const KEPT_MAX: usize = 64;

/// The cluster, and the loss of a peer.
#[derive(Debug, Default)]
pub(super) struct Story {
    replica: Replica,
    loss: Option<Loss>,
}

/// A peer was cut off.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    pub(super) victim: PeerId,
    /// What it ran: task and job.
    pub(super) ran: Option<(String, String)>,
    pub(super) before: Vec<String>,
    /// The ring without it, once the log says that it is gone.
    pub(super) without: Option<Vec<String>>,
    /// The ring when it has as many peers as before.
    pub(super) after: Option<Vec<String>>,
    /// What was said about the ring from then on until it was whole again.
    pub(super) entries: Vec<Entry>,
}

impl Story {
    /// The cluster now.
    pub(super) fn replica(&self) -> &Replica {
        &self.replica
    }

    /// What became of the peer that was cut off.
    pub(super) fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }

    /// Begins at an origin.
    pub(super) fn begin(&mut self, replica: Replica) {
        self.replica = replica;
    }

    /// `victim` is about to be cut off.
    pub(super) fn lose(&mut self, victim: PeerId) {
        let ran = self.replica.assignment(&victim);
        let ran = ran.map(|it| (it.task.to_string(), it.job.to_string()));
        let before = ring(&self.replica);
        let (without, after, entries) = (None, None, Vec::new());
        self.loss = Some(Loss { victim, ran, before, without, after, entries });
    }

    /// Plays the next entry.
    pub(super) fn play(&mut self, entry: Entry) {
        let is_applied = self.replica.play(&entry).is_ok();
        let Some(loss) = &mut self.loss else { return };
        if loss.after.is_some() || !is_applied {
            return;
        }
        if entry.command.is_about_joining() && loss.entries.len() < KEPT_MAX {
            loss.entries.push(entry);
        }
        if loss.without.is_none() && !self.replica.is_member(&loss.victim) {
            loss.without = Some(ring(&self.replica));
        }
        if loss.without.is_some() && self.replica.n_peers() == loss.before.len() {
            loss.after = Some(ring(&self.replica));
        }
    }
}

/// The peers in the order in which each watches the next, from the oldest on.
pub(super) fn ring(replica: &Replica) -> Vec<String> {
    let watches: BTreeMap<_, _> = replica.pairs().collect();
    let Some(first) = replica.peers().next() else { return Vec::new() };
    let (mut at, mut ring) = (first, vec![first.to_string()]);
    while let Some(next) = watches.get(at).filter(|next| **next != first) {
        // The laws forbid a smaller circle; a drawing must not hang if they are broken.
        if ring.len() > watches.len() {
            break;
        }
        ring.push(next.to_string());
        at = next;
    }
    ring
}

#[cfg(test)]
mod tests {
    use sardonyx_core::{Position, wire};

    use super::*;

    fn story(peers: &str) -> Story {
        let origin = format!(
            "{{\"peers\": [\"a\", \"b\", \"c\"], \"pairs\": {peers}, \"jobs\": [{{\"id\": \"j\", \
             \"tasks\": [\"t\"], \"task-scheduler\": \"greedy\", \"allocations\": {{\"t\": \
             [\"b\"]}}}}]}}"
        );
        let mut story = Story::default();
        story.begin(wire::replica_from_json(&origin).unwrap());
        story
    }

    fn say(story: &mut Story, position: u64, name: &str, args: &str) {
        let text = format!("{{\"id\": {position}, \"fn\": \"{name}\", \"args\": {args}}}");
        let entry = wire::entry_from_json(&text).unwrap();
        assert_eq!(entry.position, Position(position));
        story.play(entry);
    }

    #[test]
    fn a_loss_is_told_from_the_ring_before_to_the_ring_that_is_whole_again() {
        let mut story = story("{\"a\": \"c\", \"c\": \"b\", \"b\": \"a\"}");
        assert_eq!(ring(story.replica()), ["a", "c", "b"]);
        let victim = PeerId::new("b").unwrap();
        story.lose(victim.clone());
        say(&mut story, 1, "gc", "{\"caller\": \"a\"}");
        assert_eq!(story.loss().unwrap().without, None, "nobody has said so yet");
        say(&mut story, 2, "leave-cluster", "{\"peer\": \"b\"}");
        let join = |phase: &str| format!("{phase}-join-cluster");
        say(&mut story, 3, "leave-cluster", "{\"peer\": \"b\"}");
        say(&mut story, 4, &join("prepare"), "{\"joiner\": \"d\"}");
        let ends = "{\"joiner\": \"d\", \"observer\": \"a\", \"subject\": \"c\"}";
        say(&mut story, 5, &join("notify"), ends);
        assert_eq!(story.loss().unwrap().after, None);
        say(&mut story, 6, &join("accept"), ends);
        let loss = story.loss().unwrap();
        assert_eq!(loss.ran, Some(("t".into(), "j".into())));
        assert_eq!(loss.before, ["a", "c", "b"]);
        assert_eq!(loss.without.as_deref().unwrap(), ["a", "c"]);
        assert_eq!(loss.after.as_deref().unwrap(), ["a", "d", "c"]);
        let told: Vec<_> = loss.entries.iter().map(|entry| entry.position.0).collect();
        assert_eq!(told, [2, 4, 5, 6], "what changed nothing, and what is about jobs, is left out");
    }
}
