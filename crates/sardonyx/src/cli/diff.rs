//! `sardonyx diff`: what changed in the cluster between two positions.

use std::io::{self, Write};

use clap::Args;
use sardonyx_core::diff;

use super::{Failure, open_existing, replica::replica_at};

/// Show what changed in the cluster between two positions.
#[derive(Args)]
pub(crate) struct Diff {
    /// The store: embedded:DIR, sardonyx://…, etcd://…/NAME, zookeeper://…/NAME.
    url: String,

    /// The position before.
    #[arg(value_name = "A")]
    from: u64,

    /// The position after.
    #[arg(value_name = "B")]
    to: u64,

    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (old, new) = super::block_on(async {
            let store = open_existing(&self.url).await?;
            let (_, old) = replica_at(&store, Some(self.from)).await?;
            let (_, new) = replica_at(&store, Some(self.to)).await?;
            Ok((old, new))
        })?;
        let diff = diff(&old, &new);
        let text = match self.json {
            true => serde_json::to_string(&diff),
            false => serde_json::to_string_pretty(&diff),
        };
        Ok(writeln!(io::stdout().lock(), "{}", text.map_err(Failure::world)?)?)
    }
}
