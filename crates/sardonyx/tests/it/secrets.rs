//! Fifty secrets in every place where somebody may put one, and none of them in anything that comes out.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::node::SOON;

/// The secrets, each a word that stands nowhere else.
struct Canaries(Vec<String>);

impl Canaries {
    fn new() -> Canaries {
        // Letters that no hexadecimal number and no word has next to each other.
        Canaries((0..50).map(|n| format!("kWqZcAnArY{n:02}xJv")).collect())
    }

    fn get(&self, n: usize) -> &str {
        &self.0[n]
    }

    /// Nothing of this has one.
    fn absent(&self, what: &str, text: &[u8]) {
        for canary in &self.0 {
            let is_there = text.windows(canary.len()).any(|it| it == canary.as_bytes());
            assert!(!is_there, "{canary} is in {what}:\n{}", String::from_utf8_lossy(text));
        }
    }
}

/// Runs the program; everything that it prints.
fn run(directory: &Path, canaries: &Canaries, args: &[&str], stdin: &str) -> Vec<u8> {
    let mut child = program(directory, canaries)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    [output.stdout, output.stderr].concat()
}

/// The program, with secrets for jobs in its environment.
fn program(directory: &Path, canaries: &Canaries) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sardonyx"));
    command.current_dir(directory);
    for n in 0..8 {
        command.env(format!("SARDONYX_SECRET_S{n}"), canaries.get(n));
    }
    command
}

/// Asks, and gives back head and body.
fn http(address: &str, method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.is_empty(), "{method} {path}");
    answer
}

/// URLs with a password, wrong in every way that makes somebody complain, and right ones.
fn urls(password: &str) -> Vec<String> {
    vec![
        format!("etcd://user:{password}@127.0.0.1:1/prod"),
        format!("etcd://user:{password}@127.0.0.1/prod"),
        format!("etcd://user:{password}@127.0.0.1:1/prod?wrong=1"),
        format!("zookeeper://user:{password}@127.0.0.1:1/prod"),
        format!("zookeeper://user:{password}@127.0.0.1:x/prod"),
        format!("nats://user:{password}@127.0.0.1:1/prod"),
        format!("nats://user:{password}@127.0.0.1:1/a.b"),
        format!("nats://user:{password}@127.0.0.1:1"),
        format!("kafka://user:{password}@127.0.0.1:1/prod"),
        format!("sardonyx://user:{password}@127.0.0.1:1"),
    ]
}

/// What is printed about a store or queues with a password in the URL, by whatever is asked about
/// them; processes that would go on trying are stopped.
fn about_urls(directory: &Path, canaries: &Canaries) {
    for (n, url) in urls(canaries.get(10)).iter().chain(&urls(canaries.get(11))).enumerate() {
        let asked: [&[&str]; 6] = [
            &["jobs", "--store", url],
            &["log", url, "--json"],
            &["start", "--store", url, "--log-level", "trace"],
            &["start", "--store", url, "--log-level", "trace", "--log", "json", "--json"],
            &["start", "--queues", url, "--log-level", "trace", "--store", "embedded:q"],
            &["start", "--store", url, "--listen", "127.0.0.1:0"],
        ];
        // All of them for every URL would take minutes: each kind meets each way to ask.
        for args in asked.iter().skip(n % 3).step_by(3) {
            let child = program(directory, canaries)
                .args(*args)
                .stdin(Stdio::null())
                .stdout(fs::File::create(directory.join("out")).unwrap())
                .stderr(fs::File::create(directory.join("err")).unwrap())
                .spawn();
            let mut child = child.unwrap();
            let begun = Instant::now();
            while child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(3) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            child.wait().unwrap();
            for name in ["out", "err"] {
                canaries.absent(&format!("{args:?}"), &fs::read(directory.join(name)).unwrap());
            }
        }
    }
}

/// What is printed about settings with secrets in them.
fn about_settings(directory: &Path, canaries: &Canaries) {
    let url = |n: usize| format!("etcd://user:{}@127.0.0.1:1/prod", canaries.get(n));
    let config = directory.join("settings.toml");
    let config = config.to_str().unwrap();
    for text in [
        format!("store = \"{}\"\n", url(12)),
        format!("store = \"{}\"\npears = 3\n", url(13)),
        format!("store = \"{}\nqueues = 3", url(14)),
        format!("queues = \"{}\"\npeers = \"many\"\n", url(15)),
        format!("listen = \"{}\"\n", url(16)),
    ] {
        fs::write(config, &text).unwrap();
        canaries.absent(&text, &run(directory, canaries, &["check", "--config", config], ""));
        let started = run(directory, canaries, &["start", "--config", config, "--peers", "0"], "");
        canaries.absent(&text, &started);
    }
    for args in [
        vec!["start".to_owned(), "--listen".into(), url(17)],
        vec!["start".into(), format!("--peers={}", url(18))],
        vec!["start".into(), url(19)],
        vec!["jobs".into(), "--stor".into(), url(20)],
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        canaries.absent(&args.join(" "), &run(directory, canaries, &args, ""));
    }
    for n in 21..24 {
        let key = canaries.get(n);
        fs::write(directory.join("tokens"), format!("read {key}\n")).unwrap();
        let args = ["start", "--http", "127.0.0.1:0", "--http-tokens", "tokens"];
        canaries.absent("a wrong token file", &run(directory, canaries, &args, ""));
        fs::write(directory.join("key.pem"), format!("{key}\n")).unwrap();
        let tls = ["--http-tls", "key.pem", "--http-tls-key", "key.pem"];
        let args = [&["start", "--http", "127.0.0.1:0"][..], &tls].concat();
        canaries.absent("a wrong key", &run(directory, canaries, &args, ""));
    }
}

