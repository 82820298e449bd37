//! `sardonyx kill`: a job is to end.

use clap::Args;
use sardonyx_core::{JobId, command::KillJob};
use sardonyx_peer::Client;

use super::{
    Failure,
    cluster::{At, say},
};

/// End a job and free its peers.
#[derive(Args)]
#[command(after_help = "Exit code 2: it was rejected, because there is no such job or it is over.")]
pub(crate) struct Kill {
    /// The job's id.
    job: String,

    /// Why, for whoever reads the log.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,

    #[command(flatten)]
    at: At,

    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Kill {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let job = JobId::new(&self.job).map_err(Failure::input)?;
        super::block_on(async {
            let store = self.at.open().await?;
            let mut client = Client::open(&store).await?;
            let command = KillJob { job, reason: self.reason }.into();
            say(&mut client, &command, &format!("kill {}", self.job), self.json).await
        })
    }
}
