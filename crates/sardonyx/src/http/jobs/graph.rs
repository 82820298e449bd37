//! What is shown of a job's text: its name, its edges, what its tasks run.

use std::collections::BTreeMap;

use serde_json::Value;

/// A job as a drawing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Graph {
    pub(super) name: Option<String>,
    pub(super) edges: Vec<[String; 2]>,
    pub(super) tasks: BTreeMap<String, About>,
}

/// What a task is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct About {
    pub(super) kind: Option<String>,
    pub(super) runs: Option<String>,
    pub(super) dead_letters: Option<String>,
}

impl Graph {
    /// Reads what there is. The text was checked by whoever submitted it, which need not have been
    /// this build: what is not as expected is left out.
    pub(super) fn read(text: &str) -> Graph {
        let job: Value = serde_json::from_str(text).unwrap_or_default();
        let owned = |value: &Value| value.as_str().map(str::to_owned);
        let edge = |edge: &Value| Some([owned(edge.get(0)?)?, owned(edge.get(1)?)?]);
        let edges = job["workflow"].as_array().into_iter().flatten().filter_map(edge).collect();
        let about = |task: &Value| About {
            kind: owned(&task["type"]),
            runs: owned(&task["fn"]).or_else(|| owned(&task["plugin"])),
            dead_letters: owned(&task["dead-letters"]),
        };
        let catalog = job["catalog"].as_object().into_iter().flatten();
        let tasks = catalog.map(|(name, task)| (name.clone(), about(task))).collect();
        Graph { name: owned(&job["name"]), edges, tasks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_drawn_as_far_as_it_can_be_read() {
        let text = r#"{"name": "n", "workflow": [["a", "b"], ["b"], 3],
            "catalog": {"a": {"type": "input", "plugin": "file"}, "b": {"fn": "f"}, "c": 1}}"#;
        let graph = Graph::read(text);
        assert_eq!(graph.name.as_deref(), Some("n"));
        assert_eq!(graph.edges, [["a".to_owned(), "b".to_owned()]]);
        assert_eq!(graph.tasks["a"].runs.as_deref(), Some("file"));
        assert_eq!(graph.tasks["b"].runs.as_deref(), Some("f"));
        assert_eq!(graph.tasks["c"], About::default());
        assert_eq!(Graph::read(""), Graph::default());
        assert_eq!(Graph::read("[1]"), Graph::default());
    }
}
