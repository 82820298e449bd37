//! What job files can name: functions, aggregates, predicates, inputs and outputs.
//!
//! A node starts with [`Registry::built_in`] and adds its own; each entry makes a thing from the
//! [`Terms`] of a task, and says which keys it reads, so that a slip in a job file is found before
//! the job runs.

use std::{collections::BTreeMap, fmt, sync::Arc};

use arrow::array::{BooleanArray, RecordBatch};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Files, Function, Input, Output, Terms, function,
    group::{self, Aggregate, Grouping, MakeAccumulator},
    nearest,
    on_error::Policy,
    plugin, record,
};

/// The keys that every task may have, whatever it runs.
pub const TASK_KEYS: &[&str] = &[
    "type",
    "fn",
    "plugin",
    "params",
    "batch-size",
    "batch-timeout",
    "max-peers",
    "min-peers",
    "percentage",
    "consumption",
    "group-by",
    "compression",
    "on-error",
    "dead-letters",
];

/// The `fn` of a task with several aggregates.
const SEVERAL: &str = "aggregate";

/// What a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It has an `fn`.
    Function,
    /// It has a `plugin` that reads.
    Input,
    /// It has a `plugin` that writes.
    Output,
}

/// Says of every row whether something holds; null is no.
pub type Predicate = Arc<dyn Fn(&RecordBatch) -> Result<BooleanArray, String> + Send + Sync>;

type Make<T> = dyn Fn(&Terms) -> Result<T, String> + Send + Sync;

struct Entry<T> {
    keys: Vec<String>,
    make: Arc<Make<T>>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Entry<T> {
        Entry { keys: self.keys.clone(), make: self.make.clone() }
    }
}

type Entries<T> = BTreeMap<String, Entry<T>>;

/// Everything that can be named. Cloning is cheap enough to do once for each task.
#[derive(Clone, Default)]
pub struct Registry {
    functions: Entries<Box<dyn Function>>,
    aggregates: Entries<MakeAccumulator>,
    predicates: BTreeMap<String, Predicate>,
    inputs: Entries<Arc<dyn Input>>,
    outputs: Entries<Arc<dyn Output>>,
    files: Files,
    secrets: Files,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("functions", &self.functions.keys())
            .field("aggregates", &self.aggregates.keys())
            .field("predicates", &self.predicates.keys())
            .field("inputs", &self.inputs.keys())
            .field("outputs", &self.outputs.keys())
            .finish()
    }
}

/// Adding. A name that is there already is replaced, so that a node may bring its own `lower`.
impl Registry {
    /// What comes with Sardonyx.
    pub fn built_in() -> Registry {
        let mut registry = Registry::default();
        function::register(&mut registry);
        for (name, keys, make) in plugin::INPUTS {
            registry.input(name, keys, *make);
        }
        for (name, keys, make) in plugin::OUTPUTS {
            registry.output(name, keys, *make);
        }
        group::register(&mut registry);
        registry
    }

    /// Which files the tasks may touch; any, if nobody says.
    pub fn files(&mut self, files: Files) -> &mut Registry {
        self.files = files;
        self
    }

    /// Where `secret:file:PATH` of a job is looked for; anywhere, if nobody says.
    pub fn secrets(&mut self, secrets: Files) -> &mut Registry {
        self.secrets = secrets;
        self
    }

    /// A function, made for each peer that runs it. `keys` are those of the task that `make` reads,
    /// beside [`TASK_KEYS`].
    pub fn function(
        &mut self,
        name: &str,
        keys: &[&str],
        make: impl Fn(&Terms) -> Result<Box<dyn Function>, String> + Send + Sync + 'static,
    ) -> &mut Registry {
        insert(&mut self.functions, name, keys, make);
        self
    }

    /// A function of one record: any serde type in; none, one or many out.
    pub fn record<In, Out, Many, F>(&mut self, name: &str, function: F) -> &mut Registry
    where
        In: DeserializeOwned + 'static,
        Out: Serialize + DeserializeOwned + 'static,
        Many: IntoIterator<Item = Out> + 'static,
        F: Fn(In) -> Many + Send + Sync + 'static,
    {
        self.try_record(name, move |record| Ok(function(record)))
    }

