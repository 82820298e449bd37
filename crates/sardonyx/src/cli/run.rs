//! `sardonyx run`: a job, in a cluster that lives in this process.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use sardonyx::{Embedded, JobOutcome, Options, Place, Registry, Terms, job::Job, meter::Reading};

use serde_json::{Value, json};

use super::{Failure, job_file, stopped};

/// Run a job to its end, in a cluster that lives in this process.
#[derive(Args)]
#[command(after_help = "\
Nothing has to be installed or started. With --queues embedded:DIR the job survives: run it again
with the same --id and the same directories, and it goes on where it was.

Examples:
  sardonyx run jobs/word-count.toml
  sardonyx run jobs/word-count.toml --peers 2 --queues embedded:state --store embedded:log --id w1

Exit codes: 0 completed; 1 it was killed, by a failing task or by hand; 2 the job file is at fault;
130 it was interrupted.")]
pub(crate) struct Run {
    /// The job, in TOML or JSON; - reads from stdin.
    job: PathBuf,

    /// How many virtual peers.
    #[arg(long, short = 'p', value_name = "K", default_value_t = 8)]
    peers: u32,

    /// Compute threads; left out, one for each core.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Where messages and state are kept: memory:, embedded:DIR, sardonyx://HOST:PORT, nats://HOST:PORT
    #[arg(long, value_name = "URL", default_value = "memory:")]
    queues: String,

    /// Where the log is kept: memory: or embedded:DIR
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,

    /// The job's id; left out, its name and a few random letters.
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// No progress bar and no summary.
    #[arg(long, short)]
    quiet: bool,

    /// Print the summary as one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.peers == 0 {
            return Err(Failure::input("--peers 0: a job needs at least one peer"));
        }
        let registry = Registry::built_in();
        let (job, _) = job_file::read(&self.job, &registry)?;
        let id = match &self.id {
            Some(id) => id.clone(),
            None => format!("{}-{}", job.name(), sardonyx_peer::fresh_name()?),
        };
        super::block_on(self.drive(&job, &id, registry))
    }

    async fn drive(&self, job: &Job, id: &str, registry: Registry) -> Result<(), Failure> {
        let options = Options {
            peers: self.peers as usize,
            queues: self.queues.clone(),
            store: self.store.clone(),
            threads: self.threads,
            registry,
            spy: super::run_spy::from_environment()?,
            ..Options::default()
        };
        let began = Instant::now();
        let cluster = Embedded::start(options).await.map_err(Failure::input)?;
        let submitted = cluster.submit(job, id).await.map_err(Failure::input)?;
        let mut progress = Progress::new(self, job, rows_about(job));
        let mut signal = Box::pin(stopped());
        let mut ending = Box::pin(submitted.ended());
        let ended = loop {
            tokio::select! {
                ended = &mut ending => break Some(ended.map_err(Failure::world)?),
                asked = &mut signal => {
                    asked?;
                    break None;
                }
                () = tokio::time::sleep(Duration::from_millis(100)) => progress.show(&cluster),
            }
        };
        // It reads the log, and the store is closed when nobody does.
        drop(ending);
        progress.show(&cluster);
        progress.bar.finish_and_clear();
        let readings = std::mem::take(&mut progress.readings);
        cluster.stop().await.map_err(Failure::world)?;
        let Some(ended) = ended else {
            return Err(Failure::Interrupted(format!(
                "{id} was interrupted; what was committed stays, and the same command goes on from \
                 there if --queues and --store name directories"
            )));
        };
        if !self.quiet {
            self.sum_up(job, id, ended.outcome, &readings, began.elapsed())?;
        }
        match ended.outcome {
            JobOutcome::Completed => Ok(()),
            JobOutcome::Killed => {
                let reason = ended.reason.unwrap_or_else(|| "no reason was given".into());
                Err(Failure::world(format!("{id} was killed: {reason}")))
            }
        }
    }

    fn sum_up(
        &self,
        job: &Job,
        id: &str,
        outcome: JobOutcome,
        readings: &BTreeMap<String, Reading>,
        took: Duration,
    ) -> Result<(), Failure> {
        let mut out = io::stderr().lock();
        if self.json {
            let task = |name: &str| {
                let it = readings.get(name).copied().unwrap_or_default();
                json!({"task": name, "in": it.rows_in, "out": it.rows_out,
                       "failed": it.rows_failed, "commits": it.commits})
            };
            let tasks: Vec<_> = job.tasks().iter().map(|it| task(it.as_str())).collect();
            let outcome = match outcome {
                JobOutcome::Completed => "completed",
                JobOutcome::Killed => "killed",
            };
            let line = json!({"job": id, "outcome": outcome, "tasks": tasks,
                              "seconds": took.as_secs_f64(), "cpu-seconds": cpu_seconds(),
                              "peak-bytes": peak_bytes()});
            return Ok(writeln!(io::stdout().lock(), "{line}")?);
        }
        let widest = job.tasks().iter().map(|task| task.as_str().len()).max().unwrap_or(0);
        for task in job.tasks() {
            let it = readings.get(task.as_str()).copied().unwrap_or_default();
            // As texts: counts alone do not keep to a width.
            let count = |n: u64| HumanCount(n).to_string();
            let (rows_in, rows_out) = (count(it.rows_in), count(it.rows_out));
            let failed = match it.rows_failed {
                0 => String::new(),
                n => format!("  {} failed", HumanCount(n)),
            };
            writeln!(out, "  {task:widest$}  {rows_in:>12} in  {rows_out:>12} out{failed}")?;
        }
        let rows = readings.values().map(|it| it.rows_in).max().unwrap_or(0);
        let rate = rows as f64 / took.as_secs_f64().max(1e-6);
        let verb = match outcome {
            JobOutcome::Completed => "completed",
            JobOutcome::Killed => "killed",
        };
        let (seconds, rate) = (took.as_secs_f64(), count(rate));
        let (cpu, peak) = (cpu_seconds(), peak_bytes() / 1_000_000);
        Ok(writeln!(out, "{id} {verb} in {seconds:.2} s, {rate}/s; {cpu:.2} CPU s, {peak} MB")?)
    }
}