/// Jobs that have a secret in them where a reference belongs.
fn bad_jobs(canaries: &Canaries) -> Vec<String> {
    let job = |keys: String| {
        format!(
            "name = \"j\"\nworkflow = [[\"in\", \"out\"]]\n[catalog.in]\ntype = \"input\"\n\
             plugin = \"generate\"\ncount = 1\n[catalog.out]\ntype = \"output\"\nplugin = \"nats\"\n\
             subject = \"x\"\n{keys}\n"
        )
    };
    let url = "url = \"nats://127.0.0.1:1/X\"\n";
    vec![
        job(format!("{url}user = \"u\"\npassword = \"{}\"", canaries.get(24))),
        job(format!("{url}token = \"{}\"", canaries.get(25))),
        job(format!("{url}params = {{ api-key = \"{}\" }}", canaries.get(26))),
        job(format!("url = \"nats://u:{}@127.0.0.1:1/X\"", canaries.get(27))),
        job(format!("{url}params = {{ to = [\"http://u:{}@h/\"] }}", canaries.get(28))),
        job(format!("{url}user = \"u\"\npassword = [\"{}\"]", canaries.get(29))),
    ]
}

/// A job whose secrets are references, and which fails because nobody answers.
fn good_job(canaries: &Canaries, directory: &Path) -> String {
    fs::create_dir_all(directory.join("secrets")).unwrap();
    fs::write(directory.join("secrets/token"), canaries.get(30)).unwrap();
    fs::write(directory.join("in.csv"), "n\n1\nx\n").unwrap();
    "name = \"refers\"\nworkflow = [[\"in\", \"out\"]]\n[catalog.in]\ntype = \"input\"\nplugin = \"file\"\n\
     path = \"in.csv\"\nschema = { n = \"int\" }\nparams = { secret = \"secret:env:S1\" }\n\
     [catalog.out]\ntype = \"output\"\nplugin = \"nats\"\nurl = \"nats://127.0.0.1:1/X\"\nsubject = \"x\"\n\
     user = \"u\"\npassword = \"secret:env:S0\"\ntoken = \"secret:file:token\"\n"
        .into()
}

