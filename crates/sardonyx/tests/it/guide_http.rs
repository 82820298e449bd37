//! Every request in the guide to HTTP works as it stands there.

use std::{path::Path, process::Command, time::Duration};

use crate::{
    node::{Node, SOON, alone},
    program::sardonyx,
};

#[test]
fn nothing_listens_beyond_loopback_by_mistake() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = format!("embedded:{}", dir.path().join("s").display());
    let ran = sardonyx(&["start", "--store", &store, "--http", "0.0.0.0:0"], "");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("--http-tls") && ran.stderr.contains("--insecure"));
    assert!(!dir.path().join("s").exists(), "nothing was begun");
    let tokens = dir.path().join("tokens");
    std::fs::write(&tokens, "read hunter2\n").expect("a file");
    let tokens = tokens.display().to_string();
    let args = ["start", "--store", &store, "--http", "127.0.0.1:0", "--http-tokens", &tokens];
    let ran = sardonyx(&args, "");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("line 1") && !ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

#[test]
fn a_token_is_made_and_known_by_its_line() {
    let ran = sardonyx(&["token", "--role", "boss"], "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("read, submit or admin"), "{}", ran.stderr);
    let ran = sardonyx(&["token", "--role", "submit", "--json"], "");
    let made: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let (token, line) = (made["token"].as_str().unwrap(), made["line"].as_str().unwrap());
    let known = sardonyx::http::Tokens::parse(line).expect("a line");
    assert_eq!(known.role_of(token), Some(sardonyx::http::Role::Submit));
}

#[test]
fn the_requests_of_the_guide_are_answered() {
    let _alone = alone();
    crate::guide::install();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_to_string(root.join("docs/guide/http.md")).expect("the guide");
    let part = guide.split("## Requests").nth(1).and_then(|it| it.split("```").nth(1));
    let block = part.expect("the requests of the guide");
    let dir = tempfile::tempdir().expect("a directory");
    let store = format!("embedded:{}", dir.path().display());
    let node = Node::start(&["--peers", "4", "--store", &store, "--http", "127.0.0.1:0"]);
    let begun = std::time::Instant::now();
    let url = loop {
        let events = node.events();
        let url = events.iter().find(|it| it["event"] == "http").map(|it| it["url"].clone());
        // The past begins with the first entries: all peers are in.
        let n_in = events.iter().filter(|it| it["event"] == "joined").count();
        if let (Some(url), 4) = (url, n_in) {
            break url.as_str().expect("a text").trim_end_matches('/').to_owned();
        }
        assert!(begun.elapsed() < SOON, "the node does not come up: {events:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut n_asked = 0;
    for line in block.lines().filter(|line| line.starts_with("curl")) {
        // The same, but loud about what goes wrong.
        let line = line.replacen("curl -s", "curl -sS --fail-with-body", 1);
        let mut shell = Command::new("sh");
        let ran = shell.args(["-c", &line]).env("api", &url).current_dir(&root).output();
        let ran = ran.expect("a shell");
        let (said, wrong) =
            (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{line}\n{said}\n{wrong}");
        assert!(!said.is_empty(), "{line}");
        n_asked += 1;
    }
    assert!(n_asked >= 17, "{n_asked} requests in the guide");
}
