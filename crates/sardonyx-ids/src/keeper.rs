//! Carries out what the lease machine says: one task per worker number, one request at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sardonyx_store::{Committed, Error, Session, Store, Txn};
use tokio::sync::watch;

use crate::{
    clock::{LEAP_LASTS, Look, Slewed, Steady},
    ids::Status,
    layout::Millis,
    lease::{
        Action, Answer, Input, Lease, Now, Problem,
        record::{Listing, PREFIX},
    },
    shared::{Clock, Shared},
};

/// How often clocks are looked at and unused ids are taken back.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// The loop around one [`Lease`].
pub(crate) struct Keeper {
    pub(crate) store: Store,
    pub(crate) lease: Lease,
    pub(crate) shared: Arc<Shared<Steady>>,
    pub(crate) lease_timeout: Duration,
    /// How long one request may take before its outcome counts as unknown.
    pub(crate) patience: Duration,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) calls: Arc<AtomicU64>,
}

struct State {
    slewed: Slewed,
    session: Option<Session>,
    offset: i64,
    /// When a leap was last reported, on the boot clock.
    leapt: Option<Millis>,
}

impl Keeper {
    /// Runs until it is stopped and the number is given back.
    pub(crate) async fn run(mut self) {
        let source = self.shared.clock().source();
        let slewed = Slewed::new(source.wall(), source.boot());
        let mut state = State { slewed, session: None, offset: 0, leapt: None };
        let mut input = Input::Tick;
        loop {
            let now = self.look(&mut state);
            let todo = self.lease.step(input, now);
            let answer = self.perform(todo, &mut state).await;
            self.publish(&state);
            if self.lease.has_ended() {
                return;
            }
            input = match answer {
                Some(answer) => answer,
                None => self.next_input(&mut state).await,
            };
        }
    }

    /// Reads the clocks and lets the generator's follow.
    fn look(&self, state: &mut State) -> Now {
        let source = self.shared.clock().source();
        let (wall, boot) = (source.wall(), source.boot());
        state.offset = match state.slewed.look(wall, boot) {
            Look::Follows(ahead) => ahead,
            Look::Leap(ahead) => ahead as i64,
        };
        self.shared.clock().set(&state.slewed);
        // Without randomness an attempt is not recognised as ours: that costs the number at worst.
        let dice = getrandom::u64().unwrap_or_default();
        Now { clock: state.slewed.at(boot), boot, offset: state.offset, dice }
    }

    async fn next_input(&mut self, state: &mut State) -> Input {
        loop {
            if *self.stop.borrow() {
                return Input::Stop(self.shared.seal());
            }
            let source = self.shared.clock().source();
            let (wall, boot) = (source.wall(), source.boot());
            let is_news = state.leapt.is_none_or(|at| boot.saturating_sub(at) >= LEAP_LASTS);
            if let Look::Leap(_) = state.slewed.look(wall, boot)
                && is_news
            {
                state.leapt = Some(boot);
                return Input::Leap(wall);
            }
            self.shared.clock().set(&state.slewed);
            self.shared.refresh();
            let left = self.lease.rest_until().saturating_sub(boot);
            if left == 0 {
                return Input::Tick;
            }
            let pause = Duration::from_millis(left).min(LOOK_PERIOD);
            tokio::select! {
                () = lost(state.session.as_ref()) => {
                    state.session = None;
                    return Input::SessionLost;
                }
                _ = self.stop.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does what was said; the answer to the request among it, if there was one.
    async fn perform(&mut self, todo: Vec<Action>, state: &mut State) -> Option<Input> {
        let mut answer = None;
        for action in todo {
            match action {
                Action::Open { number, from, until } => self.shared.open(number, from, until),
                Action::Extend(until) => self.shared.extend(until),
                Action::Seal => drop(self.shared.seal()),
                Action::FollowLeap => {
                    let source = self.shared.clock().source();
                    state.slewed.follow(source.wall(), source.boot());
                    self.shared.clock().set(&state.slewed);
                }
                Action::OpenSession => answer = Some(self.open_session(state).await),
                Action::List => answer = Some(Input::Listed(self.list().await)),
                Action::Commit { txn, in_session } => {
                    let session = state.session.as_ref().filter(|_| in_session);
                    let done = self.commit(&txn, in_session, session).await;
                    answer = Some(Input::Committed(done));
                }
                Action::Close => {
                    if let Some(session) = state.session.take() {
                        // If this fails, the timeout does the same a little later.
                        let _ = tokio::time::timeout(self.patience, session.close()).await;
                    }
                }
            }
        }
        answer
    }

    fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    async fn open_session(&self, state: &mut State) -> Input {
        self.count_call();
        state.session = None;
        let opening = self.store.session(self.lease_timeout);
        Input::Session(match tokio::time::timeout(self.patience, opening).await {
            Ok(Ok(session)) => {
                state.session = Some(session);
                Ok(())
            }
            Ok(Err(why)) => Err(problem(&why)),
            Err(_) => Err(Problem::Store(SILENT.into())),
        })
    }

    async fn list(&self) -> Result<Listing, Problem> {
        self.count_call();
        match tokio::time::timeout(self.patience, self.store.items(PREFIX)).await {
            Ok(Ok(items)) => Listing::read(&items)
                .map_err(|it| Problem::Unreadable(format!("{}: {}", it.key, it.why))),
            Ok(Err(why)) => Err(problem(&why)),
            Err(_) => Err(Problem::Store(SILENT.into())),
        }
    }

    async fn commit(&self, txn: &Txn, in_session: bool, session: Option<&Session>) -> Answer {
        self.count_call();
        let committing = async {
            match session {
                Some(session) => session.commit(txn).await,
                None if in_session => Err(Error::SessionLost("it is over".into())),
                None => self.store.commit(txn).await,
            }
        };
        match tokio::time::timeout(self.patience, committing).await {
            Ok(Ok(Committed::Done(versions))) => Answer::Done(versions),
            Ok(Ok(Committed::Refused)) => Answer::Refused,
            Ok(Err(Error::SessionLost(_))) => Answer::NoSession,
            Ok(Err(why)) => Answer::Unknown(why.to_string()),
            Err(_) => Answer::Unknown(SILENT.into()),
        }
    }

    fn publish(&self, state: &State) {
        let number = self.lease.number();
        let status = Status {
            worker: number,
            until: self.shared.until(),
            now: self.shared.clock().now(),
            offset: state.offset,
            problem: self.lease.problem().cloned(),
        };
        self.status.send_replace(status);
    }
}

const SILENT: &str = "the store does not answer; ids go on up to the mark";

fn problem(why: &Error) -> Problem {
    match why {
        Error::Unavailable(_) | Error::SessionLost(_) => Problem::Store(why.to_string()),
        Error::Corrupt(_) | Error::NotConfigured(_) | Error::TooLarge { .. } => {
            Problem::Unreadable(why.to_string())
        }
    }
}

async fn lost(session: Option<&Session>) {
    match session {
        Some(session) => session.lost().await,
        None => std::future::pending().await,
    }
}
