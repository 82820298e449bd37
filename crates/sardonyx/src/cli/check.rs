//! `sardonyx check`: what is wrong with a job, or what it would do.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use sardonyx::Registry;
use serde_json::{Value, json};

use super::{Failure, job_file};

/// Check a job file: its shape, its functions, and a few rows of its inputs sent through it. Or a
/// file of settings, with --config.
#[derive(Args)]
#[command(after_help = "\
Exit code 2: it has faults, each named on stderr with its place and what to write instead.")]
pub(crate) struct Check {
    /// The job, in TOML or JSON; - reads from stdin.
    #[arg(required_unless_present_any = ["schema", "config"])]
    job: Option<PathBuf>,

    /// Print the JSON schema of job files instead.
    #[arg(long)]
    schema: bool,

    /// Check a file of settings for `sardonyx start` instead, and show the flags that it stands for.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["job", "schema"])]
    config: Option<PathBuf>,

    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(config) = &self.config {
            return settings(config, self.json);
        }
        let registry = Registry::built_in();
        let mut out = io::stdout().lock();
        let Some(path) = self.job.filter(|_| !self.schema) else {
            let schema = super::job_schema::schema(&registry);
            return Ok(writeln!(out, "{schema:#}")?);
        };
        let (job, _) = job_file::read(&path, &registry)?;
        let whole: Value = serde_json::from_str(job.text().as_str()).map_err(Failure::world)?;
        if self.json {
            let tasks: Vec<_> = job.tasks().iter().map(|task| task.as_str()).collect();
            return Ok(writeln!(out, "{}", json!({"name": job.name(), "tasks": tasks}))?);
        }
        writeln!(out, "{}: no faults", job.name())?;
        for task in job.tasks() {
            let entry = &whole["catalog"][task.as_str()];
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            let runs = [text("plugin"), text("fn")].concat();
            let next = whole["workflow"].as_array().into_iter().flatten();
            let next: Vec<_> = next
                .filter(|edge| edge[0] == task.as_str())
                .filter_map(|edge| edge[1].as_str())
                .collect();
            let keys: Vec<_> = entry["group-by"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let by =
                if keys.is_empty() { String::new() } else { format!(" by {}", keys.join(", ")) };
            let to =
                if next.is_empty() { String::new() } else { format!(" → {}", next.join(", ")) };
            writeln!(out, "  {task}: {} {runs}{by}{to}", text("type"))?;
        }
        Ok(())
    }
}

fn settings(config: &Path, json: bool) -> Result<(), Failure> {
    let flags = super::settings::check("start", config)?;
    let mut out = io::stdout().lock();
    if json {
        return Ok(writeln!(out, "{}", json!({"flags": flags}))?);
    }
    writeln!(out, "{}: no faults", config.display())?;
    flags.iter().try_for_each(|flag| writeln!(out, "  {flag}"))?;
    Ok(())
}