/// How much processor time this process has used. The kernel counts in hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may have spaces; what comes after its bracket has none.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = after.split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The most memory that this process has had.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// A number that a person can take in.
fn count(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.1} k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

/// What is shown while the job runs.
struct Progress {
    bar: ProgressBar,
    began: Instant,
    readings: BTreeMap<String, Reading>,
    tasks: Vec<String>,
    /// The inputs, and about how many rows they have in all, if that is known.
    inputs: Option<(Vec<String>, u64)>,
}

/// The inputs of a job, and about how many rows they have in all: if all of them know.
fn rows_about(job: &Job) -> Option<(Vec<String>, u64)> {
    let whole: Value = serde_json::from_str(job.text().as_str()).ok()?;
    let registry = Registry::built_in();
    let tasks = job.tasks().iter().map(|task| task.as_str());
    let inputs = tasks.filter(|task| whole["catalog"][*task]["type"] == "input");
    let inputs: Vec<String> = inputs.map(str::to_owned).collect();
    let of = |task: &String| {
        let terms = Terms::new("", task, &whole["catalog"][task.as_str()]);
        registry.make_input(&terms).ok()?.rows_about()
    };
    let rows = inputs.iter().map(of).sum::<Option<u64>>()?;
    Some((inputs, rows)).filter(|(_, rows)| *rows > 0)
}

impl Progress {
    fn new(run: &Run, job: &Job, inputs: Option<(Vec<String>, u64)>) -> Progress {
        let is_shown = !run.quiet && !run.json && io::stderr().is_terminal();
        let bar = match (is_shown, &inputs) {
            (false, _) => ProgressBar::hidden(),
            (true, None) => ProgressBar::new_spinner(),
            (true, Some((_, rows))) => ProgressBar::new(*rows),
        };
        let form = match inputs {
            None => "{spinner} {elapsed} {msg}",
            Some(_) => "{bar:24} {percent}%, about {eta} left  {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        let tasks = job.tasks().iter().map(|task| task.to_string()).collect();
        Progress { bar, began: Instant::now(), readings: BTreeMap::new(), tasks, inputs }
    }

    fn show(&mut self, cluster: &Embedded) {
        for (Place { task, .. }, reading) in cluster.meters().read() {
            self.readings.insert(task, reading);
        }
        let seconds = self.began.elapsed().as_secs_f64().max(1e-6);
        let task = |name: &String| {
            let rows = self.readings.get(name).map_or(0, |it| it.rows_in.max(it.rows_out));
            format!("{name} {} ({}/s)", HumanCount(rows), count(rows as f64 / seconds))
        };
        let shown: Vec<_> = self.tasks.iter().map(task).collect();
        self.bar.set_message(shown.join("  "));
        if let Some((inputs, rows)) = &self.inputs {
            let read = inputs.iter().filter_map(|task| self.readings.get(task));
            // What was expected is a guess: a job is not done before it says so.
            let read = read.map(|it| it.rows_out).sum::<u64>();
            self.bar.set_position(read.min(rows.saturating_sub(1)));
        }
        self.bar.tick();
    }
}

#[cfg(test)]
mod tests {
    use sardonyx::job::{AnyNames, Language};

    use super::*;

    fn inputs(keys: &str) -> Option<(Vec<String>, u64)> {
        let text = format!(
            "name = \"j\"\nworkflow = [[\"in\", \"out\"]]\n[catalog.in]\ntype = \"input\"\n\
             plugin = \"generate\"\n{keys}\n[catalog.out]\ntype = \"output\"\nplugin = \"null\""
        );
        rows_about(&Job::read(&text, Language::Toml, &AnyNames).unwrap())
    }

    #[test]
    fn what_is_left_is_known_if_all_inputs_know_their_size() {
        assert_eq!(inputs("count = 500"), Some((vec!["in".to_owned()], 500)));
        assert_eq!(inputs(""), None, "without an end");
        assert_eq!(inputs("count = 0"), None, "nothing to wait for");
    }
}
