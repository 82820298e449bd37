//! The worked examples: text files in testdata that a person can check against the documents.
//!
//! A file is a list of blocks: a directive, `----`, and what the cluster then looks like and who
//! does and says what. `UPDATE=1 cargo test` rewrites the results; read the diff as a change of
//! behaviour.
//!
//! | directive | what happens |
//! |---|---|
//! | `cluster PROTOCOL a b c at=3` | these peers form a ring; the next entry is at that position |
//! | `cluster … scheduler=greedy` | the same, with a job scheduler |
//! | `submit j1 greedy pct=30 covered t1 t2:max=2` | a job with its task scheduler, and its tasks |
//! | `reload` | everybody goes on from the origin, as a late joiner would |
//! | `append COMMAND` | the command goes to the log and everybody plays it |
//! | `plays d` | a new peer plays the log, but has not asked to join yet |
//! | `start d` | a peer asks to join |
//! | `play` | the next thing that somebody said is played |
//! | `settle` | everything that anybody says is played, until nobody says anything |
//! | `dies b` | its pulse ends, and whoever watches it notices |
//! | `dies b unnoticed` | its pulse ends, and nobody looks yet |
//! | `notices a b` | `a` sees that the pulse of `b` is gone |
//! | `timer d` | the back-off of `d` is over |

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use sardonyx_core::{
    Command, Effect, Entry, Input, Output, Peer, PeerId, Position, Replica, apply, laws, wire,
};

use crate::text;

#[test]
fn every_example_file_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let update = std::env::var_os("UPDATE").is_some();
    let mut failures = String::new();
    let files = files_below(&root);
    for file in &files {
        let expected = fs::read_to_string(file).unwrap();
        let actual = run(&expected);
        if actual != expected && update {
            fs::write(file, &actual).unwrap();
        } else if actual != expected {
            let name = file.strip_prefix(&root).unwrap().display();
            let differs = expected.lines().zip(actual.lines()).position(|(a, b)| a != b);
            let line = differs.unwrap_or(expected.lines().count().min(actual.lines().count()));
            _ = writeln!(failures, "{name}:{}\n{actual}\n", line + 1);
        }
    }
    assert!(failures.is_empty(), "what happened instead (UPDATE=1 rewrites):\n\n{failures}");
    assert!(files.len() >= 22, "only {} example files were found", files.len());
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() && !path.ends_with("wire") {
            files.extend(files_below(&path));
        } else if path.extension().is_some_and(|it| it == "txt") && !path.is_dir() {
            files.push(path);
        }
    }
    files
}

/// The file again, with the results as they are.
fn run(file: &str) -> String {
    let mut stage = Stage::default();
    let mut out = String::new();
    let mut lines = file.lines().peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        out.push_str("----\n");
        out.push_str(&stage.directive(line));
        // Skip the old result, which ends at an empty line.
        while lines.next_if(|line| !line.is_empty()).is_some() {}
    }
    out
}

/// All peers at the same position, and what has been said but not yet played.
#[derive(Default)]
struct Stage {
    position: Position,
    replica: Replica,
    peers: BTreeMap<PeerId, Peer>,
    dead: BTreeSet<PeerId>,
    said: VecDeque<Command>,
}

impl Stage {
    fn directive(&mut self, line: &str) -> String {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<_> = rest.split_whitespace().collect();
        match (name, words.as_slice()) {
            ("cluster", [protocol, rest @ ..]) => self.cluster(protocol, rest),
            ("append", [_, ..]) => self.play(text::command(rest)),
            ("submit", words) => self.play(text::submit(words)),
            ("reload", []) => {
                let reloaded = wire::replica_from_json(&wire::replica_to_json(&self.replica));
                assert_eq!(reloaded.as_ref(), Ok(&self.replica));
                self.replica = reloaded.unwrap();
                format!("{}\n", self.replica)
            }
            ("plays", [id]) => {
                self.add(&text::peer(id));
                String::new()
            }
            ("start", [id]) => {
                let id = text::peer(id);
                self.add(&id);
                self.step(&id, Input::Start)
            }
            ("play", []) => self.play_next(),
            ("settle", []) => {
                let mut out = String::new();
                while !self.said.is_empty() {
                    out += &self.play_next();
                }
                out
            }
            ("dies", [id, rest @ ..]) => self.dies(&text::peer(id), *rest == ["unnoticed"]),
            ("notices", [who, whom]) => {
                let (replica, whom) = (self.replica.clone(), text::peer(whom));
                self.step(&text::peer(who), Input::PulseGone { peer: &whom, replica: &replica })
            }
            ("timer", [id]) => {
                let replica = self.replica.clone();
                self.step(&text::peer(id), Input::TimerFired { replica: &replica })
            }
            _ => panic!("there is no directive {line:?}"),
        }
    }

