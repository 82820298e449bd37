//! `sardonyx log`: what the cluster was asked, in order.

use std::io::{self, BufWriter, Write};

use clap::Args;
use sardonyx_core::{Entry, Position, wire};
use sardonyx_store::{Delivery, Start, Store};

use super::{Failure, next_batch, open_existing};

/// Show the entries of a log.
#[derive(Args)]
#[command(after_help = "\
Example: what would have happened otherwise?
  sardonyx log etcd://127.0.0.1:2379/prod --json | sardonyx replay --as p7

An entry that this build cannot read changes nothing anywhere; it is shown on stderr with --json.")]
pub(crate) struct Log {
    /// The store: memory:, embedded:DIR, sardonyx://…, etcd://…/NAME, zookeeper://…/NAME.
    url: String,

    /// Begin at this position.
    #[arg(long, value_name = "K", default_value_t = 0)]
    from: u64,

    /// Go on with new entries as they come.
    #[arg(long)]
    follow: bool,

    /// Print one JSON object a line, as `sardonyx replay` reads it.
    #[arg(long)]
    json: bool,
}

impl Log {
    pub(crate) fn run(self) -> Result<(), Failure> {
        super::block_on(async {
            let store = open_existing(&self.url).await?;
            self.show(&store).await
        })
    }

    async fn show(&self, store: &Store) -> Result<(), Failure> {
        let end = if self.follow { None } else { Some(store.end().await?) };
        let mut out = BufWriter::new(io::stdout().lock());
        if end == Some(None) {
            if let Some(origin) = store.origin().await? {
                note_origin(self.json, origin.position, &origin.replica.to_string());
            }
            return Ok(());
        }
        let mut subscription = store.subscribe(Start::Origin);
        let mut batch = Vec::new();
        loop {
            match self.follow {
                true => subscription.next_batch(&mut batch).await?,
                false => next_batch(&mut subscription, &mut batch).await?,
            }
            if batch.is_empty() {
                return Ok(out.flush()?);
            }
            for delivery in batch.drain(..) {
                let at = self.line(&mut out, delivery)?;
                if end.flatten().is_some_and(|end| at >= end) {
                    return Ok(out.flush()?);
                }
            }
            out.flush()?;
        }
    }

    /// Writes one line, or none before `from`; says which position it was.
    fn line(&self, out: &mut impl Write, delivery: Delivery) -> Result<Position, Failure> {
        let (position, command) = match delivery {
            Delivery::Origin(origin) => {
                note_origin(self.json, origin.position, &origin.replica.to_string());
                return Ok(origin.position);
            }
            Delivery::Entry { position, command } => (position, command),
        };
        if position.0 < self.from {
            return Ok(position);
        }
        match command {
            Ok(command) => {
                let entry = Entry { position, command };
                match self.json {
                    true => writeln!(out, "{}", wire::entry_to_json(&entry))?,
                    false => writeln!(out, "{entry}")?,
                }
            }
            Err(why) if self.json => {
                eprintln!("sardonyx: entry {position} cannot be read: {why}");
            }
            Err(why) => writeln!(out, "{position} cannot be read: {why}")?,
        }
        Ok(position)
    }
}

/// What stands in place of the entries that were trimmed.
fn note_origin(json: bool, position: Position, replica: &str) {
    match json {
        true => eprintln!(
            "sardonyx: entries up to {position} are trimmed; replay from what \
             `sardonyx replica URL --at {position} --json` prints"
        ),
        false => eprintln!("origin at {position}: {replica}"),
    }
}
