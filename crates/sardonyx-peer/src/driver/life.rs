//! One life: one session, one subscription, one replica, and peers whose ids begin with its name.
//!
//! ```text
//! loop: wait for one thing ─► were we away? ask the store ─► step ─► effects ─► commands queued
//! ```
//!
//! Everything that happens comes in through `wait`, one thing at a time; whatever fails comes out
//! as an [`Ending`], and `end` then takes down everything that the life has put up.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use sardonyx_core::{
    Command, Entry, PeerId, Position,
    command::{CompleteTask, Gc, KillJob, SealTask},
    peer::Standing,
    replica::job::Assignment,
    wire,
};
use sardonyx_store::{Delivery, Error, Session, Start, Store, Subscription, Txn, Write};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};

use super::{
    Config, Ending, Event, Fatal, View,
    agree::{self, Compared, Left, is_checkpoint},
    boarding::Boarding,
    is_caught_up,
    outbox::Outbox,
    timers::Timers,
    vigil::Vigil,
    watches::Watches,
};
use crate::{
    chores::Chores,
    figures,
    log_size::LogSize,
    node::{BULK_MIN, Input, Node},
    tasks::{Lanes, Report},
    trim::Trimmed,
};

/// How many pieces of news wait for the loop; whoever brings more waits with them.
pub const INBOX_MAX: usize = 1_024;

/// How much of the reason for which a task failed goes into the log: everybody keeps it.
const REASON_BYTES_MAX: usize = 4 << 10;

/// How long the session may take to close when a life is over; it ends by itself a little later.
const CLOSE_MAX: Duration = Duration::from_secs(2);

const OUT_OF_OFFICE: &str = "this node does not lead the mesh any more";

/// News from the tasks that a life has put up.
#[derive(Debug)]
pub(crate) enum Heard {
    PulseGone(PeerId),
    /// A new peer has its pulse.
    Pulsed(PeerId),
    Report(PeerId, Assignment, Report),
    Started(PeerId, Assignment),
    Stopped(PeerId, Assignment),
    /// A task does not stop.
    Stuck(PeerId, Assignment),
    Compared(Compared),
    Trimmed(Position, Result<Trimmed, Error>),
    /// A `gc` of ours could not be said; without a reason, because another node holds the office.
    NotCollected(Option<String>),
    /// Somebody said `gc`, and did not trim the log.
    Unfinished,
    /// Something that a life cannot do without has failed.
    Failed(Error),
}

/// What `wait` waited for.
enum Happened {
    Heard(Heard),
    TimerFired(PeerId),
    Read,
    StopAsked,
    Landed,
    Tick,
}

pub(super) struct Life {
    pub(super) config: Arc<Config>,
    pub(super) store: Store,
    pub(super) session: Arc<Session>,
    name: String,
    pub(super) node: Node,
    pub(super) subscription: Subscription,
    batch: Vec<Delivery>,
    /// The last position that was read; ahead of the node's by what cannot be read.
    pub(super) position: Option<Position>,
    pub(super) heard: mpsc::Sender<Heard>,
    inbox: mpsc::Receiver<Heard>,
    pub(super) watches: Watches,
    pub(super) timers: Timers,
    pub(super) lanes: Lanes,
    outbox: Outbox,
    pub(super) boarding: Boarding,
    left: Left,
    pub(super) size: LogSize,
    pub(super) chores: Chores,
    /// Where the last `gc` stands that was read.
    pub(super) last_gc: Option<Position>,
    /// When it was last looked whether there are chores.
    pub(super) looked: Option<Duration>,
    vigil: Vigil,
    /// What is done on the side: pulses, comparing, trimming.
    pub(super) errands: JoinSet<()>,
    n_pulsing: usize,
    n_named: u64,
    members: BTreeSet<PeerId>,
    pub(super) trim_is_wanted: bool,
    /// History is not compared with anybody: everybody compared it when it was made.
    has_caught_up: bool,
    leave_by: Option<Instant>,
    show: Arc<watch::Sender<View>>,
}

