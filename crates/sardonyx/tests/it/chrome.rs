//! A real browser, driven through its debugging pipe: commands in at descriptor 3, answers and
//! events out at 4, each ended by a zero byte. No driver program, no port, no dependency.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, Receiver},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// The longest that a page may take for anything.
const SOON: Duration = Duration::from_secs(30);

/// A browser with one page.
pub struct Chrome {
    process: Child,
    commands: ChildStdin,
    heard: Receiver<Value>,
    session: String,
    next: u64,
    /// What the page complained about.
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

/// Where the browser is. Installs it if it is missing; quick when it is not.
fn find() -> PathBuf {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    if let Some(named) = std::env::var_os("SARDONYX_CHROMIUM") {
        return named.into();
    }
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*installed {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install-test-servers.sh");
        let status = Command::new("sh").arg(script).arg("browser").status().expect("a shell");
        assert!(status.success(), "{script} failed; SARDONYX_CHROMIUM may name another browser");
        *installed = true;
    }
    "/usr/bin/chromium".into()
}

impl Chrome {
    /// Starts a browser with a page of that size.
    pub fn start(width: u32, height: u32) -> Chrome {
        let path = find();
        let profile = tempfile::tempdir().expect("a directory");
        // A shell moves the pipes to where the browser wants them.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";
        let mut process = Command::new("sh")
            .args(["-c", script])
            .arg(path)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .args(["--disable-sync", "--no-first-run", "--disable-extensions", "--mute-audio"])
            .args(["--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--window-size={width},{height}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the browser");
        let commands = process.stdin.take().expect("a pipe");
        let answers = process.stdout.take().expect("a pipe");
        let (sender, heard) = mpsc::channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let Ok(message) = message else { return };
                let Ok(value) = serde_json::from_slice(&message) else { continue };
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let session = String::new();
        let complaints = Vec::new();
        let mut chrome =
            Chrome { process, commands, heard, session, next: 0, complaints, _profile: profile };
        chrome.open_page(width, height);
        chrome
    }

    fn open_page(&mut self, width: u32, height: u32) {
        let target = self.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.ask("Target.attachToTarget", &attached);
        self.session = attached["sessionId"].as_str().expect("a session").to_owned();
        self.ask("Page.enable", &json!({}));
        self.ask("Runtime.enable", &json!({}));
        self.ask("Log.enable", &json!({}));
        self.resize(width, height);
    }

    /// Gives the page another size.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
                          "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Shows the page in the dark, or in the light.
    pub fn dark(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.ask("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Sends a command and waits for its answer.
    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("the browser listens");
        let until = Instant::now() + SOON;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let heard = self.heard.recv_timeout(left);
            let heard = heard.unwrap_or_else(|why| panic!("no answer to {method}: {why}"));
            if heard["id"] == id {
                assert!(heard.get("error").is_none(), "{method}: {}", heard["error"]);
                return heard["result"].clone();
            }
            self.note(&heard);
        }
    }

    /// Keeps what the page complains about: errors in scripts, and what its rules forbid.
    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(params["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"].to_string());
            }
            _ => {}
        }
    }

    /// Goes to an address.
    pub fn open(&mut self, url: &str) {
        self.ask("Page.navigate", &json!({ "url": url }));
    }

    /// Goes to a place within the page.
    ///
    /// The browser drops such a step, without a word, once there were 200 in ten seconds: so it is
    /// taken until it holds.
    pub fn go(&mut self, place: &str) {
        let place = json!(place);
        self.wait(&format!(
            "location.hash === {place} || ((location.hash = {place}), location.hash === {place})"
        ));
    }

    /// What an expression in the page is now.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", &params);
        let thrown = answer.get("exceptionDetails");
        assert!(thrown.is_none(), "{expression}: {}", thrown.unwrap_or(&Value::Null));
        answer["result"]["value"].clone()
    }

    /// Waits until an expression in the page is true.
    pub fn wait(&mut self, expression: &str) {
        let until = Instant::now() + SOON;
        // A page that is still loading has not even what is asked about.
        let guarded = format!(
            "(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
        );
        while self.eval(&guarded) != json!(true) {
            if Instant::now() > until {
                let text = self.eval("document.body.innerText");
                panic!("never true: {expression}\nthe page says:\n{}", text.as_str().unwrap_or(""));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a button, as a person does, once it is there.
    pub fn click(&mut self, selector: &str) {
        let find = format!("document.querySelector({})", json!(selector));
        self.wait(&format!("{find} && !{find}.disabled"));
        self.eval(&format!("{find}.click()"));
    }

    /// Types into a field, and leaves it.
    pub fn fill(&mut self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.eval(&format!(
            "(() => {{ const it = document.querySelector({selector}); it.value = {text}; \
             it.dispatchEvent(new Event('input', {{bubbles: true}})); \
             it.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"
        ));
    }

    /// Presses a key where the focus is.
    pub fn key(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key.len() == 1 && kind == "keyDown" { key } else { "" };
            let mut event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if !text.is_empty() {
                event["text"] = json!(text);
            }
            self.ask("Input.dispatchKeyEvent", &event);
        }
    }

    /// Takes a picture and keeps it; says how many bytes it has.
    pub fn picture(&mut self, path: &Path) -> usize {
        let taken = self.ask("Page.captureScreenshot", &json!({"format": "png"}));
        let bytes = decode(taken["data"].as_str().expect("a picture"));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, &bytes).expect("the picture is kept");
        bytes.len()
    }
}

impl Drop for Chrome {
    fn drop(&mut self) {
        let mut bytes = json!({"id": u32::MAX, "method": "Browser.close"}).to_string().into_bytes();
        bytes.push(0);
        let _ = self.commands.write_all(&bytes);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if let Ok(Some(_)) = self.process.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Base64, as browsers write it.
fn decode(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters = text.bytes().filter(|c| *c != b'=');
    let (mut bytes, mut bits, mut n) = (Vec::with_capacity(text.len() * 3 / 4), 0_u32, 0);
    for letter in letters {
        bits = bits << 6 | u32::from(value(letter));
        n += 6;
        if n >= 8 {
            n -= 8;
            bytes.push((bits >> n) as u8);
        }
    }
    bytes
}
