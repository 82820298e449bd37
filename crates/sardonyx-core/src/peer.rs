//! One virtual peer: inputs in, commands and effects out.
//!
//! A peer decides nothing about the cluster; [`respond`] does, the same for everybody. What is
//! here is its memory: how far its join is, how often it failed, and what it may not say yet.
//!
//! The shell feeds inputs one at a time and carries out the output in this order: every effect,
//! then every command. A command may claim that its effect has happened.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    command::{
        AbortJoinCluster, Command, Entry, LeaveCluster, Outcome, PeerGc, PrepareJoinCluster,
    },
    effect::{Effect, effects},
    id::{PeerId, Position},
    mutant::{self, Mutant},
    reaction::{Response, owed, respond},
    replica::Replica,
};

/// How many commands a peer holds back until it has joined.
pub const HELD_MAX: usize = 1_000;

/// A virtual peer, for one boot.
#[derive(Clone, Debug)]
pub struct Peer {
    id: PeerId,
    gc_every: Option<u32>,
    standing: Standing,
    attempts: u32,
    /// How often it looked and did not ask, and how often of these nothing had moved.
    looks: u32,
    looks_in_vain: u32,
    n_peers_seen: usize,
    held: Vec<Command>,
}

/// How far a peer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It has not asked yet.
    New,
    /// It has asked, or is being stitched in.
    Joining,
    /// It has given a join up and waits to see that in the log.
    Aborting,
    /// It waits before it asks, for the first time or again.
    BackingOff,
    /// It is in.
    Member,
    /// It has seen its own `leave-cluster`. Nothing more comes from this id.
    Stopped,
}

/// Something that happened to a peer.
#[derive(Debug)]
pub enum Input<'a> {
    /// The shell has registered the peer's pulse: ask to join.
    Start,
    /// The shell has registered the peer's pulse, but others of its node are asking already: wait
    /// for a while first, and then look before asking.
    StartLater,
    /// The log was played by one entry.
    Played {
        /// The entry.
        entry: &'a Entry,
        /// What became of it.
        outcome: &'a Outcome,
        /// The cluster before.
        old: &'a Replica,
        /// The cluster after.
        new: &'a Replica,
    },
    /// The log was played by many entries at once, or an origin was taken.
    Jumped {
        /// Whether something about the peer's own join may lie in what was jumped over: known of
        /// entries, never of an origin.
        heard: bool,
        /// The cluster on which the peer last acted.
        old: &'a Replica,
        /// The cluster now.
        new: &'a Replica,
    },
    /// A pulse that was watched or probed is not there.
    PulseGone {
        /// Whose.
        peer: &'a PeerId,
        /// The cluster now.
        replica: &'a Replica,
    },
    /// The back-off is over.
    TimerFired {
        /// The cluster now.
        replica: &'a Replica,
    },
    /// Somebody in this process wants to say something in the peer's name.
    Say(Command),
    /// The peer is to be stopped on purpose.
    Leave,
}

/// What the shell has to carry out, effects first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// To be done.
    pub effects: Vec<Effect>,
    /// To be appended to the log, in this order.
    pub append: Vec<Command>,
    /// Not taken, because [`HELD_MAX`] commands are held back already. Say it again later.
    pub refused: Option<Command>,
}

impl Peer {
    /// A peer that has not asked to join yet.
    ///
    /// After every `gc_every` failed attempts, and after as many looks in vain, it has everybody's
    /// pulse checked (`peer-gc`); `None` leaves that to operators.
    pub fn new(id: PeerId, gc_every: Option<u32>) -> Peer {
        Peer {
            id,
            gc_every,
            standing: Standing::New,
            attempts: 0,
            looks: 0,
            looks_in_vain: 0,
            n_peers_seen: 0,
            held: Vec::new(),
        }
    }

    /// Its id.
    pub fn id(&self) -> &PeerId {
        &self.id
    }

    /// How far it is.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// How often it failed to join, or did not even try, since it last was in. The shell's back-off
    /// grows with it.
    pub fn attempts(&self) -> u32 {
        self.attempts.saturating_add(self.looks)
    }

