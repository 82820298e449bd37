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
    let places: &[&str] = match name {
        "leave-cluster" | "peer-gc" => &["peer"],
        "gc" => &["caller"],
        "kill-job" => &["job"],
        "seal-task" | "complete-task" => &["peer", "job", "task"],
        _ => &["joiner"],
    };
    let mut places = places.iter();
    let args = rest.split_whitespace().map(|word| match word.split_once('=') {
        Some((key, value)) => format!("{key:?}:{value:?}"),
        None => {
            format!("{:?}:{word:?}", places.next().unwrap_or_else(|| panic!("{text}: {word}?")))
        }
    });
    let args = args.collect::<Vec<_>>().join(",");
    wire::command_from_json(name, &format!("{{{args}}}"))
        .unwrap_or_else(|why| panic!("{text}: {why}"))
}

/// A `submit-job` from `j1 greedy pct=30 covered t1 t2:max=2:min=1:pct=50`.
pub fn submit(words: &[&str]) -> Command {
    let [id, scheduler, rest @ ..] = words else { panic!("submit ID SCHEDULER TASK…") };
    let mut job = format!(r#""task-scheduler":{scheduler:?}"#);
    let (mut tasks, mut catalog) = (Vec::new(), Vec::new());
    for word in rest {
        if let Some(percentage) = word.strip_prefix("pct=") {
            job += &format!(r#","percentage":{percentage}"#);
        } else if *word == "covered" {
            job += r#","partial-coverage-protection":true"#;
        } else {
            let mut parts = word.split(':');
            let task = parts.next().unwrap_or_default();
            let limits = parts.map(|limit| {
                let (name, n) = limit.split_once('=').unwrap_or_else(|| panic!("{word}?"));
                let name = match name {
                    "max" => "max-peers",
                    "min" => "min-peers",
                    _ => "percentage",
                };
                format!("{name:?}:{n}")
            });
            catalog.push(format!("{task:?}:{{{}}}", limits.collect::<Vec<_>>().join(",")));
            tasks.push(task);
        }
    }
    let job = format!(r#"{{{job},"catalog":{{{}}}}}"#, catalog.join(","));
    let args = format!(r#"{{"id":{id:?},"job":{job},"tasks":{tasks:?}}}"#);
    wire::command_from_json("submit-job", &args).unwrap_or_else(|why| panic!("{args}: {why}"))
}
