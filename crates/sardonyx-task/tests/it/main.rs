//! Inputs and outputs as users have them: by name, with terms, on real files.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod bad;
mod confined;
mod follow;
mod fuzz;
mod inputs;
mod late;
mod moved;
mod outputs;
mod scene;
mod speed;
mod suite;
mod turns;

use std::{fs, path::Path, sync::Arc};

use sardonyx_task::{Input, Output, Terms, input::Read, plugin};
use serde_json::Value;

/// The input that these keys describe.
fn input(keys: &Value) -> Result<Arc<dyn Input>, String> {
    plugin::input(keys["plugin"].as_str().unwrap(), &Terms::new("job", "read", keys)).unwrap()
}

/// The output that these keys describe.
fn output(keys: &Value) -> Result<Arc<dyn Output>, String> {
    plugin::output(keys["plugin"].as_str().unwrap(), &Terms::new("job", "write", keys)).unwrap()
}

/// All rows, split after split.
fn read(input: &dyn Input) -> Result<Vec<String>, String> {
    let mut rows = Vec::new();
    for split in input.splits(None)?.splits {
        rows.extend(read_split(input, &split)?);
    }
    Ok(rows)
}

fn read_split(input: &dyn Input, split: &[u8]) -> Result<Vec<String>, String> {
    let mut reader = input.open(split, None)?;
    let mut rows = Vec::new();
    loop {
        match reader.read(1000)? {
            Read::Batch(batch, _) => rows.extend(sardonyx_task::suite::texts(&batch)?),
            Read::Wait(..) => return Err("it waits".into()),
            Read::End => return Ok(rows),
        }
    }
}

/// A path in a directory, as a job file has it.
fn at(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().unwrap().to_owned()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
