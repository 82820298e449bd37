//! What a job file says about one task, and reading it with errors that say what to write.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::{Files, secret::Reference};

/// The terms of one task: its catalog entry, with the names around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// The job's id.
    pub job: String,
    /// The task's name.
    pub task: String,
    /// The catalog entry, all keys.
    pub keys: Map<String, Value>,
    /// What the process that runs the task lets jobs touch.
    pub(crate) files: Files,
    /// Where it keeps secrets for them.
    pub(crate) secrets: Files,
}

impl Terms {
    /// The terms of `task`, whose catalog entry is `entry`.
    pub fn new(job: &str, task: &str, entry: &Value) -> Terms {
        let keys = entry.as_object().cloned().unwrap_or_default();
        Terms {
            job: job.into(),
            task: task.into(),
            keys,
            files: Files::any(),
            secrets: Files::any(),
        }
    }

    /// The same, where jobs may touch these files alone, and secrets lie in those.
    #[must_use]
    pub fn with_files(mut self, files: &Files, secrets: &Files) -> Terms {
        (self.files, self.secrets) = (files.clone(), secrets.clone());
        self
    }

    /// The files that this task may touch: plugins open theirs by it.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// A text, if the key is there.
    pub fn text(&self, key: &str) -> Result<Option<&str>, String> {
        self.read(key, "a text", Value::as_str)
    }

    /// A secret that the job refers to, if the key is there: `secret:env:NAME`. Look it up where it is
    /// used, and not when the task is made, which also happens where jobs are only checked.
    pub fn secret(&self, key: &str) -> Result<Option<Reference>, String> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(None),
            // What is no reference may be the secret: it is not repeated.
            Some(value) => {
                let text = value.as_str().unwrap_or_default();
                let read = Reference::parse(text, &self.secrets);
                read.map(Some).map_err(|why| format!("{key}: {why}"))
            }
        }
    }

    /// A text that must be there.
    pub fn required_text(&self, key: &str, example: &str) -> Result<&str, String> {
        self.text(key)?.ok_or_else(|| format!("needs {key}: write {key} = {example:?}"))
    }

    /// A whole number, if the key is there.
    pub fn number(&self, key: &str) -> Result<Option<u64>, String> {
        self.read(key, "a whole number", Value::as_u64)
    }

    /// True or false, if the key is there.
    pub fn truth(&self, key: &str) -> Result<Option<bool>, String> {
        self.read(key, "true or false", Value::as_bool)
    }

    /// A list of texts; absent is empty.
    pub fn texts(&self, key: &str) -> Result<Vec<&str>, String> {
        let list = self.read(key, "a list of texts", |value| {
            value.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>()
        })?;
        Ok(list.unwrap_or_default())
    }

    /// A duration such as `500ms`, `2s`, `5m` or `1h`, if the key is there.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>, String> {
        self.text(key)?
            .map(|text| duration(text).map_err(|why| format!("{key}: {why}")))
            .transpose()
    }

    fn read<'a, T>(
        &'a self,
        key: &str,
        what: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(format!("{key} is {what}, not {value}")),
            },
        }
    }
}

/// Reads `500ms`, `2s`, `5m` or `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration: write 500ms, 2s, 5m or 1h");
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)
}
