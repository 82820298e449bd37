//! One task of a job, as it has to be run: its terms, and its neighbours.

use serde_json::Value;

use crate::{Registry, Terms, flow::Flow, group::Grouping, on_error::OnError, registry::Kind};

/// A task downstream.
#[derive(Clone)]
pub struct Next {
    /// Its name.
    pub task: String,
    /// By what it groups; segments go to the partition of their key.
    pub grouping: Option<Grouping>,
}

/// How a task is to be run.
#[derive(Clone)]
pub struct Blueprint {
    /// What the job file says about it.
    pub terms: Terms,
    /// What it is.
    pub kind: Kind,
    /// Who sends to it, in the order of the workflow.
    pub upstream: Vec<String>,
    /// Whom it sends to, in the order of the workflow, but for the one that takes dead letters.
    pub downstream: Vec<Next>,
    /// Where records go that its function failed on.
    pub dead_letters: Option<String>,
    /// What happens to them otherwise.
    pub on_error: OnError,
    /// By what it groups, if it does.
    pub grouping: Option<Grouping>,
    /// Which segments go where; `None`: all of them everywhere.
    pub flow: Option<Flow>,
}

impl Blueprint {
    /// Reads the blueprint of `task` from a job that was checked before. An error says what is wrong
    /// with it all the same: nodes of another build may have other functions.
    pub fn read(id: &str, job: &Value, task: &str, registry: &Registry) -> Result<Blueprint, String> {
        let entry = |name: &str| {
            let entry = &job["catalog"][name];
            match entry.is_object() {
                true => Ok(Terms::new(id, name, entry)),
                false => Err(format!("the catalog has no entry {name:?}")),
            }
        };
        let terms = entry(task)?;
        let kind = match terms.text("type")? {
            Some("input") => Kind::Input,
            Some("function") => Kind::Function,
            Some("output") => Kind::Output,
            other => return Err(format!("type is input, function or output, not {other:?}")),
        };
        let edges = edges(job);
        let upstream = edges.iter().filter(|(_, to)| to == task).map(|(from, _)| from.clone());
        let next: Vec<&String> =
            edges.iter().filter(|(from, _)| from == task).map(|(_, to)| to).collect();
        let dead_letters = terms.text("dead-letters")?.map(str::to_owned);
        let downstream = next
            .iter()
            .filter(|to| Some(**to) != dead_letters.as_ref())
            .map(|to| {
                let grouping = grouping(&entry(to)?, registry)?;
                Ok(Next { task: (*to).clone(), grouping })
            })
            .collect::<Result<Vec<_>, String>>()?;
        let names: Vec<String> = downstream.iter().map(|next| next.task.clone()).collect();
        Ok(Blueprint {
            kind,
            upstream: upstream.collect(),
            dead_letters,
            on_error: OnError::read(&terms)?,
            grouping: grouping(&terms, registry)?,
            flow: Flow::of(job, task, &names, registry)?,
            downstream,
            terms,
        })
    }

    /// Its name.
    pub fn task(&self) -> &str {
        &self.terms.task
    }
}

fn grouping(terms: &Terms, registry: &Registry) -> Result<Option<Grouping>, String> {
    match terms.keys.contains_key("group-by") {
        true => registry.grouped(terms).map(Some),
        false => Ok(None),
    }
}

/// The edges of a job, in the order of its workflow.
pub(crate) fn edges(job: &Value) -> Vec<(String, String)> {
    let list = job["workflow"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    list.iter().filter_map(|edge| Some((text(&edge[0])?, text(&edge[1])?))).collect()
}