    fn cluster(&mut self, protocol: &str, words: &[&str]) -> String {
        let (settings, ids): (Vec<&str>, Vec<&str>) = words.iter().partition(|it| it.contains('='));
        let position = settings.iter().find_map(|it| it.strip_prefix("at=")).unwrap_or("0");
        self.position = Position(position.parse().unwrap());
        let scheduler = settings.iter().find_map(|it| it.strip_prefix("scheduler="));
        let scheduler = scheduler.unwrap_or("round-robin");
        let origin = format!(
            r#"{{"join-protocol":"{protocol}","job-scheduler":"{scheduler}","peers":{ids:?}}}"#
        );
        self.replica = wire::replica_from_json(&origin).unwrap();
        for id in self.replica.peers().cloned().collect::<Vec<_>>() {
            let mut peer = Peer::new(id.clone(), None);
            peer.step(Input::Jumped { heard: true, old: &self.replica, new: &self.replica });
            self.peers.insert(id, peer);
        }
        format!("{}\n", self.replica)
    }

    fn add(&mut self, id: &PeerId) {
        self.peers.entry(id.clone()).or_insert_with(|| Peer::new(id.clone(), None));
    }

    fn play_next(&mut self) -> String {
        let command = self.said.pop_front().expect("nobody has said anything");
        self.play(command)
    }

    fn play(&mut self, command: Command) -> String {
        let entry = Entry { position: self.position, command };
        self.position = self.position.next();
        let old = self.replica.clone();
        let (new, outcome) = apply(&old, &entry);
        laws::check(&new).unwrap();
        let mut out = match &outcome {
            Ok(()) => format!("{entry}\n"),
            Err(why) => format!("{entry}  rejected: {why}\n"),
        };
        _ = writeln!(out, "{new}");
        self.replica = new.clone();
        for id in self.peers.keys().cloned().collect::<Vec<_>>() {
            let played = Input::Played { entry: &entry, outcome: &outcome, old: &old, new: &new };
            out += &self.step(&id, played);
        }
        out
    }

    fn dies(&mut self, id: &PeerId, unnoticed: bool) -> String {
        self.peers.remove(id);
        self.dead.insert(id.clone());
        let replica = self.replica.clone();
        let watchers: Vec<_> = self.peers.keys().cloned().collect();
        let mut out = String::new();
        for watcher in watchers.iter().filter(|it| !unnoticed && replica.watches(it).contains(id)) {
            out += &self.step(watcher, Input::PulseGone { peer: id, replica: &replica });
        }
        out
    }

    /// One peer's step, with the pulses that it looks at and finds gone.
    fn step(&mut self, id: &PeerId, input: Input<'_>) -> String {
        let Some(peer) = self.peers.get_mut(id) else { return String::new() };
        let Output { effects, mut append, .. } = peer.step(input);
        for effect in &effects {
            if let Effect::Watch(whom) | Effect::Probe(whom) = effect
                && self.dead.contains(whom)
            {
                let gone = Input::PulseGone { peer: whom, replica: &self.replica };
                append.extend(peer.step(gone).append);
            }
        }
        let list = |words: Vec<String>| words.join(", ");
        let does = list(effects.iter().map(ToString::to_string).collect());
        let says = list(append.iter().map(ToString::to_string).collect());
        self.said.extend(append);
        match (does.as_str(), says.as_str()) {
            ("", "") => String::new(),
            (does, "") => format!("{id} does {does}\n"),
            ("", says) => format!("{id} says {says}\n"),
            (does, says) => format!("{id} does {does}; says {says}\n"),
        }
    }
}
