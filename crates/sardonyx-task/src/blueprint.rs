//! One task of a job, as it has to be run: its terms, and its neighbours.

use serde_json::Value;

use crate::{Registry, Terms, flow::Flow, group::Grouping, on_error::Policy, registry::Kind};

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
    /// What happens to records that its function fails on.
    pub policy: Policy,
    /// By what it groups, if it does.
    pub grouping: Option<Grouping>,
    /// The conditions of all tasks, as the job has them.
    conditions: Value,
}

impl Blueprint {
    /// Reads the blueprint of `task` from a job that was checked before. An error says what is wrong
    /// with it all the same: nodes of another build may have other functions.
    pub fn read(
        id: &str,
        job: &Value,
        task: &str,
        registry: &Registry,
    ) -> Result<Blueprint, String> {
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
        let policy = Policy::of(&terms)?;
        if let Some(letters) = policy.dead_letters.as_ref().filter(|it| !next.contains(it)) {
            return Err(format!(
                "dead-letters goes to {letters:?}, which does not follow it: add the edge \
                 [{task:?}, {letters:?}] to the workflow"
            ));
        }
        if let Some(letters) = &policy.dead_letters
            && entry(letters)?.text("type")? != Some("output")
        {
            return Err(format!("dead-letters names an output task, which {letters:?} is not"));
        }
        let downstream = next
            .iter()
            .filter(|to| Some(**to) != policy.dead_letters.as_ref())
            .map(|to| {
                let grouping = grouping(&entry(to)?, registry)?;
                Ok(Next { task: (*to).clone(), grouping })
            })
            .collect::<Result<Vec<_>, String>>()?;
        let grouping = grouping(&terms, registry)?;
        let conditions = serde_json::json!({ "flow": job["flow"] });
        let upstream = upstream.collect();
        let mut blueprint =
            Blueprint { terms, kind, upstream, downstream, policy, grouping, conditions };
        blueprint.policy.routes_exceptions =
            blueprint.flow(registry)?.is_some_and(|flow| flow.has_exceptions());
        Ok(blueprint)
    }

    /// Which segments go where; `None`: all of them everywhere.
    pub(crate) fn flow(&self, registry: &Registry) -> Result<Option<Flow>, String> {
        let names: Vec<String> = self.downstream.iter().map(|next| next.task.clone()).collect();
        Flow::of(&self.conditions, self.task(), &names, registry)
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