/// Lives one life.
pub(super) async fn run(
    store: Store,
    config: Arc<Config>,
    mut stop: watch::Receiver<bool>,
    show: Arc<watch::Sender<View>>,
) -> Ending {
    let begun = tokio::select! {
        begun = Life::begin(store, config, show) => begun,
        _ = stop.wait_for(|stop| *stop) => return Ending::Asked,
    };
    match begun {
        Ok(mut life) => {
            let ending = life.go(stop).await.err().unwrap_or(Ending::Asked);
            life.end(ending).await
        }
        Err(ending) => ending,
    }
}

impl Life {
    /// Opens a session and reads what there is. Nobody takes part yet.
    async fn begin(
        store: Store,
        config: Arc<Config>,
        show: Arc<watch::Sender<View>>,
    ) -> Result<Life, Ending> {
        let name = (config.namer)().await?;
        let session = Arc::new(store.session(config.session_timeout).await?);
        (config.watcher)(&Event::Began(name.clone(), session.timeout()));
        let (heard, inbox) = mpsc::channel(INBOX_MAX);
        let mut life = Life {
            node: Node::new(config.peer_gc_every),
            subscription: store.subscribe(Start::Origin),
            batch: Vec::new(),
            position: None,
            watches: Watches::new(store.clone(), heard.clone()),
            timers: Timers::default(),
            lanes: Lanes::new(&config, store.clone(), heard.clone()),
            outbox: Outbox::new(store.clone()),
            boarding: Boarding::new(config.n_peers, config.back_off),
            left: Left::default(),
            size: LogSize::new(config.trim_after),
            chores: Chores::new(config.history()),
            last_gc: None,
            looked: None,
            vigil: Vigil::new(session.timeout()),
            errands: JoinSet::new(),
            n_pulsing: 0,
            n_named: 0,
            members: BTreeSet::new(),
            trim_is_wanted: false,
            has_caught_up: false,
            leave_by: None,
            heard,
            inbox,
            name,
            session,
            store,
            config,
            show,
        };
        life.prove().await?;
        life.catch_up().await?;
        life.tell_figures();
        Ok(life)
    }

    /// Reads up to where the log ends now, before any peer of ours has anything to say to it.
    async fn catch_up(&mut self) -> Result<(), Ending> {
        let end = self.store.end().await?;
        while !is_caught_up(self.position, end) {
            let next = self.subscription.next_batch(&mut self.batch);
            let Ok(read) = tokio::time::timeout(super::SILENCE, next).await else { break };
            read?;
            self.read();
            self.tell(&Event::Played(self.position, end));
        }
        self.has_caught_up = true;
        let n_peers = self.node.replica().n_peers();
        self.tell(&Event::CaughtUp(self.position, n_peers));
        if self.node.replica().n_present() == 0
            && let Some(settings) = self.config.settings.clone()
        {
            self.outbox.push(settings.into());
        }
        Ok(())
    }

    async fn go(&mut self, mut stop: watch::Receiver<bool>) -> Result<(), Ending> {
        loop {
            self.show();
            if self.has_left() {
                return Ok(());
            }
            self.board();
            self.outbox.begin();
            let happened = self.wait(&mut stop).await?;
            if self.vigil.was_away() {
                self.prove().await?;
            }
            if self.session.is_lost() {
                return Err(Ending::Again("the session is lost".into()));
            }
            self.handle(happened).await?;
            self.do_chores();
        }
    }

    /// Waits for the next thing to happen. While too much waits to be said, only for that.
    async fn wait(&mut self, stop: &mut watch::Receiver<bool>) -> Result<Happened, Ending> {
        let has_room = self.outbox.has_room();
        let is_leaving = self.leave_by.is_some();
        tokio::select! {
            biased;
            () = self.session.lost() => Err(Ending::Again("the session is lost".into())),
            _ = stop.wait_for(|stop| *stop), if !is_leaving => Ok(Happened::StopAsked),
            landed = self.outbox.landed() => Ok(landed.map(|_| Happened::Landed)?),
            Some(heard) = self.inbox.recv(), if has_room => Ok(Happened::Heard(heard)),
            peer = self.timers.next(), if has_room => Ok(Happened::TimerFired(peer)),
            read = self.subscription.next_batch(&mut self.batch), if has_room => {
                Ok(read.map(|()| Happened::Read)?)
            }
            () = self.vigil.tick() => Ok(Happened::Tick),
        }
    }

