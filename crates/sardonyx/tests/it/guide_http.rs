//! Every request in the guide to HTTP works as it stands there.

use std::{path::Path, process::Command, time::Duration};

use crate::node::{Node, SOON, alone};

#[test]
fn the_requests_of_the_guide_are_answered() {
    let _alone = alone();
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
