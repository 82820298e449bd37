//! What one can say about a run.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum, builder::PossibleValuesParser};

use crate::{
    fault::KINDS,
    judge::traffic::{Least, ORDINARY, USUAL},
    plan::{Kinds, Plan},
};

/// How many jobs come on an ordinary day: about half of what two cores can do.
const SOAK_JOBS_A_MINUTE: u32 = 30;

/// Where the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StoreKind {
    /// Three servers of etcd.
    Etcd,
    /// Three servers of ZooKeeper.
    Zookeeper,
    /// A directory that one process serves.
    Embedded,
}

/// Where messages between tasks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum QueueKind {
    /// A NATS server with JetStream.
    Nats,
    /// A directory that one process serves.
    Embedded,
}

/// A run.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How long things go wrong; before it processes start, after it they calm down.
    #[arg(long, value_name = "M", default_value_t = 15.0)]
    pub minutes: f64,

    /// Which faults there are, when and with whom.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Where the log is.
    #[arg(long, value_enum, default_value = "etcd")]
    pub store: StoreKind,

    /// Where messages between tasks are.
    #[arg(long, value_enum, default_value = "nats")]
    pub queues: QueueKind,

    /// The program under test; left out, the one beside this.
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,

    /// Where everything is written down; left out, a new directory below the system's temporary one.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Everything on loopback: no namespaces and no root, so nothing that is done to lines (cuts, resets,
    /// thin ones, flickers), and no full disks.
    #[arg(long)]
    pub no_sandbox: bool,

    /// An ordinary day instead of a storm: two nodes are killed and come back, one or the other twice a
    /// minute, and nobody else may grow.
    #[arg(long)]
    pub soak: bool,

    /// How many rows each batch job has.
    #[arg(long, value_name = "N", default_value_t = 30_000)]
    pub rows: u64,

    /// How many batch jobs run at a time at the most.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub jobs: usize,

    /// How many batch jobs a minute are submitted; a run that gets less than nine tenths of them in is
    /// void. Left out, as many as come to an end, or thirty with --soak.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub jobs_a_minute: Option<u32>,

    /// How many rows a second come by the clock, to each of the two streams.
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub rate: u64,

    /// How long the calm may take until all is well.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub calm: u64,

    /// Fewer kills a minute make a run void.
    #[arg(long, value_name = "N", default_value_t = USUAL.kills_a_minute, conflicts_with = "soak")]
    pub kills_least: f64,

    /// Fewer rows a second make a run void.
    #[arg(long, value_name = "N", default_value_t = USUAL.rows_a_second, conflicts_with = "soak")]
    pub rows_least: f64,

    /// Fewer ids a second make a run void.
    #[arg(long, value_name = "N", default_value_t = USUAL.ids_a_second, conflicts_with = "soak")]
    pub ids_least: f64,

    /// Every kind of fault, instead of about half of them: what comes all the time hides what is rare, so
    /// this is no substitute for other seeds.
    #[arg(long, conflicts_with = "soak")]
    pub every_kind: bool,

    /// Kinds of faults that the plan is to do without, otherwise as it is; --plan shows their names.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kinds(), conflicts_with = "soak")]
    pub leave_out: Vec<String>,

    /// Prints the plan and does nothing.
    #[arg(long)]
    pub plan: bool,

    /// Prints the verdict as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// The names of all kinds of faults.
fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(KINDS.iter().map(|kind| kind.name))
}

impl Options {
    /// What goes wrong.
    pub fn plan(&self, has_sandbox: bool) -> Plan {
        match self.soak {
            true => Plan::soak(self.seed, self.storm_ms()),
            false => {
                let kinds = if self.every_kind { Kinds::All } else { Kinds::Some };
                Plan::draw_of(self.seed, self.storm_ms(), has_sandbox, kinds, &self.leave_out)
            }
        }
    }

    /// What must happen at least.
    pub fn least(&self) -> Least {
        if self.soak {
            return ORDINARY;
        }
        Least {
            kills_a_minute: self.kills_least,
            rows_a_second: self.rows_least,
            ids_a_second: self.ids_least,
        }
    }

    /// How long it takes at least from one batch job to the next. The load of an ordinary day is steady:
    /// where jobs come as fast as others end, nodes are as large as the machine leaves them time for, and
    /// who looks for growth sees how busy the machine was.
    pub fn between_jobs(&self) -> Duration {
        self.pace().map_or(Duration::ZERO, |n| Duration::from_secs(60) / n)
    }

    /// How many batch jobs are to come while the storm lasts, where that is settled.
    pub fn jobs_due(&self) -> Option<u64> {
        self.pace().map(|n| self.storm_ms().saturating_mul(n.into()) / 60_000)
    }

    /// Batch jobs a minute.
    fn pace(&self) -> Option<u32> {
        self.jobs_a_minute.or(self.soak.then_some(SOAK_JOBS_A_MINUTE))
    }

    /// How long the storm lasts.
    pub fn storm_ms(&self) -> u64 {
        (self.minutes.max(0.0) * 60_000.0) as u64
    }

    /// Whether there is a process that serves a store, queues, or both.
    pub fn has_host(&self) -> bool {
        self.store == StoreKind::Embedded || self.queues == QueueKind::Embedded
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(args: &[&str]) -> Option<Options> {
        Cli::try_parse_from([&["fire"], args].concat()).ok().map(|it| it.options)
    }

    fn between(args: &[&str]) -> Option<Duration> {
        parsed(args).map(|it| it.between_jobs())
    }

    #[test]
    fn a_pace_settles_how_many_jobs_come() {
        let due = |args: &[&str]| parsed(args).and_then(|it| it.jobs_due());
        assert_eq!(due(&["--minutes", "15"]), None);
        assert_eq!(due(&["--minutes", "60", "--soak"]), Some(1_800));
        assert_eq!(due(&["--minutes", "1.5", "--jobs-a-minute", "7"]), Some(10));
        assert_eq!(due(&["--minutes", "0", "--soak"]), Some(0));
    }

    #[test]
    fn an_ordinary_day_has_a_steady_load_and_a_storm_takes_what_it_gets() {
        assert_eq!(between(&[]), Some(Duration::ZERO));
        assert_eq!(between(&["--soak"]), Some(Duration::from_secs(2)));
        assert_eq!(
            between(&["--soak", "--jobs-a-minute", "60000"]),
            Some(Duration::from_millis(1))
        );
        assert_eq!(between(&["--jobs-a-minute", "1"]), Some(Duration::from_secs(60)));
        for wrong in ["0", "60001"] {
            assert_eq!(between(&["--jobs-a-minute", wrong]), None);
        }
    }
}