    /// The same, for a function that can fail on a record: `on-error` says what then happens.
    pub fn try_record<In, Out, Many, F>(&mut self, name: &str, function: F) -> &mut Registry
    where
        In: DeserializeOwned + 'static,
        Out: Serialize + DeserializeOwned + 'static,
        Many: IntoIterator<Item = Out> + 'static,
        F: Fn(In) -> Result<Many, String> + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        self.function(name, &[], move |_| {
            let function = function.clone();
            Ok(Box::new(record::EachRecord::new(move |record| function(record))))
        })
    }

    /// A function of batches without state.
    pub fn batch(
        &mut self,
        name: &str,
        function: impl Fn(&RecordBatch) -> Result<RecordBatch, String> + Send + Sync + 'static,
    ) -> &mut Registry {
        let function = Arc::new(function);
        self.function(name, &[], move |_| Ok(Box::new(function::OfBatches(function.clone()))))
    }

    /// A function with effects of its own: it sees each batch once and whole, and segments go on as
    /// they came.
    pub fn bulk(
        &mut self,
        name: &str,
        function: impl Fn(&RecordBatch) -> Result<(), String> + Send + Sync + 'static,
    ) -> &mut Registry {
        let function = Arc::new(function);
        self.function(name, &[], move |_| Ok(Box::new(function::Bulk(function.clone()))))
    }

    /// An aggregate for grouped tasks. `keys` are those that `make` reads, beside those of all
    /// grouped tasks.
    pub fn aggregate<A: Aggregate>(
        &mut self,
        name: &str,
        keys: &[&str],
        make: impl Fn(&Terms) -> Result<A, String> + Send + Sync + 'static,
    ) -> &mut Registry {
        insert(&mut self.aggregates, name, keys, move |terms| {
            let aggregate = Arc::new(make(terms)?);
            let make: MakeAccumulator =
                Arc::new(move || Box::new(group::OfRecords::new(aggregate.clone())));
            Ok(make)
        });
        self
    }

    /// An aggregate that comes with Sardonyx.
    pub(crate) fn accumulator(
        &mut self,
        name: &str,
        make: impl Fn(&Terms) -> Result<MakeAccumulator, String> + Send + Sync + 'static,
    ) {
        insert(&mut self.aggregates, name, &[], make);
    }

    /// A question about one record, for flow conditions.
    pub fn predicate<In: DeserializeOwned + 'static>(
        &mut self,
        name: &str,
        test: impl Fn(&In) -> bool + Send + Sync + 'static,
    ) -> &mut Registry {
        self.batch_predicate(name, move |batch| record::predicate(&test, batch))
    }

    /// A question about all rows of a batch at once, for flow conditions.
    pub fn batch_predicate(
        &mut self,
        name: &str,
        test: impl Fn(&RecordBatch) -> Result<BooleanArray, String> + Send + Sync + 'static,
    ) -> &mut Registry {
        self.predicates.insert(name.into(), Arc::new(test));
        self
    }

    /// A source of segments, made once for each node and task.
    pub fn input(
        &mut self,
        name: &str,
        keys: &[&str],
        make: impl Fn(&Terms) -> Result<Arc<dyn Input>, String> + Send + Sync + 'static,
    ) -> &mut Registry {
        insert(&mut self.inputs, name, keys, make);
        self
    }

    /// A destination of segments, made once for each node and task.
    pub fn output(
        &mut self,
        name: &str,
        keys: &[&str],
        make: impl Fn(&Terms) -> Result<Arc<dyn Output>, String> + Send + Sync + 'static,
    ) -> &mut Registry {
        insert(&mut self.outputs, name, keys, make);
        self
    }
}

/// Making. An error says what to write instead.
impl Registry {
    /// The function that `fn` names, for one peer.
    pub fn make_function(&self, terms: &Terms) -> Result<Box<dyn Function>, String> {
        match terms.text("fn")? {
            Some(name) if self.is_aggregate(name) && !self.functions.contains_key(name) => {
                Err(format!("{name} is an aggregate: write group-by = [\"…\"] beside it"))
            }
            Some(name) if !self.functions.contains_key(name) => Err(self.unknown_function(name)),
            _ => make(&self.functions, "fn", "function", &self.granted(terms)),
        }
    }

