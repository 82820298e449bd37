//! `sardonyx submit`: a job file, checked whole and appended.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;
use sardonyx::{
    Registry,
    job::{AnyNames, Names, RegisteredNames},
};
use sardonyx_core::JobId;
use sardonyx_peer::Client;
use serde_json::json;

use super::{
    Failure,
    cluster::{At, say},
    job_file,
};

/// Check a job file and submit it.
#[derive(Args)]
#[command(after_help = "\
Example:
  name = \"nap\"
  workflow = [[\"in\", \"out\"]]

  [catalog.in]
  type = \"input\"
  plugin = \"wait\"
  for = \"2s\"

  [catalog.out]
  type = \"output\"
  plugin = \"wait\"
  for = \"1s\"

Exit code 2: the job has faults, each of which is named on stderr, or it was rejected.")]
pub(crate) struct Submit {
    /// The job, in TOML or JSON; - reads JSON, or else TOML, from stdin.
    job: PathBuf,

    /// The job's id; left out, its name and a few random letters. Submitting one id twice runs
    /// the job once.
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Say what is wrong with it, and submit nothing.
    #[arg(long)]
    check: bool,

    /// Take functions and plugins that this build does not have: other nodes may.
    #[arg(long)]
    any_names: bool,

    #[command(flatten)]
    at: At,

    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Submit {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (text, language) = job_file::text(&self.job)?;
        let registered = RegisteredNames::new(Registry::built_in());
        let names: &dyn Names = if self.any_names { &AnyNames } else { &registered };
        let job = job_file::check(&self.job, &text, language, names)?;
        if self.check {
            let tasks: Vec<_> = job.tasks().iter().map(|task| task.as_str()).collect();
            let mut out = io::stdout().lock();
            match self.json {
                true => writeln!(out, "{}", json!({"name": job.name(), "tasks": tasks}))?,
                false => writeln!(out, "{}: no faults; tasks {}", job.name(), tasks.join(", "))?,
            }
            return Ok(());
        }
        let id = match &self.id {
            Some(id) => id.clone(),
            None => format!("{}-{}", job.name(), sardonyx_peer::fresh_name()?),
        };
        let id = JobId::new(&id).map_err(Failure::input)?;
        super::block_on(async {
            let store = self.at.open().await?;
            let mut client = Client::open(&store).await?;
            let what = id.to_string();
            say(&mut client, &job.submit(id).into(), &what, self.json).await
        })
    }
}
