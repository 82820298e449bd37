//! `sardonyx replica`: the cluster as it was at a position.

use std::io::{self, Write};

use clap::Args;
use sardonyx_core::{Entry, Position, Replica as Cluster, wire};
use sardonyx_store::{Delivery, Start, Store};

use super::{Failure, next_batch, open_existing};

/// Show the cluster as a value, now or at any position that the log still has.
#[derive(Args)]
pub(crate) struct Replica {
    /// The store: embedded:DIR, sardonyx://…, etcd://…/NAME, zookeeper://…/NAME.
    url: String,

    /// The position: what the cluster was after the entry there.
    #[arg(long, value_name = "K")]
    at: Option<u64>,

    /// Print the replica as one line of JSON, as `sardonyx replay --origin` reads it.
    #[arg(long)]
    json: bool,
}

impl Replica {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (position, replica) = super::block_on(async {
            let store = open_existing(&self.url).await?;
            replica_at(&store, self.at).await
        })?;
        let mut out = io::stdout().lock();
        if self.json {
            return Ok(writeln!(out, "{}", wire::replica_to_json(&replica))?);
        }
        let digest = wire::digest(&replica);
        let digest: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        match position {
            Some(position) => writeln!(out, "after entry {position}, digest {digest}…")?,
            None => writeln!(out, "before the first entry, digest {digest}…")?,
        }
        Ok(writeln!(out, "{replica}")?)
    }
}

/// The replica after the last entry up to `at`, and that entry's position.
pub(super) async fn replica_at(
    store: &Store,
    at: Option<u64>,
) -> Result<(Option<Position>, Cluster), Failure> {
    let (mut position, mut replica) = (None, Cluster::new());
    let origin = store.origin().await?;
    if let (Some(origin), Some(at)) = (&origin, at)
        && at < origin.position.0
    {
        let first = origin.position;
        return Err(Failure::input(format!(
            "the log is trimmed up to {first}: ask for a later one"
        )));
    }
    let end = store.end().await?.filter(|end| origin.is_none_or(|origin| *end > origin.position));
    let Some(end) = end else {
        // Nothing but an origin, or nothing at all.
        return Ok(match store.origin().await? {
            Some(origin) => (Some(origin.position), origin.replica),
            None => (None, replica),
        });
    };
    let last = at.map_or(end, |at| end.min(Position(at)));
    let mut subscription = store.subscribe(Start::Origin);
    let mut batch = Vec::new();
    loop {
        next_batch(&mut subscription, &mut batch).await?;
        if batch.is_empty() {
            return Ok((position, replica));
        }
        for delivery in batch.drain(..) {
            let (next, command) = match delivery {
                Delivery::Origin(origin) => {
                    (position, replica) = (Some(origin.position), origin.replica);
                    if Some(last) <= position {
                        return Ok((position, replica));
                    }
                    continue;
                }
                Delivery::Entry { position, command } => (position, command),
            };
            if next > last {
                return Ok((position, replica));
            }
            if let Ok(command) = command {
                // A rejected command changes nothing, and that is all that matters here.
                let _ = replica.play(&Entry { position: next, command });
            }
            position = Some(next);
            if next == last {
                return Ok((position, replica));
            }
        }
    }
}