    async fn handle(&mut self, happened: Happened) -> Result<(), Ending> {
        match happened {
            Happened::Heard(heard) => self.hear(heard)?,
            Happened::TimerFired(peer) => self.step(Input::TimerFired(peer)),
            Happened::Read => self.read(),
            Happened::StopAsked => self.leave().await,
            Happened::Landed | Happened::Tick => {}
        }
        Ok(())
    }

    fn hear(&mut self, heard: Heard) -> Result<(), Ending> {
        match heard {
            Heard::PulseGone(peer) => self.step(Input::PulseGone(peer)),
            Heard::Pulsed(peer) => {
                self.n_pulsing -= 1;
                if self.leave_by.is_none() {
                    self.step(Input::Boot(peer));
                }
            }
            Heard::Report(peer, task, report) => self.report(peer, task, report),
            Heard::Started(peer, task) => self.tell(&Event::TaskStarted(peer, task)),
            Heard::Stopped(peer, task) => self.tell(&Event::TaskStopped(peer, task)),
            Heard::Stuck(peer, task) => return Err(Ending::Fatal(Fatal::Stuck(peer, task))),
            Heard::Compared(Compared::First(key, gone)) => self.left.note(key, &gone),
            Heard::Compared(Compared::Same) => {}
            Heard::Compared(Compared::Other { position, ours, theirs, who }) => {
                return Err(Ending::Fatal(Fatal::Diverged { position, ours, theirs, who }));
            }
            Heard::Trimmed(position, trimmed) => self.has_trimmed(position, trimmed),
            Heard::NotCollected(why) => {
                self.chores.over();
                self.tell(&Event::NotTrimmed(why.unwrap_or_else(|| OUT_OF_OFFICE.into())));
            }
            Heard::Unfinished => self.chores.is_unfinished(),
            Heard::Failed(why) => return Err(why.into()),
        }
        Ok(())
    }

    fn has_trimmed(&mut self, position: Position, trimmed: Result<Trimmed, Error>) {
        self.chores.trims(false);
        match trimmed {
            Ok(Trimmed::Here) => self.tell(&Event::Trimmed(position)),
            // It is trimmed, and that is what counts.
            Ok(Trimmed::Elsewhere) => {}
            Ok(Trimmed::OutOfOffice) => self.tell(&Event::NotTrimmed(OUT_OF_OFFICE.into())),
            Err(why) => self.tell(&Event::NotTrimmed(why.to_string())),
        }
    }

    /// A task said something. What it says after the cluster took it away counts for nothing.
    fn report(&mut self, peer: PeerId, task: Assignment, report: Report) {
        if !self.lanes.is_on(&peer, &task) {
            return;
        }
        let Assignment { job, task, .. } = task;
        let command = match report {
            Report::Drained => SealTask { peer: peer.clone(), job, task }.into(),
            Report::Completed => CompleteTask { peer: peer.clone(), job, task }.into(),
            Report::Failed(why) => {
                let mut reason = format!("task {task}: {why}");
                reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
                KillJob { job, reason }.into()
            }
        };
        self.step(Input::Say(peer, command));
    }

    /// Plays what was read. Where the store's last word and the node's replica must belong to the
    /// same entry, entries are not played together.
    fn read(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let is_bulk = batch.len() >= BULK_MIN;
        let mut entries = Vec::new();
        for delivery in batch {
            match delivery {
                Delivery::Origin(origin) => {
                    self.play(&mut entries);
                    self.position = Some(origin.position);
                    self.size.begin_again();
                    self.last_gc = None;
                    self.step(Input::Origin(origin.position, origin.replica));
                }
                Delivery::Entry { position, command: Ok(command) } => {
                    self.position = Some(position);
                    let entry = Entry { position, command };
                    self.size.note(&entry);
                    if matches!(entry.command, Command::Gc(_)) {
                        self.chores.over();
                        self.last_gc = Some(position);
                    }
                    entries.push(entry);
                    if is_checkpoint(position) && !is_bulk && self.has_caught_up {
                        self.play(&mut entries);
                        self.compare(position);
                    }
                }
                Delivery::Entry { position, command: Err(why) } => {
                    self.position = Some(position);
                    self.tell(&Event::Unreadable(position, why.to_string()));
                }
            }
        }
        self.play(&mut entries);
        if std::mem::take(&mut self.trim_is_wanted) {
            self.trim();
        }
        if self.config.office.is_none()
            && let Some(peer) = self.size.whose_turn(self.node.replica())
        {
            self.step(Input::Say(peer.clone(), Gc { caller: peer }.into()));
        }
    }