    /// What the peer does and says because of `input`.
    pub fn step(&mut self, input: Input<'_>) -> Output {
        if self.standing == Standing::Stopped {
            return Output::default();
        }
        match input {
            Input::Start => self.ask(),
            Input::StartLater => {
                self.standing = Standing::BackingOff;
                Output { effects: Vec::from([Effect::BackOff]), ..Output::default() }
            }
            Input::Played { entry, outcome, old, new } => {
                let response = respond(entry, outcome, old, new, &self.id);
                self.follow(response, new)
            }
            Input::Jumped { .. } if mutant::is_on(Mutant::NoReconcile) => Output::default(),
            Input::Jumped { heard, old, new } => {
                if self.standing == Standing::Aborting && heard {
                    // Our abort may lie behind us, unseen. Saying it twice is harmless.
                    self.standing = Standing::Joining;
                }
                let response = self.catch_up(heard, old, new);
                self.follow(response, new)
            }
            Input::PulseGone { peer, replica } => {
                let is_known = replica.is_member(peer) || replica.is_joining(peer);
                let report = LeaveCluster { peer: peer.clone() };
                say(is_known.then(|| report.into()))
            }
            Input::TimerFired { replica } => {
                let waits = self.standing == Standing::BackingOff
                    || (self.standing == Standing::Member && mutant::is_on(Mutant::MemberAborts));
                let is_out = waits && !replica.is_joining(&self.id);
                match is_out {
                    true if replica.has_candidate() => self.ask(),
                    true => self.look_again(replica),
                    false => Output::default(),
                }
            }
            Input::Say(command) => self.gate(command),
            Input::Leave => say([LeaveCluster { peer: self.id.clone() }.into()]),
        }
    }

    /// Nobody could take us: asking would only fill the log. We wait longer, and meanwhile look
    /// whether one of those who are in is still alive: if they all died in the middle of joins,
    /// nobody else is left to notice. If nothing moves at all, everybody's pulse is checked.
    fn look_again(&mut self, replica: &Replica) -> Output {
        let n_peers = replica.n_peers();
        self.looks = self.looks.saturating_add(1);
        let moves = core::mem::replace(&mut self.n_peers_seen, n_peers) != n_peers;
        self.looks_in_vain = if moves { 0 } else { self.looks_in_vain.saturating_add(1) };
        // Those who look at the same time are not to look at the same one.
        let own = self.id.as_str().bytes().map(usize::from).sum::<usize>();
        let rank = own.wrapping_add(self.looks as usize).checked_rem(n_peers);
        let member = rank.and_then(|rank| replica.peer_at(rank)).cloned();
        let is_over = mutant::is_on(Mutant::CheckedOnce) && self.looks > 1;
        let member = member.filter(|_| !mutant::is_on(Mutant::NoProbe) && !is_over);
        let probe = member.map(Effect::Probe);
        let effects = probe.into_iter().chain([Effect::BackOff]).collect();
        let append = self.gc_after(self.looks_in_vain).into_iter().collect();
        Output { effects, append, refused: None }
    }

    /// A `peer-gc`, if it is due after so many failures.
    fn gc_after(&self, failures: u32) -> Option<Command> {
        let is_over = |every: u32| mutant::is_on(Mutant::CheckedOnce) && failures > every;
        let is_due =
            |every: u32| failures > 0 && failures.checked_rem(every) == Some(0) && !is_over(every);
        let gc = PeerGc { peer: self.id.clone() };
        let every = self.gc_every.filter(|_| !mutant::is_on(Mutant::NoPeerGc));
        every.is_some_and(is_due).then(|| gc.into())
    }

    fn ask(&mut self) -> Output {
        self.standing = Standing::Joining;
        let prepare = PrepareJoinCluster { joiner: self.id.clone() }.into();
        say(self.gc_after(self.attempts).into_iter().chain([prepare]))
    }

