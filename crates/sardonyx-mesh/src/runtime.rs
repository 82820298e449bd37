//! The loop that drives a [`Member`]: whatever happens goes in, whatever it wants is done.
//!
//! Writes go to a thread of their own, since a disk may take its time and heartbeats may not. The
//! machine holds back what depends on a write until it hears that the write is there; a write that
//! fails ends the node, because nobody knows then what it has promised.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, mpsc as threads},
    time::Duration,
};

use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::{
    address::{Address, NodeId},
    change::Change,
    claim::FencingToken,
    clock,
    connections::Connections,
    durable::Durable,
    member::{Input, Member, Output, Save},
    message::Message,
    moment::Moment,
    report::Report,
    view::Status,
    wire::codec,
};

/// What a handle asks of the loop.
pub(crate) enum Command {
    /// How things are, now.
    Status(oneshot::Sender<Report>),
    /// An operator's wish; the answer says why it was not granted.
    Wish(Box<Input>, oneshot::Sender<Result<(), String>>),
    /// Ends without a goodbye, as a crash would.
    Stop,
}

/// How the loop ended, once it has: by itself, or with the reason.
pub(crate) type Ended = Option<Result<(), String>>;

/// How many messages of the protocol may wait for the loop, from all peers together.
pub(crate) const INBOX_MAX: usize = 4_096;

/// How long last words may take.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// A view that differs in little is shown after so long, at the next step.
const SHOWN_WITHIN: Duration = Duration::from_millis(5);

/// What others see of the loop.
pub(crate) struct Shown {
    pub(crate) view: watch::Sender<Arc<Report>>,
    pub(crate) changes: broadcast::Sender<Arc<Change>>,
    pub(crate) token: Arc<Mutex<Option<FencingToken>>>,
    pub(crate) ended: watch::Sender<Ended>,
}

/// Where promises are kept.
pub(crate) enum Saver {
    /// Nowhere: a restart forgets them.
    Volatile,
    /// In a file, written by a thread.
    Thread(threads::Sender<Save>, std::thread::JoinHandle<()>),
}

pub(crate) struct Runtime {
    pub(crate) member: Member,
    pub(crate) heartbeat: Duration,
    pub(crate) connections: Arc<Connections>,
    pub(crate) inbox: mpsc::Receiver<(NodeId, Message)>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) saver: Saver,
    pub(crate) saved: mpsc::Receiver<Result<u64, String>>,
    pub(crate) shown: Shown,
    pub(crate) me: NodeId,
    /// When the view was last shown.
    pub(crate) published: Moment,
}

/// What a step leads to, beyond what was done at once.
enum Next {
    Wait(Moment),
    Over(Result<(), String>),
}

