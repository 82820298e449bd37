//! A process of the run: started, killed, stopped, and started again, by its own id.

use std::{
    io,
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, Output, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{place::Place, trace::Trace};

type Recipe = Box<dyn Fn() -> io::Result<Command> + Send + Sync>;

/// A process, whether it runs or not.
pub(crate) struct Process {
    place: Place,
    recipe: Recipe,
    child: Mutex<Option<Child>>,
    /// Whether it is to run: whoever finds it dead starts it again.
    is_wanted: AtomicBool,
    /// Held by whoever takes it down until it is up again.
    lane: tokio::sync::Mutex<()>,
}

impl Process {
    pub(crate) fn new(place: Place, recipe: Recipe) -> Process {
        let (child, is_wanted) = (Mutex::new(None), AtomicBool::new(false));
        Process { place, recipe, child, is_wanted, lane: tokio::sync::Mutex::new(()) }
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it, if it does not run.
    pub(crate) fn start(&self, trace: &Trace) -> io::Result<()> {
        self.is_wanted.store(true, Ordering::Relaxed);
        let mut child = self.child();
        if child.is_none() {
            let started = (self.recipe)()?.spawn()?;
            trace.note("started", json!({"who": self.place.to_string(), "pid": started.id()}));
            *child = Some(started);
        }
        Ok(())
    }

    /// kill -9, if it runs.
    pub(crate) fn kill(&self, trace: &Trace) {
        self.is_wanted.store(false, Ordering::Relaxed);
        if let Some(mut child) = self.child().take() {
            // It may have ended by itself a moment ago.
            let _ = child.kill();
            let _ = child.wait();
            trace.note("killed", json!({"who": self.place.to_string(), "pid": child.id()}));
        }
    }

    /// Its process id, if it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// Nobody else takes it down while this is held.
    pub(crate) async fn lane(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.lane.lock().await
    }

    fn signal(&self, signal: Signal) -> bool {
        let child = self.child();
        let pid = child.as_ref().and_then(|child| Pid::from_raw(child.id() as i32));
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// SIGSTOP. Written down before, because what is said in between says nothing.
    pub(crate) fn pause(&self, trace: &Trace) {
        trace.note("stopped", json!({"who": self.place.to_string()}));
        self.signal(Signal::STOP);
    }

    /// SIGCONT; of one that runs it is without effect.
    pub(crate) fn resume(&self, trace: &Trace) {
        self.signal(Signal::CONT);
        trace.note("continued", json!({"who": self.place.to_string()}));
    }

    /// Whether it runs.
    pub(crate) fn runs(&self) -> bool {
        let mut child = self.child();
        child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Looks whether it has ended by itself, and starts it again if it should run.
    pub(crate) fn look_after(&self, trace: &Trace) -> io::Result<()> {
        if !self.is_wanted.load(Ordering::Relaxed) {
            return Ok(());
        }
        let ended = {
            let mut child = self.child();
            let status = child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            status.inspect(|_| *child = None)
        };
        if let Some(status) = ended {
            let (code, signal) = (status.code(), status.signal());
            let who = self.place.to_string();
            trace.note("exited", json!({"who": who, "code": code, "signal": signal}));
            return self.start(trace);
        }
        Ok(())
    }
}

/// What a command that ends by itself said. One that has not ended after so long is killed, and an error.
pub(crate) async fn answer(mut command: Command, max: Duration) -> io::Result<Output> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pid = Pid::from_raw(child.id() as i32);
    let mut waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    if let Ok(done) = tokio::time::timeout(max, &mut waiting).await {
        return done.map_err(io::Error::other)?;
    }
    // Whoever waits for it knows when it has ended: until then its id is nobody else's.
    if let Some(pid) = pid {
        kill_process(pid, Signal::KILL)?;
    }
    waiting.await.map_err(io::Error::other)??;
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("no end after {max:?}: {command:?}")))
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child().take() {
            // A stopped process is killed as well.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_that_has_no_end_is_ended() {
        let mut well = Command::new("echo");
        well.arg("well");
        let output = answer(well, Duration::from_secs(60)).await.expect("an end");
        assert_eq!(output.stdout, b"well\n");
        let mut endless = Command::new("sleep");
        endless.arg("600");
        let why = answer(endless, Duration::from_millis(50)).await.expect_err("none");
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
    }
}
