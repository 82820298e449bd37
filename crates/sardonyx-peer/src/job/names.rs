//! What a build can run, asked of its registry.

use std::collections::BTreeMap;

use sardonyx_core::TaskId;
use sardonyx_task::{Blueprint, Registry, Terms, flow, kit, registry};
use serde_json::{Map, Value};

use super::{BuiltIn, Complaint, Kind, Names};

/// The functions and plugins of a registry, and `wait`.
pub struct RegisteredNames {
    registry: Registry,
    tries: bool,
}

impl RegisteredNames {
    /// Those of `registry`.
    pub fn new(registry: Registry) -> RegisteredNames {
        RegisteredNames { registry, tries: false }
    }

    /// Also reads a few rows of inputs that can be read twice, and sends them through the job: a
    /// column that is not there is found before anything runs.
    pub fn trying(self) -> RegisteredNames {
        RegisteredNames { tries: true, ..self }
    }
}

impl Names for RegisteredNames {
    fn complain(&self, kind: Kind, name: &str, keys: &BTreeMap<&str, &Value>) -> Option<String> {
        if name == "wait" {
            return BuiltIn.complain(kind, name, keys);
        }
        let keys: Map<_, _> =
            keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).clone())).collect();
        let terms = Terms::new("", "", &Value::Object(keys));
        self.registry.complain(of(kind), &terms)
    }

    fn knows_key(&self, kind: Kind, name: &str, key: &str) -> bool {
        match name {
            "wait" => BuiltIn.knows_key(kind, name, key),
            _ => self.registry.knows_key(of(kind), name, key),
        }
    }

    fn own_keys(&self, kind: Kind, name: &str) -> Vec<String> {
        self.registry.keys(of(kind), name).unwrap_or_default().to_vec()
    }

    fn complain_about(&self, job: &Value, tasks: &[TaskId]) -> Vec<Complaint> {
        let place = |task: &str| format!("catalog.{task}");
        let runs = |task: &TaskId| {
            let entry = &job["catalog"][task.as_str()];
            entry["plugin"].as_str().or(entry["fn"].as_str()).unwrap_or_default().to_owned()
        };
        let (waits, moves): (Vec<_>, Vec<_>) = tasks.iter().partition(|task| runs(task) == "wait");
        if let (Some(wait), Some(_)) = (waits.first(), moves.first()) {
            let what = "a job either waits in all its tasks or in none: data does not pass here";
            return vec![Complaint { place: place(wait.as_str()), what: what.into() }];
        }
        if moves.is_empty() {
            return Vec::new();
        }
        let edges: Vec<(&str, &str)> = job["workflow"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|edge| Some((edge[0].as_str()?, edge[1].as_str()?)))
            .collect();
        let flow = flow::complaints(job, &edges, &self.registry);
        let mut complaints: Vec<_> =
            flow.into_iter().map(|(place, what)| Complaint { place, what }).collect();
        if !complaints.is_empty() {
            return complaints;
        }
        for task in moves {
            let blueprint = Blueprint::read("", job, task.as_str(), &self.registry);
            if let Err(what) = blueprint.and_then(|it| self.look(&it)) {
                complaints.push(Complaint { place: place(task.as_str()), what });
            }
        }
        if complaints.is_empty()
            && self.tries
            && let Err(kit::Fault { task, what }) = kit::try_out(job, &self.registry)
        {
            complaints.push(Complaint { place: place(&task), what });
        }
        complaints
    }
}

impl RegisteredNames {
    /// Looks whether what a task reads or writes is there, if this is where it will run.
    fn look(&self, blueprint: &Blueprint) -> Result<(), String> {
        match blueprint.kind {
            registry::Kind::Input if self.tries => {
                self.registry.make_input(&blueprint.terms)?.check()
            }
            registry::Kind::Output if self.tries => {
                self.registry.make_output(&blueprint.terms)?.check()
            }
            registry::Kind::Input | registry::Kind::Output | registry::Kind::Function => Ok(()),
        }
    }
}

fn of(kind: Kind) -> registry::Kind {
    match kind {
        Kind::Input => registry::Kind::Input,
        Kind::Function => registry::Kind::Function,
        Kind::Output => registry::Kind::Output,
    }
}
