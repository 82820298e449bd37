//! What goes on inside a node, for whoever has to find out: on stderr, as lines or as JSON.
//!
//! Beside this a node prints what happens to it on stdout ([`start_events`](super::start_events)).
//! The same is logged: what somebody should look at as a warning, lives and trimming as information,
//! peers and tasks, of which there are many, for those who debug.

use std::io;

use clap::{Args, ValueEnum};
use sardonyx_peer::Event;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer as _, Registry, filter::Targets, layer::SubscriberExt as _};

use super::{Failure, start_traces::Traces};

/// The log of a node.
#[derive(Args, Clone, Debug)]
pub(super) struct Log {
    /// In which form the log is written to stderr.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Form::Human)]
    log: Form,

    /// From which level on something is logged.
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Level::Warn)]
    log_level: Level,

    /// Where traces are sent: the gRPC address of an OpenTelemetry collector, http://127.0.0.1:4317. Only in
    /// a program that was built with --features otel.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Lines for people.
    Human,
    /// One JSON object a line.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Level {
    /// Nothing.
    Off,
    /// What has failed for good.
    Error,
    /// What somebody should look at.
    Warn,
    /// What happens rarely.
    Info,
    /// What happens all the time.
    Debug,
    /// Everything.
    Trace,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> LevelFilter {
        match level {
            Level::Off => LevelFilter::OFF,
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
            Level::Trace => LevelFilter::TRACE,
        }
    }
}

impl Log {
    /// From now on what is logged in this process is written, and traces are sent. The first call holds.
    /// Needs a runtime, for what sends.
    pub(super) fn begin(&self) -> Result<Traces, Failure> {
        let traces = Traces::to(self.otlp.as_deref())?;
        // Libraries that speak to servers print all that they send when they are asked for details,
        // passwords too.
        let level = LevelFilter::from(self.log_level);
        let ours = Targets::new()
            .with_default(level.min(LevelFilter::INFO))
            .with_target("sardonyx", level);
        let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
        let lines = match self.log {
            Form::Human => lines.boxed(),
            Form::Json => lines.json().boxed(),
        };
        let all = Registry::default().with(lines.with_filter(ours)).with(traces.layer());
        // Somebody was faster only if there are two nodes in one process, and one log is enough.
        let _ = tracing::subscriber::set_global_default(all);
        Ok(traces)
    }
}

/// Logs something that happened to a node.
pub(super) fn note(event: &Event) {
    use tracing::{debug, info, warn};
    let at = |position: &Option<sardonyx_core::Position>| position.map(|it| it.0);
    match event {
        Event::Waiting(why) => warn!(%why, "waiting"),
        Event::Began(life, session) => info!(%life, ?session, "a life begins"),
        Event::Played(to, end) => debug!(position = at(to), end = at(end), "played"),
        Event::CaughtUp(to, ring) => info!(position = at(to), ring, "caught up"),
        Event::Joined(peer, ring) => debug!(%peer, ring, "joined"),
        Event::Left(peer) => warn!(%peer, "a peer of ours was said to have left"),
        Event::TaskStarted(peer, it) => {
            debug!(%peer, job = %it.job, task = %it.task, epoch = it.since.0, "task started");
        }
        Event::TaskStopped(peer, it) => {
            debug!(%peer, job = %it.job, task = %it.task, epoch = it.since.0, "task stopped");
        }
        Event::Collecting(why, version) => {
            info!(%why, version, "as leader of the mesh, this node collects what is over");
        }
        Event::Mesh(change) => {
            info!(change = sardonyx_mesh::describe(change), "the mesh has changed")
        }
        Event::Trimmed(to) => info!(position = to.0, "the log was trimmed"),
        Event::NotTrimmed(why) => warn!(%why, "the log was not trimmed"),
        Event::Unreadable(position, why) => {
            warn!(position = position.0, %why, "an entry cannot be read");
        }
        Event::Again(why, pause) => warn!(%why, ?pause, "a life is over, another will begin"),
        Event::Leaving(peers) => info!(peers, "leaving the ring"),
    }
}