    fn play(&mut self, entries: &mut Vec<Entry>) {
        if !entries.is_empty() {
            self.step(Input::Entries(std::mem::take(entries)));
        }
    }

    /// Effects first, then the commands that may claim them.
    pub(super) fn step(&mut self, input: Input) {
        let may_change = matches!(input, Input::Entries(_) | Input::Origin(..));
        let output = self.node.step(input);
        for effect in output.effects {
            self.perform(effect);
        }
        if let Some(position) = self.position.filter(|_| may_change) {
            self.lanes.tell(self.node.replica(), position);
        }
        let is_leaving = self.leave_by.is_some();
        for command in output.append {
            if !(is_leaving && super::is_for_the_staying(&command)) {
                self.outbox.push(command);
            }
        }
        // Refused is what a peer wants to say before it is in, beyond a thousand such things: only
        // tasks say things, and peers that are not in have none.
        debug_assert!(output.refused.is_empty());
    }

    /// Tells the others what goes through our tasks, for as long as this life lasts.
    fn tell_figures(&mut self) {
        let Some(figures) = self.config.figures.clone() else { return };
        let (session, view) = (Arc::clone(&self.session), self.show.subscribe());
        self.errand(figures::tell(figures, session, self.name.clone(), view));
    }

    fn compare(&mut self, position: Position) {
        let digest = agree::hex(&wire::digest(self.node.replica())[..16]);
        let (store, session) = (self.store.clone(), Arc::clone(&self.session));
        let who = format!("{} ({})", self.name, self.config.label);
        let (outdated, heard) = (self.left.outdated(), self.heard.clone());
        self.errand(async move {
            let compared = agree::compare(&store, &session, position, digest, &who, outdated);
            // What cannot be compared here is compared at the next checkpoint.
            if let Ok(compared) = compared.await {
                let _ = heard.send(Heard::Compared(compared)).await;
            }
        });
    }

    /// Lets as many new peers ask to join as the ring can take.
    fn board(&mut self) {
        if self.leave_by.is_some() {
            return;
        }
        let is_joining = |it: &Standing| !matches!(it, Standing::Member | Standing::BackingOff);
        let standings = || self.node.peers().map(|peer| peer.standing());
        let n_present = standings().count() + self.n_pulsing;
        let n_joining = standings().filter(is_joining).count() + self.n_pulsing;
        let n_ring = self.node.replica().n_peers();
        let now = Instant::now();
        self.call_those_who_wait(now, n_ring);
        for _ in 0..self.boarding.n_now(now, n_ring, n_present, n_joining) {
            self.n_named += 1;
            let Ok(peer) = PeerId::new(&format!("{}-{}", self.name, self.n_named)) else { return };
            self.n_pulsing += 1;
            let (session, heard) = (Arc::clone(&self.session), self.heard.clone());
            self.errand(async move {
                let pulsed = session.pulse(&peer).await;
                let news = pulsed.map_or_else(Heard::Failed, |()| Heard::Pulsed(peer));
                let _ = heard.send(news).await;
            });
        }
    }

    /// Long back-offs keep joiners out of each other's way. When nobody is on the way in, there is
    /// nobody to keep out of the way of.
    fn call_those_who_wait(&mut self, now: Instant, n_ring: usize) {
        if self.node.replica().n_present() > n_ring {
            return;
        }
        let waiting = self.node.peers().filter(|peer| peer.standing() == Standing::BackingOff);
        for peer in waiting {
            if self.boarding.may_call(peer.id(), n_ring) {
                let wait = self.config.back_off.wait(1, (self.config.random)());
                self.timers.hasten(peer.id(), now + wait);
            }
        }
    }

