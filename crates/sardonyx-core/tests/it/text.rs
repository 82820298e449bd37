//! Commands as the examples write them: `leave-cluster b`, `accept-join-cluster d observer=a
//! subject=b`, or a name and a JSON object.

use sardonyx_core::{Command, PeerId, wire};

pub fn peer(id: &str) -> PeerId {
    PeerId::new(id).unwrap()
}

pub fn command(text: &str) -> Command {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    if rest.starts_with('{') {
        return wire::command_from_json(name, rest).unwrap_or_else(|why| panic!("{text}: {why}"));
    }
    let first = match name {
        "leave-cluster" | "peer-gc" => "peer",
        "gc" => "caller",
        _ => "joiner",
    };
    let args = rest.split_whitespace().map(|word| {
        let (key, value) = word.split_once('=').unwrap_or((first, word));
        format!("{key:?}:{value:?}")
    });
    let args = args.collect::<Vec<_>>().join(",");
    wire::command_from_json(name, &format!("{{{args}}}"))
        .unwrap_or_else(|why| panic!("{text}: {why}"))
}