    /// Lets through what a peer of this standing may do and say, and moves on to the next one.
    fn follow(&mut self, response: Response, new: &Replica) -> Output {
        let Response { mut effects, mut commands } = response;
        if effects.contains(&Effect::Stop) {
            self.standing = Standing::Stopped;
            return Output { effects: Vec::from([Effect::Stop]), ..Output::default() };
        }
        if new.is_member(&self.id) {
            let has_joined = self.standing != Standing::Member;
            self.standing = Standing::Member;
            (self.attempts, self.looks, self.looks_in_vain) = (0, 0, 0);
            if has_joined {
                commands.extend(self.let_out(new));
            }
            return Output { effects, append: commands, refused: None };
        }
        if new.is_joining(&self.id) && self.standing != Standing::Aborting {
            self.standing = Standing::Joining;
        }
        if effects.contains(&Effect::BackOff) {
            if self.standing == Standing::BackingOff {
                // The timer runs already: a second abort must not start a second one.
                effects.retain(|effect| *effect != Effect::BackOff);
            } else {
                self.standing = Standing::BackingOff;
                self.attempts = self.attempts.saturating_add(1);
            }
        }
        commands.retain(|command| {
            !matches!(command, Command::AbortJoinCluster(_)) || self.begins_to_abort()
        });
        Output { effects, append: commands, refused: None }
    }

    /// Whether an abort is to be said now. One is enough for one failed attempt.
    fn begins_to_abort(&mut self) -> bool {
        let begins = self.standing == Standing::Joining;
        if begins {
            self.standing = Standing::Aborting;
        }
        begins
    }

    /// What is left to do and to say after a jump. What lay in between was not seen, so every
    /// watch is armed again and every duty is said again.
    fn catch_up(&self, heard: bool, old: &Replica, new: &Replica) -> Response {
        let mut all = effects(old, new, &self.id);
        let kept = new.watches(&self.id).into_iter().map(Effect::Watch);
        let kept: Vec<_> = kept.filter(|watch| !all.contains(watch)).collect();
        all.extend(kept);
        let mut commands = owed(new, &self.id);
        let was_heard = heard || old.is_joining(&self.id);
        if was_heard && !new.is_member(&self.id) && !new.is_joining(&self.id) {
            // Our prepare may lie before or behind us; aborting makes both the same. If it is not
            // behind us it will still come, and an abort would only undo it.
            commands.push(AbortJoinCluster { joiner: self.id.clone() }.into());
        }
        Response { effects: all, commands }
    }

    fn gate(&mut self, command: Command) -> Output {
        let is_in = self.standing == Standing::Member || mutant::is_on(Mutant::Ungated);
        if is_in || command.is_about_joining() {
            return say([command]);
        }
        if self.held.contains(&command) {
            return Output::default();
        }
        if self.held.len() == HELD_MAX {
            return Output { refused: Some(command), ..Output::default() };
        }
        self.held.push(command);
        Output::default()
    }

    /// What was held back and still makes sense now.
    fn let_out(&mut self, replica: &Replica) -> Vec<Command> {
        let mut held = core::mem::take(&mut self.held);
        held.retain(|command| {
            if mutant::is_on(Mutant::Uncollapsed) {
                return true;
            }
            let entry = Entry { position: Position::default(), command: command.clone() };
            replica.clone().play(&entry).is_ok()
        });
        held
    }
}

fn say(commands: impl IntoIterator<Item = Command>) -> Output {
    Output { append: commands.into_iter().collect(), ..Output::default() }
}

/// How long an aborted joiner waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackOff {
    /// The mean of the first wait.
    pub first: Duration,
    /// No mean grows beyond this.
    pub longest: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        BackOff { first: Duration::from_millis(250), longest: Duration::from_secs(8) }
    }
}

impl BackOff {
    /// The wait after the given number of failed attempts. The mean doubles with each; `random`,
    /// which the shell draws evenly, spreads it from nothing to twice the mean, so that those who
    /// collided do not collide again.
    pub fn wait(&self, attempts: u32, random: u32) -> Duration {
        let is_steady = mutant::is_on(Mutant::SteadyWaits);
        let doublings = if is_steady { 0 } else { attempts.saturating_sub(1).min(31) };
        let is_endless = mutant::is_on(Mutant::EndlessWaits);
        let longest = if is_endless { Duration::MAX } else { self.longest };
        let mean = self.first.saturating_mul(1 << doublings).min(longest);
        let random = if mutant::is_on(Mutant::EvenWaits) { u32::MAX / 2 } else { random };
        let nanos = mean.as_nanos() * 2 * u128::from(random) / u128::from(u32::MAX);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
