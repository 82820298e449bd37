//! The worker number of a node: the names of its lives, and so the ids of its peers, are ids that
//! it makes with that number.
//!
//! The number has a session of its own, because it outlives the node's: what makes its ids unique
//! is the mark in the store, and a life that lost its session needs a new name at once.

use std::{sync::Arc, time::Duration};

use sardonyx_ids::{
    Config, Form, Ids, NoIds,
    lease::{Problem, Terms},
};
use sardonyx_peer::{Event, Namer, Worker};
use sardonyx_store::{Error, Store};

use super::Failure;

/// How long somebody who waits for a number goes without looking whether there is one.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long giving the number back may take; it comes free by itself a little later.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// A node's worker number, or its wish for one.
pub(super) struct Number(Arc<Ids>);

impl Number {
    /// Begins to ask for one.
    pub(super) fn ask(store: &Store, label: String) -> Result<Number, Failure> {
        let terms = Terms { name: label, ..Terms::default() };
        let ids = Ids::start(store, Config { terms, ..Config::default() });
        ids.map(|ids| Number(Arc::new(ids))).map_err(Failure::input)
    }

    /// Names out of ids. While there is no number, `watcher` hears why.
    pub(super) fn namer(&self, watcher: Arc<dyn Fn(&Event) + Send + Sync>) -> Namer {
        let ids = Arc::clone(&self.0);
        Arc::new(move || {
            let (ids, watcher) = (Arc::clone(&ids), Arc::clone(&watcher));
            Box::pin(async move { name(&ids, &*watcher).await })
        })
    }

    /// Says which number it is, while there is one. Does not keep anybody from giving it back.
    pub(super) fn worker(&self) -> Worker {
        let status = self.0.watch();
        Arc::new(move || status.borrow().worker)
    }

    /// Gives the number back. Needs everybody who names to be gone; otherwise it comes free by
    /// itself.
    pub(super) async fn leave(self) {
        if let Some(ids) = Arc::into_inner(self.0) {
            let _ = tokio::time::timeout(LEAVE_MAX, ids.leave()).await;
        }
    }
}

async fn name(ids: &Ids, watcher: &(dyn Fn(&Event) + Send + Sync)) -> Result<String, Error> {
    let (mut status, mut said) = (ids.watch(), Problem::Joining);
    loop {
        let problem = match ids.next_wait().await {
            Ok(id) => return Ok(Form::Base32.write(id).to_lowercase()),
            Err(NoIds::NotReady(problem)) if problem.is_transient() => problem,
            Err(why) => return Err(Error::NotConfigured(why.to_string())),
        };
        if problem != said && problem != Problem::Joining {
            watcher(&Event::Waiting(problem.to_string()));
            said = problem;
        }
        // Whether something has changed or not: the clock goes on without saying so.
        let _ = tokio::time::timeout(LOOK_EVERY, status.changed()).await;
    }
}
