//! Every command in the README and in the guide is run, in order, by somebody who has nothing but the
//! page: in an empty directory (with the examples of the repository in it), in a network of its own.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::guide_page::{Step, Way, fits, fits_alike, steps};

/// How long a command may take, and how long one that waits for another is tried.
const STEP_MAX: Duration = Duration::from_secs(120);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// How long something in the background may take to end when it is asked to.
const END_MAX: Duration = Duration::from_secs(20);

macro_rules! pages {
    ($($name:ident $path:literal)*) => {
        $(#[test]
        fn $name() {
            run($path);
        })*

        #[test]
        fn no_page_is_left_out() {
            // `guide_http.rs` runs the other one, against a node of its own.
            let listed = [$($path,)* "docs/guide/http.md"];
            for entry in fs::read_dir(root().join("docs/guide")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = format!("docs/guide/{name}");
                if name == "pictures" {
                    continue;
                }
                assert!(listed.contains(&path.as_str()), "{path} is not run by any test");
            }
        }
    };
}

pages! {
    readme "README.md"
    index "docs/guide/README.md"
    configuration "docs/guide/configuration.md"
    from_onyx "docs/guide/from-onyx.md"
    functions "docs/guide/functions.md"
    guarantees "docs/guide/guarantees.md"
    ids "docs/guide/ids.md"
    inputs_and_outputs "docs/guide/inputs-and-outputs.md"
    jobs "docs/guide/jobs.md"
    mesh "docs/guide/mesh.md"
    metrics "docs/guide/metrics.md"
    nodes "docs/guide/nodes.md"
    operate "docs/guide/operate.md"
    production "docs/guide/production.md"
    queues "docs/guide/queues.md"
    replay "docs/guide/replay.md"
    rust "docs/guide/rust.md"
    scheduling "docs/guide/scheduling.md"
    security "docs/guide/security.md"
    start "docs/guide/start.md"
    stores "docs/guide/stores.md"
    troubleshooting "docs/guide/troubleshooting.md"
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn the_page_about_rust_shows_the_example_that_is_compiled() {
    let page = fs::read_to_string(root().join("docs/guide/rust.md")).unwrap();
    let example = fs::read_to_string(root().join("crates/sardonyx/examples/own.rs")).unwrap();
    assert!(
        page.contains(&format!("```rust\n{example}```\n")),
        "copy examples/own.rs into rust.md"
    );
}

fn run(path: &str) {
    let page = fs::read_to_string(root().join(path)).unwrap();
    let steps = steps(&page).unwrap_or_else(|why| panic!("{path}: {why}"));
    if steps.iter().all(|step| matches!(step.way, Way::Skip(_))) {
        return;
    }
    let mut reader = Reader::new();
    for (n, step) in steps.iter().enumerate() {
        if let Err(why) = reader.does(n, step) {
            panic!("{path}:{}: {why}", step.line);
        }
    }
}

/// Somebody at a shell. Everything that was started ends with it.
struct Reader {
    dir: TempDir,
    shell: Child,
    says: Option<ChildStdin>,
    background: Vec<u32>,
}

/// What the pages use, from Debian's packages if it is missing.
pub fn install() {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap();
    if !*installed {
        let script = root().join("scripts/install-test-servers.sh");
        assert!(Command::new("sh").arg(script).arg("guide").status().unwrap().success());
        *installed = true;
    }
}

impl Reader {
    fn new() -> Reader {
        install();
        let dir = tempfile::Builder::new().prefix("sardonyx-guide-").tempdir().unwrap();
        let bin = dir.path().join(".bin");
        fs::create_dir_all(&bin).unwrap();
        for name in ["jobs", "examples", "packaging"] {
            std::os::unix::fs::symlink(root().join(name), dir.path().join(name)).unwrap();
        }
        let program = env!("CARGO_BIN_EXE_sardonyx");
        std::os::unix::fs::symlink(program, bin.join("sardonyx")).unwrap();
        // The program is built already: `cargo run` is the program.
        let cargo = "#!/bin/sh\n[ \"$1 $2 $3\" = 'run --release --' ] || exit 99\nshift 3\n\
                     exec sardonyx \"$@\"\n";
        fs::write(bin.join("cargo"), cargo).unwrap();
        let is_run = Command::new("chmod").arg("+x").arg(bin.join("cargo")).status().unwrap();
        assert!(is_run.success());
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        // A network of its own, so that the ports of the guide are free; as root, or as whoever is root
        // in a namespace of its own.
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        let flags = if is_root { "-n" } else { "-rn" };
        let mut shell = Command::new("unshare")
            .args([flags, "bash"])
            .current_dir(dir.path())
            .env("PATH", path)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let says = shell.stdin.take();
        let mut reader = Reader { dir, shell, says, background: Vec::new() };
        reader.say("ip link set lo up");
        reader
    }

    fn say(&mut self, line: &str) {
        writeln!(self.says.as_mut().unwrap(), "{line}").unwrap();
    }

    fn file(&self, n: usize, kind: &str) -> PathBuf {
        self.dir.path().join(format!(".bin/{n}.{kind}"))
    }

    fn read(&self, n: usize, kind: &str) -> String {
        fs::read_to_string(self.file(n, kind)).unwrap_or_default()
    }

    fn does(&mut self, n: usize, step: &Step) -> Result<(), String> {
        fs::write(self.file(n, "sh"), &step.script).unwrap();
        match &step.way {
            Way::Skip(_) => Ok(()),
            Way::Background => {
                self.say(&format!(
                    "setsid bash .bin/{n}.sh >.bin/{n}.out 2>&1 & echo $! >.bin/{n}.pid"
                ));
                let pid = self.wait_for(n, "pid")?;
                self.background.push(pid.trim().parse().map_err(|_| format!("pid {pid:?}"))?);
                Ok(())
            }
            Way::Once => self.tries(n, step),
            Way::Retry => {
                let begun = Instant::now();
                loop {
                    match self.tries(n, step) {
                        Err(why) if begun.elapsed() > RETRY_MAX => return Err(why),
                        Err(_) => std::thread::sleep(Duration::from_millis(300)),
                        Ok(()) => return Ok(()),
                    }
                }
            }
        }
    }

    fn tries(&mut self, n: usize, step: &Step) -> Result<(), String> {
        let _ = fs::remove_file(self.file(n, "code"));
        let errors = if step.with_stderr { "2>&1".to_owned() } else { format!("2>.bin/{n}.err") };
        self.say(&format!(
            "bash -euo pipefail .bin/{n}.sh >.bin/{n}.out {errors} </dev/null; \
             echo $? >.bin/{n}.now; mv .bin/{n}.now .bin/{n}.code"
        ));
        let code = self.wait_for(n, "code")?;
        let (printed, errors) = (self.read(n, "out"), self.read(n, "err"));
        let told = || format!("{}printed\n{printed}{errors}", step.script);
        if code.trim() != step.code.to_string() {
            return Err(format!("exit code {} instead of {}\n{}", code.trim(), step.code, told()));
        }
        match &step.prints {
            Some(shown) if step.alike && fits_alike(shown, &printed) => Ok(()),
            Some(shown) if !fits(shown, &printed) => {
                Err(format!("the page shows\n{shown}but it is\n{printed}{errors}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn wait_for(&mut self, n: usize, kind: &str) -> Result<String, String> {
        let begun = Instant::now();
        loop {
            let text = self.read(n, kind);
            if text.ends_with('\n') {
                return Ok(text);
            }
            if let Some(status) = self.shell.try_wait().unwrap() {
                return Err(format!("the shell ended: {status}"));
            }
            if begun.elapsed() > STEP_MAX {
                return Err(format!("it takes longer than {STEP_MAX:?}\n{}", self.read(n, "out")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Each is the leader of a group that only it started.
        let signal = |name: &str, pid: u32| {
            let args = [format!("-{name}"), "--".into(), format!("-{pid}")];
            Command::new("kill")
                .args(args)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|it| it.success())
        };
        for pid in &self.background {
            signal("TERM", *pid);
        }
        let begun = Instant::now();
        while self.background.iter().any(|pid| signal("0", *pid)) && begun.elapsed() < END_MAX {
            std::thread::sleep(Duration::from_millis(20));
        }
        for pid in &self.background {
            signal("KILL", *pid);
        }
        drop(self.says.take());
        // What a page began and did not end by itself ends here.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