impl Runtime {
    /// Runs until the member has left, is stopped, or cannot write.
    pub(crate) async fn run(mut self) {
        let result = self.turn_for_ever().await;
        if let Err(why) = &result {
            tracing::error!(why, "this node stops");
        }
        *self.shown.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.publish(clock::now());
        self.connections.close().await;
        if let Saver::Thread(saves, thread) = self.saver {
            // It ends with its queue, and lets go of the directory.
            drop(saves);
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        self.shown.ended.send_replace(Some(result));
    }

    async fn turn_for_ever(&mut self) -> Result<(), String> {
        let mut next = self.step(Input::Tick);
        loop {
            let wake = match next {
                Next::Wait(wake) => wake,
                Next::Over(result) => {
                    // The last messages are in queues to sockets.
                    tokio::time::sleep(LAST_WORDS).await;
                    return result;
                }
            };
            let pause = clock::until(wake);
            tokio::select! {
                biased;
                Some((from, message)) = self.inbox.recv() => {
                    next = self.step(Input::Message { from, message });
                }
                Some(saved) = self.saved.recv() => next = self.step(Input::Saved(saved?)),
                command = self.commands.recv() => match command {
                    Some(Command::Status(answer)) => {
                        // Who asked may be gone.
                        let _ = answer.send(self.member.status(clock::now()));
                        next = Next::Wait(wake);
                    }
                    Some(Command::Wish(input, answer)) => next = self.wish(*input, answer),
                    Some(Command::Stop) | None => return Ok(()),
                },
                () = tokio::time::sleep(pause) => {
                    // Whoever was stopped for a while finds its mail in the sockets, not yet here:
                    // it is read before any silence is concluded from the clock.
                    let late = clock::now().since(wake);
                    if late > self.heartbeat {
                        tracing::warn!(?late, "this process was not running");
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        while let Ok((from, message)) = self.inbox.try_recv() {
                            if let over @ Next::Over(_) =
                                self.step(Input::Message { from, message })
                            {
                                next = over;
                                break;
                            }
                        }
                    }
                    if matches!(next, Next::Wait(_)) {
                        next = self.step(Input::Tick);
                    }
                }
            }
        }
    }

    fn wish(&mut self, input: Input, answer: oneshot::Sender<Result<(), String>>) -> Next {
        let (next, refused) = self.step_and_hear(input);
        let _ = answer.send(refused.map_or(Ok(()), Err));
        next
    }

    fn step(&mut self, input: Input) -> Next {
        self.step_and_hear(input).0
    }

    /// One input, and the ones that follow from it at once.
    fn step_and_hear(&mut self, input: Input) -> (Next, Option<String>) {
        let (mut inputs, mut heard) = (VecDeque::from([input]), None);
        let mut wake = Moment::default();
        while let Some(input) = inputs.pop_front() {
            let now = clock::now();
            let Output { messages, save, changes, refused, wake: at } =
                self.member.step(now, input);
            wake = at;
            heard = heard.or(refused);
            let token = self.member.token(now);
            *self.shown.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
            if let Some(save) = save {
                match &self.saver {
                    Saver::Volatile => inputs.push_back(Input::Saved(save.id)),
                    Saver::Thread(saves, _) => {
                        if saves.send(save).is_err() {
                            let why = "the thread that writes has ended".to_owned();
                            return (Next::Over(Err(why)), heard);
                        }
                    }
                }
            }
            for it in messages {
                match it.to == self.me.address {
                    true => {
                        let from = self.me.clone();
                        inputs.push_back(Input::Message { from, message: it.message });
                    }
                    false => self.connections.send(&it.to, &it.message),
                }
            }
            let is_over = changes.contains(&Change::Stopped);
            self.tell(changes, now);
            if is_over {
                return (Next::Over(Ok(())), heard);
            }
        }
        (Next::Wait(wake), heard)
    }

    /// Shows what changed to those who watch, after the view that has it.
    fn tell(&mut self, changes: Vec<Change>, now: Moment) {
        // Not everything in a view is worth telling; but it is shown, soon.
        if !changes.is_empty() || now.since(self.published) > SHOWN_WITHIN {
            self.published = now;
            self.publish(now);
        }
        for change in changes {
            say(&change);
            if let Some(gone) = removed(&change) {
                self.connections.forget(gone);
            }
            // Nobody may be watching.
            let _ = self.shown.changes.send(Arc::new(change));
        }
    }

    fn publish(&self, now: Moment) {
        let report = self.member.status(now);
        self.shown.view.send_if_modified(|view| {
            let is_new = **view != report;
            if is_new {
                *view = Arc::new(report);
            }
            is_new
        });
    }
}

fn removed(change: &Change) -> Option<&Address> {
    match change {
        Change::Member { row, .. } if row.status == Status::Removed => Some(&row.node.address),
        Change::Member { .. }
        | Change::Leader { .. }
        | Change::Lease { .. }
        | Change::ViewReset { .. }
        | Change::Stopped
        | Change::Warning(_) => None,
    }
}

/// One line in the log for every change, with who saw it and why.
fn say(change: &Change) {
    match change {
        Change::Warning(_) => tracing::warn!("{}", describe(change)),
        Change::Member { .. }
        | Change::Leader { .. }
        | Change::Lease { .. }
        | Change::ViewReset { .. }
        | Change::Stopped => tracing::info!("{}", describe(change)),
    }
}

/// A change in a sentence.
pub fn describe(change: &Change) -> String {
    match change {
        Change::Member { leader, version, seq, from, row, reason } => {
            let from = from.map_or_else(|| "unknown".to_owned(), |it| it.to_string());
            format!(
                "{} went from {from} to {}: {reason} (says {leader}, {version}, step {seq})",
                row.node, row.status
            )
        }
        Change::Leader { claim: Some(claim), reason } => format!("{claim} leads: {reason}"),
        Change::Leader { claim: None, reason } => format!("nobody leads: {reason}"),
        Change::Lease { held: true, version, reason } => {
            format!("this node has the lease of {version}: {reason}")
        }
        Change::Lease { held: false, version, reason } => {
            format!("this node has lost the lease of {version}: {reason}")
        }
        Change::ViewReset { reason } => format!("this node begins anew: {reason}"),
        Change::Stopped => "this node has left".to_owned(),
        Change::Warning(why) => why.clone(),
    }
}

/// Starts the thread that writes. Of several writes that wait only the newest is done; it stands
/// for those before it.
pub(crate) fn start_saver(durable: Durable) -> (Saver, mpsc::Receiver<Result<u64, String>>) {
    let (saves, to_write) = threads::channel::<Save>();
    let (done, saved) = mpsc::channel(64);
    let thread = std::thread::spawn(move || {
        while let Ok(mut save) = to_write.recv() {
            while let Ok(newer) = to_write.try_recv() {
                save = newer;
            }
            let written = codec::encode(&save.kept)
                .map_err(|why| why.to_string())
                .and_then(|bytes| durable.write(&bytes).map_err(|why| why.to_string()));
            let has_failed = written.is_err();
            let said = written.map(|()| save.id).map_err(|why| {
                format!("a promise could not be written, so none can be made: {why}")
            });
            if done.blocking_send(said).is_err() || has_failed {
                return;
            }
        }
    });
    (Saver::Thread(saves, thread), saved)
}