    /// How a task with `group-by` groups. Ask [`Grouping::has_aggregates`] whether there is also a
    /// function to make.
    pub fn grouped(&self, terms: &Terms) -> Result<Grouping, String> {
        match terms.text("fn")? {
            None => Err("needs fn: write which function or aggregate".into()),
            Some(name) if !self.is_aggregate(name) && !self.functions.contains_key(name) => {
                Err(self.unknown_function(name))
            }
            Some(name) => {
                Grouping::new(&self.granted(terms), self).map_err(|why| format!("{name}: {why}"))
            }
        }
    }

    /// Whether `fn` can name it in a task with `group-by` to make rows of groups.
    pub fn is_aggregate(&self, name: &str) -> bool {
        name == SEVERAL || self.aggregates.contains_key(name)
    }

    pub(crate) fn make_accumulator(
        &self,
        name: &str,
        terms: &Terms,
    ) -> Result<MakeAccumulator, String> {
        match self.aggregates.get(name) {
            Some(entry) => (entry.make)(terms),
            None => {
                let hint = nearest::hint(name, self.aggregates.keys().map(String::as_str));
                Err(format!("there is no aggregate {name:?}; {hint}"))
            }
        }
    }

    fn unknown_function(&self, name: &str) -> String {
        let hint = nearest::hint(name, self.names(Kind::Function));
        format!("there is no function {name:?}; {hint}")
    }

    /// The terms with what this process lets jobs touch.
    fn granted(&self, terms: &Terms) -> Terms {
        terms.clone().with_files(&self.files, &self.secrets)
    }

    /// The input that `plugin` names.
    pub fn make_input(&self, terms: &Terms) -> Result<Arc<dyn Input>, String> {
        make(&self.inputs, "plugin", "input", &self.granted(terms))
    }

    /// The output that `plugin` names.
    pub fn make_output(&self, terms: &Terms) -> Result<Arc<dyn Output>, String> {
        make(&self.outputs, "plugin", "output", &self.granted(terms))
    }

    /// The predicate of that name.
    pub fn make_predicate(&self, name: &str) -> Result<Predicate, String> {
        self.predicates.get(name).cloned().ok_or_else(|| {
            let hint = nearest::hint(name, self.predicates.keys().map(String::as_str));
            format!("there is no predicate {name:?}; {hint}")
        })
    }
}

/// Asking before a job runs.
impl Registry {
    /// Whether a task of this kind that runs `name` may have this key. Of an unknown name, which is
    /// complained about anyway, everything is believed.
    pub fn knows_key(&self, kind: Kind, name: &str, key: &str) -> bool {
        TASK_KEYS.contains(&key)
            || (kind == Kind::Function && group::KEYS.contains(&key))
            || self.keys(kind, name).is_none_or(|keys| keys.iter().any(|it| it == key))
    }

    /// The keys that `name` reads beside [`TASK_KEYS`].
    pub fn keys(&self, kind: Kind, name: &str) -> Option<&[String]> {
        match kind {
            Kind::Function => {
                let function = self.functions.get(name).map(|entry| &entry.keys[..]);
                let aggregate = || self.aggregates.get(name).map(|entry| &entry.keys[..]);
                let several = || (name == SEVERAL).then_some(&[][..]);
                function.or_else(aggregate).or_else(several)
            }
            Kind::Input => self.inputs.get(name).map(|entry| &entry.keys[..]),
            Kind::Output => self.outputs.get(name).map(|entry| &entry.keys[..]),
        }
    }

    /// The names of one kind, in order.
    pub fn names(&self, kind: Kind) -> Vec<&str> {
        match kind {
            Kind::Function => {
                let functions = self.functions.keys().chain(self.aggregates.keys());
                let mut names: Vec<&str> = functions.map(String::as_str).chain([SEVERAL]).collect();
                names.sort_unstable();
                names.dedup();
                names
            }
            Kind::Input => self.inputs.keys().map(String::as_str).collect(),
            Kind::Output => self.outputs.keys().map(String::as_str).collect(),
        }
    }

