//! Another process that holds a pulse: this test binary, started again.

use std::{
    io::{BufRead, BufReader, Write as _},
    process::{ChildStdout, Command, Stdio},
    time::Duration,
};

use sardonyx_core::PeerId;

use super::arena::OPTIONS;
use crate::Store;

const URL: &str = "SARDONYX_SUITE_URL";
const PEER: &str = "SARDONYX_SUITE_PEER";
const TIMEOUT: &str = "SARDONYX_SUITE_TIMEOUT_MS";

/// The name of the test that a child runs; see [`hold_pulse`].
const TEST: &str = "suite_child";

/// The body of a test named `suite_child`, which every binary that runs the suite has at its root.
/// Run as a test it does nothing; run as a child it holds a pulse until its session is lost.
pub fn hold_pulse() {
    let var = |name| std::env::var(name).ok();
    let (Some(url), Some(peer), Some(timeout)) = (var(URL), var(PEER), var(TIMEOUT)) else {
        return;
    };
    super::run(async {
        let peer = PeerId::new(&peer).expect("a peer id");
        let timeout = Duration::from_millis(timeout.parse().expect("milliseconds"));
        let store = Store::open(&url, OPTIONS).await.expect("the store opens");
        let session = store.session(timeout).await.expect("a session");
        session.pulse(&peer).await.expect("a pulse");
        say(&format!("granted {}", session.timeout().as_millis()));
        session.lost().await;
        say("lost");
    });
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "\n#{line}").and_then(|()| out.flush()).expect("the parent listens");
}

/// A child that holds a pulse. Killed when dropped.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    lines: BufReader<ChildStdout>,
}

impl Child {
    /// Starts one.
    pub fn holding(url: &str, peer: &PeerId, timeout: Duration) -> Child {
        let this = std::env::current_exe().expect("this binary");
        let mut process = Command::new(this)
            .args(["--exact", TEST, "--nocapture"])
            .env(URL, url)
            .env(PEER, peer.as_str())
            .env(TIMEOUT, timeout.as_millis().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(process.stdout.take().expect("its output"));
        Child { process, lines }
    }

    /// Waits until it has its pulse, and says what timeout it was granted.
    pub fn granted(&mut self) -> Duration {
        let line = self.line();
        let millis = line.strip_prefix("granted ").and_then(|millis| millis.parse().ok());
        Duration::from_millis(millis.unwrap_or_else(|| panic!("the child says {line:?}")))
    }

    /// The next line that it says to us.
    pub fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            let n = self.lines.read_line(&mut line).expect("the child talks");
            assert_ne!(n, 0, "the child has ended");
            if let Some(line) = line.trim_end().strip_prefix('#') {
                return line.to_owned();
            }
        }
    }

    /// Sends it a signal, by its process id.
    pub fn signal(&self, signal: &str) {
        super::servers::signal(self.process.id(), signal);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