#[test]
fn fifty_secrets_are_in_nothing_that_comes_out() {
    let directory = tempfile::tempdir().unwrap();
    let (directory, canaries) = (directory.path(), Canaries::new());
    about_urls(directory, &canaries);
    about_settings(directory, &canaries);
    let good = good_job(&canaries, directory);
    // Tokens: the program makes them, so these are not among the fifty, but must not come out either.
    let made = run(directory, &canaries, &["token", "--role", "admin", "--json"], "");
    let made: serde_json::Value = serde_json::from_slice(&made).unwrap();
    let (token, line) = (made["token"].as_str().unwrap(), made["line"].as_str().unwrap());
    let canaries = Canaries([&canaries.0[..], &[token.to_owned()]].concat());
    fs::write(directory.join("tokens"), format!("{line}\n")).unwrap();
    fs::write(directory.join("store-token"), canaries.get(31)).unwrap();
    let node = ["start", "--peers", "4", "--store", "embedded:data", "--listen", "127.0.0.1:0"];
    let more = ["--token-file", "store-token", "--http", "127.0.0.1:0", "--http-tokens", "tokens"];
    let files = ["--files-root", ".", "--secrets-dir", "secrets", "--http-audit", "audit.jsonl"];
    let logs = ["--log-level", "trace", "--log", "json", "--json"];
    let file = |name: &str| fs::File::create(directory.join(name)).unwrap();
    let mut child = program(directory, &canaries)
        .args([&node[..], &more, &files, &logs].concat())
        .stdin(Stdio::null())
        .stdout(file("node.out"))
        .stderr(file("node.err"))
        .spawn()
        .unwrap();
    let address = wait_for("address", || {
        let said = fs::read_to_string(directory.join("node.out")).unwrap();
        let (_, rest) = said.split_once("\"http://")?;
        Some(rest.split_once('/')?.0.to_owned())
    });
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let toml = format!("{bearer}Content-Type: application/toml\r\n");
    let json = format!("{bearer}Content-Type: application/json\r\n");
    let ask = |method: &str, path: &str, headers: &str, body: &str| {
        let answer = http(&address, method, path, headers, body);
        canaries.absent(&format!("{method} {path}"), &answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    wait_for("ring", || {
        ask("GET", "/v1/overview", &bearer, "").contains("\"peers\":4").then_some(())
    });
    for (n, bad) in bad_jobs(&canaries).iter().enumerate() {
        let answer = ask("POST", "/v1/jobs", &toml, bad);
        assert!(answer.contains(" 422 ") && answer.contains("secret:env:NAME"), "{n}: {answer}");
        let answer = ask("POST", "/v1/jobs?any-names=true", &toml, bad);
        assert!(answer.contains(" 422 "), "{n}: {answer}");
        fs::write(directory.join("bad.toml"), bad).unwrap();
        for args in [&["check", "bad.toml"][..], &["run", "bad.toml"], &["submit", "bad.toml"]] {
            canaries.absent(&format!("{args:?}"), &run(directory, &canaries, args, ""));
        }
    }
    let answer = ask("POST", "/v1/jobs?id=refers", &toml, &good);
    assert!(answer.contains(" 200 "), "{answer}");
    wait_for("end of the job", || {
        let shown = ask("GET", "/v1/jobs/refers", &bearer, "");
        (!shown.contains("\"state\":\"running\"") && !shown.contains("\"state\":\"pending\""))
            .then_some(())
    });
    // Tokens and passwords where they do not belong.
    for n in 32..40 {
        let canary = canaries.get(n);
        let wrong = format!("Authorization: Bearer {canary}\r\n");
        assert!(ask("GET", "/v1/jobs", &wrong, "").contains(" 401 "));
        let wrong = format!("Authorization: Basic {canary}\r\n");
        assert!(ask("GET", "/v1/jobs", &wrong, "").contains(" 401 "));
        let wrong = format!("Cookie: sardonyx-session={canary}\r\n");
        assert!(ask("GET", "/v1/jobs", &wrong, "").contains(" 401 "));
        let login = format!("{{\"token\":\"{canary}\"}}");
        assert!(ask("POST", "/v1/login", &json, &login).contains(" 401 "));
        let login = format!("{{\"token\":[\"{canary}\"]}}");
        assert!(ask("POST", "/v1/login", &json, &login).contains(" 400 "));
    }
    let paths = [
        "/",
        "/metrics",
        "/healthz",
        "/readyz",
        "/v1/openapi.json",
        "/v1/jobs",
        "/v1/jobs/refers",
        "/v1/jobs/refers/wait",
        "/v1/overview",
        "/v1/peers",
        "/v1/nodes",
        "/v1/ids",
        "/v1/log",
        "/v1/replica",
        "/v1/diff?from=0&to=3",
        "/v1/log?limit=1000",
    ];
    for path in paths {
        ask("GET", path, &bearer, "");
    }
    let served = fs::read_to_string(directory.join("node.out")).unwrap();
    let store = served.split("sardonyx://").nth(1).unwrap().split('"').next().unwrap();
    let right = format!("sardonyx://{store}?token-file=store-token");
    fs::write(directory.join("wrong-token"), canaries.get(41)).unwrap();
    for url in [&right, &format!("sardonyx://{store}?token-file=wrong-token")] {
        for args in [
            &["log", url, "--json"][..],
            &["log", url],
            &["replica", url],
            &["jobs", "--store", url, "--json"],
            &["jobs", "refers", "--store", url],
            &["peers", "--store", url, "--json"],
            &["top", "--store", url, "--once"],
        ] {
            canaries.absent(&format!("{args:?}"), &run(directory, &canaries, args, ""));
        }
    }
    let log = run(directory, &canaries, &["log", &right, "--json"], "");
    assert!(String::from_utf8_lossy(&log).contains("secret:env:S0"), "the reference is in the log");
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    child.wait().unwrap();
    for name in ["node.out", "node.err", "audit.jsonl"] {
        let text = fs::read(directory.join(name)).unwrap();
        assert!(!text.is_empty(), "{name}");
        canaries.absent(name, &text);
    }
    // And nothing in the files of the store: log, queues, origin.
    everything(&directory.join("data"), &mut |path, bytes| {
        canaries.absent(&path.display().to_string(), bytes);
    });
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < 2 * SOON, "no {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn everything(directory: &Path, look: &mut dyn FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => everything(&path, look),
            false => look(&path, &fs::read(&path).unwrap()),
        }
    }
}
