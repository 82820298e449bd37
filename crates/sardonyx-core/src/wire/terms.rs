//! What the cluster reads from a job.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Number, value::RawValue};

use crate::{
    id::TaskId,
    replica::job::{Percentage, TaskLimits, TaskScheduler, Terms},
};

/// Only what sharing out peers needs; everything else in a job is somebody else's.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct JobForm {
    task_scheduler: Option<TaskScheduler>,
    percentage: Option<Percentage>,
    partial_coverage_protection: bool,
    catalog: BTreeMap<String, LimitsForm>,
}

/// A task's bounds, in a catalog entry (which has more keys) and in a replica.
#[derive(Serialize, Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct LimitsForm {
    min_peers: Option<u32>,
    max_peers: Option<u32>,
    percentage: Option<Percentage>,
}

impl From<LimitsForm> for TaskLimits {
    fn from(form: LimitsForm) -> TaskLimits {
        let LimitsForm { min_peers, max_peers, percentage } = form;
        TaskLimits { min_peers, max_peers, percentage }
    }
}

impl From<TaskLimits> for LimitsForm {
    fn from(limits: TaskLimits) -> LimitsForm {
        let TaskLimits { min_peers, max_peers, percentage } = limits;
        LimitsForm { min_peers, max_peers, percentage }
    }
}

/// The terms of the job in `json`, whose tasks are given in topological order.
pub fn terms_from_json(json: &str, tasks: &[TaskId]) -> Result<Terms, String> {
    let form: JobForm = serde_json::from_str(json).map_err(|why| format!("the job: {why}"))?;
    let limits = |task: &TaskId| {
        form.catalog.get(task.as_str()).copied().map(TaskLimits::from).unwrap_or_default()
    };
    Ok(Terms {
        tasks: tasks.iter().map(|task| (task.clone(), limits(task))).collect::<Vec<_>>(),
        task_scheduler: form.task_scheduler.unwrap_or_default(),
        percentage: form.percentage,
        partial_coverage_protection: form.partial_coverage_protection,
    })
}

impl Serialize for Percentage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_string()).unwrap_or_default().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Percentage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?.to_string();
        hundredths(&number).and_then(Percentage::from_hundredths).ok_or_else(|| {
            let expected = "a percentage is from 0 to 100 with at most two decimals";
            de::Error::custom(format!("{expected}, not {number}"))
        })
    }
}

/// `33.3` as 3330, without ever being a float of ours.
fn hundredths(number: &str) -> Option<u32> {
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    let rest = rest.trim_end_matches('0');
    if rest.len() > 2 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let rest: u32 = format!("{rest:0<2}").parse().ok()?;
    whole.checked_mul(100)?.checked_add(rest)
}