    pub(super) fn errand(&mut self, errand: impl Future<Output = ()> + Send + 'static) {
        while self.errands.try_join_next().is_some() {}
        self.errands.spawn(errand);
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leave_by.is_some()
    }

    /// Stops working, then says goodbye for every peer.
    async fn leave(&mut self) {
        self.tell(&Event::Leaving(self.node.peers().count()));
        let leave_max = self.config.leave_max;
        self.leave_by = Some(Instant::now() + leave_max);
        // What has not stopped by then ends with the process.
        let _ = tokio::time::timeout(leave_max / 2, self.lanes.end()).await;
        self.step(Input::Leave);
    }

    fn has_left(&self) -> bool {
        let Some(leave_by) = self.leave_by else { return false };
        let is_out = self.node.peers().next().is_none() && self.outbox.len() == 0;
        is_out || Instant::now() >= leave_by
    }

    /// Asks the store whether we are still there, by saying who we are.
    async fn prove(&mut self) -> Result<(), Ending> {
        let about = serde_json::json!({
            "label": self.config.label, "peers": self.config.n_peers,
            "version": env!("CARGO_PKG_VERSION"),
        });
        let item = Write::Lease(format!("node/{}", self.name), Bytes::from(about.to_string()));
        let txn = Txn { when: Vec::new(), then: vec![item] };
        let until = Instant::now() + self.session.timeout();
        loop {
            let answer = tokio::time::timeout_at(until, self.session.commit(&txn)).await;
            match answer {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(why)) if why.is_transient() && !self.session.is_lost() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(Err(why)) => return Err(why.into()),
                Err(_) => return Err(Ending::Again("the store does not answer".into())),
            }
            if Instant::now() >= until {
                return Err(Ending::Again("the store does not answer".into()));
            }
        }
    }

    /// Takes everything down: tasks first, so that nobody works beside whoever comes after us.
    async fn end(mut self, ending: Ending) -> Ending {
        let have_stopped = self.lanes.end().await;
        let mut stuck = None;
        while let Ok(heard) = self.inbox.try_recv() {
            match heard {
                Heard::Stopped(peer, task) => self.tell(&Event::TaskStopped(peer, task)),
                Heard::Stuck(peer, task) => stuck = Some((peer, task)),
                Heard::PulseGone(_)
                | Heard::Pulsed(_)
                | Heard::Report(..)
                | Heard::Started(..)
                | Heard::Compared(_)
                | Heard::Trimmed(..)
                | Heard::NotCollected(_)
                | Heard::Unfinished
                | Heard::Failed(_) => {}
            }
        }
        self.errands.shutdown().await;
        let Life { session, .. } = self;
        if let Some(session) = Arc::into_inner(session) {
            // If it does not close in time it ends by its timeout: we no longer beat for it.
            let _ = tokio::time::timeout(CLOSE_MAX, session.close()).await;
        }
        match (stuck, have_stopped) {
            (Some((peer, task)), _) => Ending::Fatal(Fatal::Stuck(peer, task)),
            (None, false) => {
                let why = "a task does not stop: this process must end".into();
                Ending::Fatal(Fatal::Store(Error::NotConfigured(why)))
            }
            (None, true) => ending,
        }
    }

    pub(super) fn tell(&self, event: &Event) {
        (self.config.watcher)(event);
    }

    /// Shows what is known now, and tells who has come in.
    fn show(&mut self) {
        let replica = self.node.replica();
        let is_in = |peer: &&sardonyx_core::Peer| peer.standing() == Standing::Member;
        let members: BTreeSet<_> =
            self.node.peers().filter(is_in).map(|peer| peer.id().clone()).collect();
        let n_peers = replica.n_peers();
        for peer in members.difference(&self.members) {
            self.tell(&Event::Joined(peer.clone(), n_peers));
        }
        for peer in self.members.difference(&members).filter(|_| !self.is_leaving()) {
            self.tell(&Event::Left(peer.clone()));
        }
        self.show.send_replace(View {
            life: self.name.clone(),
            position: self.position,
            replica: replica.clone(),
            n_members: members.len(),
            n_waiting: self.outbox.len(),
        });
        self.members = members;
    }
}