    /// What is wrong with these terms: an unknown name or key, or what the thing itself says when it
    /// is made. Making has no effects.
    pub fn complain(&self, kind: Kind, terms: &Terms) -> Option<String> {
        let (key, made) = match kind {
            Kind::Function => ("fn", self.check_function(terms)),
            Kind::Input => ("plugin", self.make_input(terms).map(drop)),
            Kind::Output => ("plugin", self.make_output(terms).map(drop)),
        };
        let is_grouped = terms.keys.contains_key("group-by");
        let unknown = || {
            let name = terms.text(key).ok()??;
            let own = self.keys(kind, name)?;
            let is_known = |key: &str| match group::KEYS.contains(&key) && kind == Kind::Function {
                true => is_grouped || own.iter().any(|it| it == key),
                false => self.knows_key(kind, name, key),
            };
            let slip = terms.keys.keys().find(|key| !is_known(key))?;
            let of_groups = if is_grouped { group::KEYS } else { &[] };
            let known = own.iter().map(String::as_str);
            let known = known.chain(TASK_KEYS.iter().chain(of_groups).copied());
            if group::KEYS.contains(&slip.as_str()) && kind == Kind::Function {
                return Some(format!("{slip} is for tasks with group-by"));
            }
            Some(format!("{name} has no key {slip}; {}", nearest::hint(slip, known)))
        };
        made.err().or_else(unknown)
    }

    fn check_function(&self, terms: &Terms) -> Result<(), String> {
        Policy::of(terms)?;
        if !terms.keys.contains_key("group-by") {
            return self.make_function(terms).map(drop);
        }
        match self.grouped(terms)?.has_aggregates() {
            true => Ok(()),
            false => self.make_function(terms).map(drop),
        }
    }
}

fn insert<T>(
    entries: &mut Entries<T>,
    name: &str,
    keys: &[&str],
    make: impl Fn(&Terms) -> Result<T, String> + Send + Sync + 'static,
) {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    entries.insert(name.into(), Entry { keys, make: Arc::new(make) });
}

