//! Everything that can be wrong with a job, found in one go.

use std::collections::{BTreeMap, BTreeSet};

use sardonyx_core::{
    TaskId,
    replica::job::{TASKS_MAX, TaskScheduler},
    wire,
};
use sardonyx_task::{registry::TASK_KEYS, secret};
use serde_json::{Map, Value};

use super::{Complaint, Kind, Names, duration, graph::Graph};

const JOB_KEYS: &[&str] = &[
    "name",
    "workflow",
    "catalog",
    "task-scheduler",
    "percentage",
    "partial-coverage-protection",
    "flow",
];

/// The tasks of `job` in topological order, or everything that is wrong with it.
pub(super) fn check(job: &Value, names: &dyn Names) -> Result<Vec<TaskId>, Vec<Complaint>> {
    let mut checker = Checker { names, complaints: Vec::new() };
    let order = checker.job(job);
    checker.complaints.sort();
    checker.complaints.dedup();
    if checker.complaints.is_empty() { Ok(order) } else { Err(checker.complaints) }
}

struct Checker<'a> {
    names: &'a dyn Names,
    complaints: Vec<Complaint>,
}

impl Checker<'_> {
    fn complain(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.complaints.push(Complaint { place: place.into(), what: what.into() });
    }

    fn job(&mut self, job: &Value) -> Vec<TaskId> {
        let Some(job) = job.as_object() else {
            self.complain("", "a job is a table with name, workflow and catalog");
            return Vec::new();
        };
        self.keys("", job, JOB_KEYS, |_| false);
        self.text("name", job.get("name"), "name = \"word-count\"");
        self.flag("partial-coverage-protection", job.get("partial-coverage-protection"));
        self.percentage("percentage", job.get("percentage"));
        if job.get("flow").is_some_and(|flow| !flow.is_array()) {
            self.complain("flow", "write a list of conditions, [[flow]]");
        }
        let scheduler = self.scheduler(job.get("task-scheduler"));
        let empty = Map::new();
        let catalog = match job.get("catalog") {
            Some(Value::Object(catalog)) => catalog,
            _ => {
                self.complain("catalog", "is missing: write a table [catalog.TASK] for each task");
                &empty
            }
        };
        let edges = self.edges(job.get("workflow"), catalog);
        let mut graph = Graph::new(&edges);
        // A job of a single task has a workflow without edges.
        if edges.is_empty() && catalog.len() == 1 {
            catalog.keys().for_each(|task| graph.add(task));
        }
        let kinds = self.catalog(catalog, scheduler);
        self.shape(&graph, catalog, &kinds);
        let order = self.order(&graph);
        if self.complaints.is_empty() {
            // The last word has the one who will read it.
            let terms = wire::terms_from_json(&Value::Object(job.clone()).to_string(), &order);
            if let Err(why) = terms.and_then(|terms| terms.check()) {
                self.complain("", why);
            }
            let job = Value::Object(job.clone());
            self.complaints.extend(self.names.complain_about(&job, &order));
        }
        order
    }

    fn keys(
        &mut self,
        place: &str,
        table: &Map<String, Value>,
        known: &[&str],
        also: impl Fn(&str) -> bool,
    ) {
        for key in table.keys().filter(|key| !known.contains(&key.as_str()) && !also(key)) {
            let near = known.iter().find(|known| is_near(known, key));
            let hint = match near {
                Some(near) => format!("did you mean {near}?"),
                None => format!("the keys are {}", known.join(", ")),
            };
            self.complain(below(place, key), format!("there is no such key; {hint}"));
        }
    }

    fn text(&mut self, place: &str, value: Option<&Value>, example: &str) {
        match value {
            Some(Value::String(text)) if !text.is_empty() => {}
            _ => self.complain(place, format!("write a text: {example}")),
        }
    }

    fn flag(&mut self, place: &str, value: Option<&Value>) {
        if value.is_some_and(|value| !value.is_boolean()) {
            self.complain(place, "write true or false");
        }
    }

    fn percentage(&mut self, place: &str, value: Option<&Value>) {
        let is_one = |value: &Value| {
            let job = serde_json::json!({ "percentage": value });
            value.is_number() && wire::terms_from_json(&job.to_string(), &[]).is_ok()
        };
        if value.is_some_and(|value| !is_one(value)) {
            self.complain(place, "write a number from 0 to 100 with at most two decimals");
        }
    }

    fn scheduler(&mut self, value: Option<&Value>) -> TaskScheduler {
        let named = value.map(|value| serde_json::from_value(value.clone()));
        match named.transpose() {
            Ok(scheduler) => scheduler.unwrap_or_default(),
            Err(_) => {
                self.complain(
                    "task-scheduler",
                    "write \"greedy\", \"round-robin\" or \"percentage\"",
                );
                TaskScheduler::default()
            }
        }
    }

    fn edges<'v>(
        &mut self,
        workflow: Option<&'v Value>,
        catalog: &Map<String, Value>,
    ) -> Vec<(&'v str, &'v str)> {
        let edges = match workflow {
            Some(Value::Array(edges)) => edges,
            None if catalog.len() == 1 => return Vec::new(),
            _ => {
                self.complain("workflow", "write the edges: workflow = [[\"read\", \"write\"]]");
                return Vec::new();
            }
        };
        let mut read = Vec::new();
        for (at, edge) in edges.iter().enumerate() {
            let place = format!("workflow[{at}]");
            let ends: Option<Vec<_>> =
                edge.as_array().map(|ends| ends.iter().filter_map(Value::as_str).collect());
            match (ends.as_deref(), edge.as_array().map(Vec::len)) {
                (Some([from, to]), Some(2)) if from == to => {
                    self.complain(place, format!("{from} cannot follow itself"));
                }
                (Some([from, to]), Some(2)) => {
                    if read.contains(&(*from, *to)) {
                        self.complain(place, format!("{from} to {to} is there twice"));
                    }
                    read.push((*from, *to));
                }
                _ => self.complain(place, "an edge is two names: [\"read\", \"write\"]"),
            }
        }
        read
    }

    /// Checks every task by itself, and says of what kind each is.
    fn catalog<'v>(
        &mut self,
        catalog: &'v Map<String, Value>,
        scheduler: TaskScheduler,
    ) -> BTreeMap<&'v str, Kind> {
        if catalog.len() > TASKS_MAX {
            self.complain("catalog", format!("a job has at most {TASKS_MAX} tasks"));
        }
        let mut kinds = BTreeMap::new();
        for (task, entry) in catalog {
            let place = below("catalog", task);
            if let Err(why) = TaskId::new(task) {
                self.complain(place.as_str(), why.to_string());
            }
            let Some(entry) = entry.as_object() else {
                self.complain(place, "write a table with type and fn or plugin");
                continue;
            };
            kinds.extend(self.task(&place, entry).map(|kind| (task.as_str(), kind)));
            if scheduler == TaskScheduler::Percentage && !entry.contains_key("percentage") {
                let place = below(&place, "percentage");
                self.complain(place, "is missing, by which this job's task-scheduler shares out");
            }
        }
        kinds
    }

    fn task(&mut self, place: &str, entry: &Map<String, Value>) -> Option<Kind> {
        let at = |key: &str| below(place, key);
        let kind = match entry.get("type").and_then(Value::as_str) {
            Some("input") => Some(Kind::Input),
            Some("function") => Some(Kind::Function),
            Some("output") => Some(Kind::Output),
            _ => {
                self.complain(at("type"), "write \"input\", \"function\" or \"output\"");
                None
            }
        };
        self.secrets(place, entry);
        let name = self.name(place, kind, entry);
        let names = self.names;
        let knows = |kind, name: &str, key: &str| names.knows_key(kind, name, key);
        // Whoever misspelt a key of the plugin wants to see those first.
        let own = kind.zip(name).map_or_else(Vec::new, |(kind, name)| names.own_keys(kind, name));
        let known: Vec<_> =
            own.iter().map(String::as_str).chain(TASK_KEYS.iter().copied()).collect();
        self.keys(place, entry, &known, |key| {
            kind.zip(name).is_none_or(|(kind, name)| knows(kind, name, key))
        });
        if let (Some(kind), Some(name)) = (kind, name) {
            let keys = entry.iter().map(|(key, value)| (key.as_str(), value)).collect();
            if let Some(why) = names.complain(kind, name, &keys) {
                self.complain(at(if kind == Kind::Function { "fn" } else { "plugin" }), why);
            }
        }
        for key in ["max-peers", "min-peers", "batch-size"] {
            let is_count =
                |it: &Value| it.as_u64().is_some_and(|n| (1..=u32::MAX.into()).contains(&n));
            if entry.get(key).is_some_and(|value| !is_count(value)) {
                self.complain(at(key), "write a whole number, at least 1");
            }
        }
        let count = |key: &str| entry.get(key).and_then(Value::as_u64);
        if let (Some(min), Some(max)) = (count("min-peers"), count("max-peers"))
            && min > max
        {
            self.complain(at("min-peers"), format!("{min} is above max-peers, which is {max}"));
        }
        self.percentage(&at("percentage"), entry.get("percentage"));
        for key in ["batch-timeout", "trigger"] {
            if let Some(value) = entry.get(key)
                && let Err(why) = value.as_str().ok_or("write \"500ms\"".into()).and_then(duration)
            {
                self.complain(at(key), why);
            }
        }
        if let Some(value) = entry.get("consumption")
            && !matches!(value.as_str(), Some("concurrent" | "sequential"))
        {
            self.complain(at("consumption"), "write \"concurrent\" or \"sequential\"");
        }
        if entry.get("consumption").and_then(Value::as_str) == Some("sequential")
            && count("max-peers") != Some(1)
        {
            self.complain(at("consumption"), "sequential means one peer: write max-peers = 1");
        }
        let is_names = |it: &Value| {
            it.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_string))
        };
        if entry.get("group-by").is_some_and(|value| !is_names(value)) {
            self.complain(at("group-by"), "write the names of fields: [\"word\"]");
        }
        kind
    }

    /// A job stands in the log: what is secret is referred to, and never repeated in a complaint.
    fn secrets(&mut self, place: &str, entry: &Map<String, Value>) {
        let params = entry.get("params").and_then(Value::as_object);
        let params = params.into_iter().flatten().map(|it| (below(place, "params"), it));
        let own = entry.iter().map(|it| (place.to_owned(), it));
        for (place, (key, value)) in own.chain(params) {
            let is_open = |text: &str| !text.is_empty() && !text.starts_with(secret::PREFIX);
            if secret::is_secret_key(key) && texts(value).into_iter().any(is_open) {
                let why = "everybody who reads the log would read this secret: write \
                           \"secret:env:NAME\", and give nodes the variable SARDONYX_SECRET_NAME";
                self.complain(below(&place, key), why);
            } else if key != "params" && texts(value).iter().any(|it| secret::has_password(it)) {
                let why = "everybody who reads the log would read the password in this URL: take \
                           it out, and refer to it by \"secret:env:NAME\" in a key of its own";
                self.complain(below(&place, key), why);
            }
        }
    }

    /// What a task runs: functions have an `fn`, the others a `plugin`.
    fn name<'v>(
        &mut self,
        place: &str,
        kind: Option<Kind>,
        entry: &'v Map<String, Value>,
    ) -> Option<&'v str> {
        let (kind, wanted, other) = match kind? {
            Kind::Function => ("a function", "fn", "plugin"),
            Kind::Input => ("an input", "plugin", "fn"),
            Kind::Output => ("an output", "plugin", "fn"),
        };
        if entry.contains_key(other) {
            self.complain(below(place, other), format!("{kind} has {wanted} instead"));
        }
        let name = entry.get(wanted).and_then(Value::as_str).filter(|name| !name.is_empty());
        if name.is_none() {
            self.complain(below(place, wanted), format!("write what it runs: {wanted} = \"…\""));
        }
        name
    }

    /// Who may follow whom.
    fn shape(
        &mut self,
        graph: &Graph<'_>,
        catalog: &Map<String, Value>,
        kinds: &BTreeMap<&str, Kind>,
    ) {
        for task in graph.tasks.iter().filter(|task| !catalog.contains_key(**task)) {
            self.complain(below("catalog", task), "is missing, but the workflow names it");
        }
        let inputs = graph.tasks.iter().filter(|task| kinds.get(**task) == Some(&Kind::Input));
        let reached = graph.reach(inputs.copied());
        let known: BTreeSet<_> = graph.tasks.iter().copied().collect();
        for (task, kind) in kinds {
            let place = below("catalog", task);
            if !known.contains(task) {
                self.complain(place, "the workflow does not name it: add an edge, or take it out");
                continue;
            }
            let (first, next) = (graph.before(task).next(), graph.next(task).next());
            match (kind, first, next) {
                (Kind::Input, Some(before), _) => {
                    let why =
                        format!("an input begins, but {before} leads to it: make it a function");
                    self.complain(place, why);
                }
                (Kind::Output, _, Some(next)) => {
                    let why = format!("an output ends, but it leads to {next}: make it a function");
                    self.complain(place, why);
                }
                (Kind::Function | Kind::Output, None, _) => {
                    self.complain(place, "nothing leads to it: begin with an input");
                }
                (Kind::Function, _, None) => {
                    self.complain(place, "it leads nowhere: end with an output");
                }
                (Kind::Function | Kind::Output, Some(_), _) if !reached.contains(task) => {
                    self.complain(place, "no input leads to it");
                }
                (Kind::Input | Kind::Function | Kind::Output, _, _) => {}
            }
        }
    }

    fn order(&mut self, graph: &Graph<'_>) -> Vec<TaskId> {
        match graph.order() {
            Ok(order) => order.into_iter().filter_map(|task| TaskId::new(task).ok()).collect(),
            Err(cycle) => {
                let way = cycle.join(" → ");
                self.complain("workflow", format!("runs in a circle: {way}; take one edge out"));
                Vec::new()
            }
        }
    }
}

fn below(place: &str, key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let key = if key.chars().all(is_bare) { key.to_owned() } else { format!("{key:?}") };
    if place.is_empty() { key } else { format!("{place}.{key}") }
}

/// All texts in a value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().flat_map(texts).collect(),
        Value::Object(all) => all.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Whether somebody who wrote `given` may have meant `known`: a letter wrong, too many or missing,
/// or another way of joining words.
fn is_near(known: &str, given: &str) -> bool {
    let plain = |text: &str| text.to_ascii_lowercase().replace('_', "-");
    let (known, given) = (plain(known), plain(given));
    if known.replace('-', "") == given.replace('-', "") {
        return true;
    }
    let same_start = known.chars().zip(given.chars()).take_while(|(a, b)| a == b).count();
    let same_end = known.chars().rev().zip(given.chars().rev()).take_while(|(a, b)| a == b).count();
    let longer = known.chars().count().max(given.chars().count());
    longer > 3 && same_start + same_end + 1 >= longer
}
