//! `sardonyx gc`: forget what is over, and trim the log.

use std::io::{self, Write};

use clap::Args;
use sardonyx_peer::Client;
use serde_json::json;

use super::{Failure, cluster::At};

/// Forget ended jobs, store the cluster as it is, and trim the log before it.
#[derive(Args)]
#[command(after_help = "\
Nodes do this by themselves when the log has grown (sardonyx start --trim-after). A reader that is
behind goes on from the stored cluster; nobody has to be stopped.")]
pub(crate) struct Gc {
    #[command(flatten)]
    at: At,

    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Gc {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (trimmed, n_jobs) = super::block_on(async {
            let store = self.at.open().await?;
            let mut client = Client::open(&store).await?;
            let ended = client.replica().jobs().filter(|job| !job.is_live()).count();
            Ok((client.gc().await?, ended))
        })?;
        let mut out = io::stdout().lock();
        match (self.json, trimmed) {
            (true, _) => writeln!(out, "{}", json!({"origin": trimmed, "jobs": n_jobs}))?,
            (false, Some(at)) => {
                writeln!(out, "the log now begins at entry {at}; {n_jobs} ended jobs collected")?;
            }
            (false, None) => {
                writeln!(out, "somebody else has just stored a later origin; nothing to do")?;
            }
        }
        Ok(())
    }
}