fn make<T>(entries: &Entries<T>, key: &str, what: &str, terms: &Terms) -> Result<T, String> {
    let name = terms.text(key)?;
    let name = name.ok_or_else(|| format!("needs {key}: write which {what}"))?;
    let Some(entry) = entries.get(name) else {
        let hint = nearest::hint(name, entries.keys().map(String::as_str));
        return Err(format!("there is no {what} {name:?}; {hint}"));
    };
    (entry.make)(terms).map_err(|why| format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tables are written in place")]
    fn terms(entry: serde_json::Value) -> Terms {
        Terms::new("j", "t", &entry)
    }

    #[derive(Serialize, Deserialize)]
    struct Line {
        line: String,
    }

    #[derive(Serialize, Deserialize)]
    struct Long {
        line: String,
        length: i64,
    }

    fn lines(lines: &[&str]) -> RecordBatch {
        let lines = StringArray::from(lines.to_vec());
        RecordBatch::try_from_iter([("line", Arc::new(lines) as _)]).unwrap()
    }

    #[test]
    fn a_slip_in_a_name_is_recognised() {
        let registry = Registry::built_in();
        let why = registry.make_function(&terms(json!({"fn": "pas"}))).err().unwrap();
        assert_eq!(why, "there is no function \"pas\"; did you mean pass?");
        let why = registry.make_function(&terms(json!({}))).err().unwrap();
        assert_eq!(why, "needs fn: write which function");
    }

    #[test]
    fn a_slip_in_a_key_is_recognised() {
        let mut registry = Registry::default();
        registry.function("f", &["column"], |_| Ok(Box::new(function::Pass)));
        let complain = |entry| registry.complain(Kind::Function, &terms(entry));
        assert_eq!(complain(json!({"fn": "f", "column": "a", "batch-size": 3})), None);
        assert_eq!(complain(json!({"fn": "f", "compression": "lz4"})), None);
        let why = complain(json!({"fn": "f", "colum": "a"})).unwrap();
        assert_eq!(why, "f has no key colum; did you mean column?");
    }

    #[test]
    fn groups_are_complained_about() {
        let registry = Registry::built_in();
        let complain = |entry| registry.complain(Kind::Function, &terms(entry));
        let by = json!(["k"]);
        for good in [
            json!({"fn": "count", "group-by": by, "partitions": 4, "trigger": "1s", "as": "n"}),
            json!({"fn": "aggregate", "group-by": by, "aggregates": {"n": "count(*)"}}),
            json!({"fn": "pass", "group-by": by}),
            json!({"fn": "lower", "on-error": {"retry": 2}, "as": "small"}),
        ] {
            assert_eq!(complain(good), None);
        }
        for (entry, expected) in [
            (json!({"fn": "count"}), "count is an aggregate: write group-by = [\"…\"] beside it"),
            (json!({"fn": "pass", "of": "x"}), "of is for tasks with group-by"),
            (json!({"fn": "count", "group-by": by, "trigger": "soon"}), "count: trigger: "),
            (json!({"fn": "count", "group-by": by, "partition": 4}), "did you mean partitions?"),
            (json!({"fn": "pass", "on-error": "what"}), "on-error is not \"what\""),
            (json!({"fn": "sql", "group-by": by}), "sql: needs query"),
            (json!({"fn": "sql", "query": "select"}), "sql: query "),
        ] {
            let why = complain(entry).unwrap();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_function_of_records_gives_none_one_or_many() {
        let mut registry = Registry::default();
        registry.record("repeat", |it: Line| {
            let length = it.line.len() as i64;
            (0..length).map(move |_| Long { line: it.line.clone(), length }).collect::<Vec<_>>()
        });
        let mut function = registry.make_function(&terms(json!({"fn": "repeat"}))).unwrap();
        let out = function.apply(&lines(&["", "a", "bb"])).unwrap();
        assert_eq!(out.num_rows(), 3);
        let lengths = out.column_by_name("length").unwrap();
        assert_eq!(lengths.as_ref(), &Int64Array::from(vec![1, 2, 2]));
        let none = function.apply(&lines(&[])).unwrap();
        assert_eq!(none.schema(), out.schema(), "columns are known before there is data");
    }

    #[test]
    fn a_function_of_records_can_fail_and_can_be_misfed() {
        let mut registry = Registry::default();
        registry.try_record("number", |it: Line| match it.line.parse() {
            Ok(length) => Ok(Some(Long { line: it.line, length })),
            Err(_) => Err(format!("{:?} is no number", it.line)),
        });
        let mut function = registry.make_function(&terms(json!({"fn": "number"}))).unwrap();
        assert_eq!(function.apply(&lines(&["7"])).unwrap().num_rows(), 1);
        assert_eq!(function.apply(&lines(&["x"])).unwrap_err(), "\"x\" is no number");
        let other = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as _)]);
        let why = function.apply(&other.unwrap()).unwrap_err();
        assert!(why.contains("line") && why.contains("its columns are [\"n\"]"), "{why}");
    }

    #[test]
    fn results_without_a_fixed_shape_are_learned_from_the_first() {
        let mut registry = Registry::default();
        registry.record("tag", |it: Line| [json!({"tag": it.line, "n": 1})]);
        let mut function = registry.make_function(&terms(json!({"fn": "tag"}))).unwrap();
        let out = function.apply(&lines(&["a"])).unwrap();
        assert_eq!(out.schema().field_with_name("tag").unwrap().name(), "tag");
        assert_eq!(function.apply(&lines(&["b"])).unwrap().schema(), out.schema());
    }

    #[test]
    fn predicates_are_found_by_name() {
        let mut registry = Registry::default();
        registry.predicate("is-long", |it: &Line| it.line.len() > 2);
        let test = registry.make_predicate("is-long").unwrap();
        let holds = test(&lines(&["a", "abc"])).unwrap();
        assert_eq!(holds, BooleanArray::from(vec![false, true]));
        let why = registry.make_predicate("is-lon").err().unwrap();
        assert_eq!(why, "there is no predicate \"is-lon\"; did you mean is-long?");
    }
}
