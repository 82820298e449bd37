//! A peer's own memory: the gate, the back-off, the end of an id.

use std::time::Duration;

use sardonyx_core::{
    Command, Effect, Entry, Input, Output, Peer, Position, Replica, apply,
    peer::{BackOff, HELD_MAX, Standing},
    wire,
};

use crate::text::{command, peer};

/// A peer and its own view of the log.
struct Alone {
    peer: Peer,
    replica: Replica,
    position: u64,
}

impl Alone {
    fn new(id: &str, origin: &str) -> Alone {
        let peer = Peer::new(peer(id), Some(2));
        Alone { peer, replica: wire::replica_from_json(origin).unwrap(), position: 0 }
    }

    fn play(&mut self, text: &str) -> Output {
        let entry = Entry { position: Position(self.position), command: command(text) };
        self.position += 1;
        let (new, outcome) = apply(&self.replica, &entry);
        let old = std::mem::replace(&mut self.replica, new);
        let new = &self.replica;
        self.peer.step(Input::Played { entry: &entry, outcome: &outcome, old: &old, new })
    }

    fn timer(&mut self) -> Output {
        self.peer.step(Input::TimerFired { replica: &self.replica })
    }
}

fn says(output: &Output) -> Vec<String> {
    output.append.iter().map(ToString::to_string).collect()
}

