//! Saying something to a cluster from outside, and learning what became of it.

use sardonyx_core::{Command, Entry, Outcome, PeerId, Position, Replica, apply, command::Gc};
use sardonyx_store::{Delivery, Error, Origin, Result, Start, Store, Subscription};

use crate::{
    driver::{fresh_name, is_caught_up},
    node::{Input, Node},
    trim::{self, Trimmed},
};

/// A reader of the log that can also write. It takes part in nothing.
#[derive(Debug)]
pub struct Client {
    store: Store,
    subscription: Subscription,
    /// A node without peers: it plays, and keeps what the jobs are.
    node: Node,
    position: Option<Position>,
}

/// What became of something that was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// Where it stands.
    pub position: Position,
    /// Whether it was applied, or why not; `None` when the log was trimmed before we read so.
    pub outcome: Option<Outcome>,
}

impl Client {
    /// Reads up to where the log ends now.
    pub async fn open(store: &Store) -> Result<Client> {
        let subscription = store.subscribe(Start::Origin);
        let node = Node::new(None);
        let mut client = Client { store: store.clone(), subscription, node, position: None };
        client.catch_up().await?;
        Ok(client)
    }

    /// The cluster, as far as was read.
    pub fn replica(&self) -> &Replica {
        self.node.replica()
    }

    /// The last position that was read.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Reads up to where the log ends now.
    pub async fn catch_up(&mut self) -> Result<()> {
        let end = self.store.end().await?;
        while !is_caught_up(self.position, end) {
            let Some(delivery) = crate::driver::next_soon(&mut self.subscription).await? else {
                return Ok(());
            };
            self.play(delivery);
        }
        Ok(())
    }

    /// Waits for one more entry, or origin, and plays it.
    pub async fn next(&mut self) -> Result<()> {
        let delivery = self.subscription.next().await?;
        self.play(delivery);
        Ok(())
    }

    /// Appends `command` and reads until it is played.
    pub async fn say(&mut self, command: &Command) -> Result<Said> {
        self.catch_up().await?;
        let appended = self.store.append(command).await?;
        loop {
            let delivery = self.subscription.next().await?;
            let before = self.replica().clone();
            // The position that the append returned may be that of a copy, which nobody reads; the
            // first of its kind from where we were is ours, or has done what ours asks.
            let played = match &delivery {
                Delivery::Entry { position, command: Ok(read) } if read == command => {
                    let entry = Entry { position: *position, command: read.clone() };
                    Some((*position, apply(&before, &entry).1))
                }
                Delivery::Entry { .. } | Delivery::Origin(_) => None,
            };
            self.play(delivery);
            if let Some((position, outcome)) = played {
                return Ok(Said { position, outcome: Some(outcome) });
            }
            if self.position >= Some(appended) {
                return Ok(Said { position: appended, outcome: None });
            }
        }
    }

    /// Has ended jobs forgotten, stores the origin there and trims the log. Says where, or `None`
    /// if somebody else has just done the same.
    pub async fn gc(&mut self) -> Result<Option<Position>> {
        let caller = PeerId::new(&format!("gc-{}", fresh_name()?));
        let caller = caller.map_err(|why| Error::NotConfigured(why.to_string()))?;
        self.say(&Gc { caller }.into()).await?;
        let Some(position) = self.position else { return Ok(None) };
        let replica = self.replica().clone();
        let origin = Origin { position, replica, seen: self.subscription.seen().clone() };
        let trimmed = trim::trim(&self.store, &origin, self.node.jobs(), None).await?;
        Ok((trimmed == Trimmed::Here).then_some(position))
    }

    fn play(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Origin(origin) => {
                self.position = Some(origin.position);
                self.node.step(Input::Origin(origin.position, origin.replica));
            }
            Delivery::Entry { position, command } => {
                self.position = Some(position);
                if let Ok(command) = command {
                    self.node.step(Input::Entries(vec![Entry { position, command }]));
                }
            }
        }
    }
}