fn greedy() -> Command {
    command(r#"configure-cluster {"job-scheduler":"greedy"}"#)
}

#[test]
fn what_is_not_about_joining_waits_until_the_peer_is_in() {
    let mut it = Alone::new("a", "{}");
    assert_eq!(says(&it.peer.step(Input::Start)), ["prepare-join-cluster a"]);
    assert!(it.peer.step(Input::Say(greedy())).append.is_empty());
    // Said twice is said once.
    assert!(it.peer.step(Input::Say(greedy())).append.is_empty());
    let joined = it.play("prepare-join-cluster a");
    assert_eq!(says(&joined), ["configure-cluster job-scheduler=greedy"]);
    assert_eq!(it.peer.standing(), Standing::Member);
    assert_eq!(it.peer.step(Input::Say(greedy())).append, [greedy()]);
}

#[test]
fn what_no_longer_makes_sense_is_not_let_out() {
    let mut it = Alone::new("a", "{}");
    it.peer.step(Input::Start);
    it.peer.step(Input::Say(greedy()));
    it.play(r#"configure-cluster {"job-scheduler":"greedy"}"#);
    assert!(it.play("prepare-join-cluster a").append.is_empty());
}

#[test]
fn the_gate_holds_as_much_as_it_says_and_refuses_one_more() {
    let mut it = Alone::new("a", "{}");
    let max = |n: usize| command(&format!(r#"configure-cluster {{"peers-max":{n}}}"#));
    for n in 0..HELD_MAX {
        assert_eq!(it.peer.step(Input::Say(max(n))), Output::default());
    }
    assert_eq!(it.peer.step(Input::Say(max(HELD_MAX))).refused, Some(max(HELD_MAX)));
}

#[test]
fn a_refused_joiner_aborts_once_looks_at_one_member_and_tries_again_later() {
    let origin = r#"{"join-protocol":"three-phase","peers":["a"],"prepared":{"a":"b"}}"#;
    let mut it = Alone::new("c", origin);
    it.peer.step(Input::Start);
    let refused = it.play("prepare-join-cluster c");
    assert_eq!(refused.effects, [Effect::Probe(peer("a"))]);
    assert_eq!(says(&refused), ["abort-join-cluster c"]);
    assert_eq!(it.peer.standing(), Standing::Aborting);
    assert_eq!(it.play("abort-join-cluster c").effects, [Effect::BackOff]);
    // Somebody else's abort does not start a second timer.
    assert_eq!(it.play("abort-join-cluster c"), Output::default());
    assert_eq!(it.peer.attempts(), 1);
    it.play("abort-join-cluster b");
    assert_eq!(says(&it.timer()), ["prepare-join-cluster c"]);
    assert_eq!(it.timer(), Output::default());
    // After every second failure everybody's pulse is checked.
    it.play("prepare-join-cluster b");
    it.play("prepare-join-cluster c");
    it.play("abort-join-cluster c");
    it.play("abort-join-cluster b");
    assert_eq!(says(&it.timer()), ["peer-gc c", "prepare-join-cluster c"]);
    assert_eq!(it.play("peer-gc c").effects, [Effect::Probe(peer("a"))]);
}

#[test]
fn a_joiner_whom_nobody_can_take_looks_and_does_not_ask() {
    let origin = r#"{"join-protocol":"three-phase","peers":["a"],"prepared":{"a":"b"}}"#;
    let mut it = Alone::new("c", origin);
    assert_eq!(it.peer.step(Input::StartLater).effects, [Effect::BackOff]);
    assert_eq!(it.peer.attempts(), 0);
    let look = [Effect::Probe(peer("a")), Effect::BackOff];
    for looks in 1..=3 {
        let looked = it.timer();
        assert_eq!(looked.effects, look);
        // The first look has nothing to compare with; after two more that saw nothing move,
        // everybody's pulse is checked.
        let expected: &[&str] = if looks == 3 { &["peer-gc c"] } else { &[] };
        assert_eq!(says(&looked), expected);
        assert_eq!(it.peer.attempts(), looks, "the wait grows");
    }
    it.play("leave-cluster a");
    assert_eq!(says(&it.timer()), ["prepare-join-cluster c"]);
    it.play("prepare-join-cluster c");
    assert_eq!((it.peer.standing(), it.peer.attempts()), (Standing::Member, 0));
}

#[test]
fn a_joiner_whose_prepare_is_still_on_its_way_lets_it_come() {
    let mut it = Alone::new("b", r#"{"join-protocol":"three-phase","peers":["a"]}"#);
    it.peer.step(Input::Start);
    let jumped = it.peer.step(Input::Jumped { heard: false, old: &it.replica, new: &it.replica });
    assert_eq!(jumped, Output::default());
    assert_eq!(it.peer.standing(), Standing::Joining);
    let taken = it.play("prepare-join-cluster b");
    assert_eq!(taken.effects, [Effect::Watch(peer("a"))]);
}

#[test]
fn nothing_comes_from_an_id_that_has_left() {
    let mut it = Alone::new("b", r#"{"join-protocol":"three-phase","peers":["a","b","c"]}"#);
    it.peer.step(Input::Jumped { heard: true, old: &it.replica, new: &it.replica });
    let left = it.play("leave-cluster b");
    assert_eq!(left.effects, [Effect::Stop]);
    assert_eq!(it.peer.standing(), Standing::Stopped);
    assert_eq!(it.play("prepare-join-cluster b"), Output::default());
    assert_eq!(it.peer.step(Input::Start), Output::default());
}

#[test]
fn a_joiner_that_is_taken_for_dead_stops_too() {
    let origin = r#"{"join-protocol":"three-phase","peers":["a"],"prepared":{"a":"b"}}"#;
    let mut it = Alone::new("b", origin);
    it.peer.step(Input::Start);
    assert_eq!(it.play("leave-cluster b").effects, [Effect::Stop]);
}

#[test]
fn a_jump_arms_every_watch_again_and_says_every_duty_again() {
    let origin = r#"{"join-protocol":"three-phase","peers":["a","b"],"prepared":{"a":"c"}}"#;
    let mut it = Alone::new("a", origin);
    let jumped = it.peer.step(Input::Jumped { heard: true, old: &it.replica, new: &it.replica });
    assert_eq!(jumped.effects, [Effect::Watch(peer("b")), Effect::Watch(peer("c"))]);
    assert_eq!(says(&jumped), ["notify-join-cluster c observer=a subject=b"]);
}

#[test]
fn a_joiner_that_jumped_past_the_end_of_its_join_begins_again() {
    let origin = r#"{"join-protocol":"three-phase","peers":["a"],"prepared":{"a":"b"}}"#;
    let mut it = Alone::new("b", origin);
    it.peer.step(Input::Start);
    let new = wire::replica_from_json(r#"{"join-protocol":"three-phase","peers":["x"]}"#).unwrap();
    let jumped = it.peer.step(Input::Jumped { heard: true, old: &it.replica, new: &new });
    assert_eq!(says(&jumped), ["abort-join-cluster b"]);
}

/// Found by the simulator, seed 6: a slow reader took the origin over its own abort, and waited to
/// see it for ever.
#[test]
fn a_joiner_that_jumped_past_its_own_abort_says_it_again() {
    let origin = r#"{"join-protocol":"three-phase","peers":["a"],"prepared":{"a":"b"}}"#;
    let mut it = Alone::new("c", origin);
    it.peer.step(Input::Start);
    it.play("prepare-join-cluster c");
    assert_eq!(it.peer.standing(), Standing::Aborting);
    let jumped = it.peer.step(Input::Jumped { heard: true, old: &it.replica, new: &it.replica });
    assert_eq!(says(&jumped), ["abort-join-cluster c"]);
    assert_eq!(it.play("abort-join-cluster c").effects, [Effect::BackOff]);
}

#[test]
fn a_peer_that_is_stopped_on_purpose_says_so() {
    let mut it = Alone::new("a", "{}");
    it.peer.step(Input::Start);
    it.play("prepare-join-cluster a");
    assert_eq!(says(&it.peer.step(Input::Leave)), ["leave-cluster a"]);
    assert_eq!(it.play("leave-cluster a").effects, [Effect::Stop]);
}

#[test]
fn the_back_off_doubles_up_to_its_limit() {
    let back_off = BackOff::default();
    let longest = |attempts| back_off.wait(attempts, u32::MAX);
    assert_eq!(longest(1), Duration::from_millis(500));
    assert_eq!(longest(2), Duration::from_secs(1));
    assert_eq!(longest(6), Duration::from_secs(16));
    assert_eq!(longest(u32::MAX), Duration::from_secs(16));
    assert_eq!(back_off.wait(3, 0), Duration::ZERO);
}

#[test]
fn a_task_taken_away_and_given_back_restarts() {
    let replica = |epoch: u64| {
        let job = format!(
            r#"{{"id":"j","tasks":["t"],"allocations":{{"t":["a"]}},"epochs":{{"a":{epoch}}}}}"#
        );
        let origin = format!(r#"{{"join-protocol":"three-phase","peers":["a"],"jobs":[{job}]}}"#);
        wire::replica_from_json(&origin).unwrap()
    };
    let mut it = Peer::new(peer("a"), None);
    let jumped = it.step(Input::Jumped { heard: true, old: &replica(5), new: &replica(9) });
    let does: Vec<_> = jumped.effects.iter().map(ToString::to_string).collect();
    assert_eq!(does, ["stop t of j", "start t of j"]);
    let stayed = it.step(Input::Jumped { heard: true, old: &replica(9), new: &replica(9) });
    assert!(stayed.effects.is_empty());
}

/// However many jobs a joiner replayed, and however often it was called, it volunteers once.
#[test]
fn a_joiner_lets_out_one_volunteer() {
    let mut it = Alone::new("a", "{}");
    it.peer.step(Input::Start);
    for job in ["j1", "j2", "j3"] {
        let submit = format!(r#"submit-job {{"id":"{job}","job":{{}},"tasks":["t"]}}"#);
        assert!(it.play(&submit).append.is_empty());
    }
    assert_eq!(says(&it.play("prepare-join-cluster a")), ["volunteer-for-task a"]);
    // Another change on the way does not make it ask again.
    assert!(it.play("kill-job j1").append.is_empty());
    let granted = it.play(r#"volunteer-for-task {"peers": ["a"]}"#);
    assert_eq!(granted.effects.len(), 1);
    assert!(granted.append.is_empty());
}

#[test]
fn the_volunteers_of_one_node_go_in_one_entry() {
    let volunteer = |id: &str| command(&format!(r#"volunteer-for-task {{"peers":["{id}"]}}"#));
    let said = vec![volunteer("a"), command("leave-cluster x"), volunteer("b")];
    let gathered = sardonyx_core::command::VolunteerForTask::gather(said);
    let gathered: Vec<_> = gathered.iter().map(ToString::to_string).collect();
    assert_eq!(gathered, ["leave-cluster x", "volunteer-for-task a b"]);
}
