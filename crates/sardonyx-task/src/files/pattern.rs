//! Paths with `*`, `?`, `[…]` and `**`: which there are.
//!
//! Beneath roots a pattern is walked name by name through [`Files`], so that not even a look is
//! taken outside of them.

use std::path::{Component, Path, PathBuf};

use super::Files;

/// How deep `**` goes.
const DEPTH_MAX: usize = 64;

/// How many paths a pattern may stand for on the way.
const PATHS_MAX: usize = 1_000_000;

/// The paths that match, in no order.
pub(super) fn matching(files: &Files, path: &str) -> Result<Vec<PathBuf>, String> {
    if files.are_confined() {
        return walk(files, path);
    }
    let found = glob::glob(path).map_err(|why| no_pattern(path, &why))?;
    let unread = |why: glob::GlobError| format!("{path} cannot be read: {why}");
    found.map(|file| file.map_err(unread)).collect()
}

fn no_pattern(path: &str, why: &glob::PatternError) -> String {
    format!("path {path:?} is no pattern: {why}")
}

fn walk(files: &Files, path: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = vec![PathBuf::new()];
    for component in Path::new(path).components() {
        let mut next = Vec::new();
        for before in &found {
            step(files, path, before, component, &mut next)?;
            if next.len() > PATHS_MAX {
                return Err(format!("{path} stands for more than {PATHS_MAX} paths: name fewer"));
            }
        }
        found = next;
    }
    // `**` reaches a directory in several ways if it stands there twice.
    found.sort();
    found.dedup();
    Ok(found)
}

/// What `component` stands for behind `before`.
fn step(
    files: &Files,
    path: &str,
    before: &Path,
    component: Component<'_>,
    next: &mut Vec<PathBuf>,
) -> Result<(), String> {
    let name = component.as_os_str().to_string_lossy();
    if !name.contains(['*', '?', '[']) {
        next.push(before.join(component));
        return Ok(());
    }
    if name == "**" {
        next.push(before.to_owned());
        return below(files, path, before, 0, next);
    }
    let pattern = glob::Pattern::new(&name).map_err(|why| no_pattern(path, &why))?;
    for name in names(files, before)? {
        if name.to_str().is_some_and(|name| pattern.matches(name)) {
            next.push(before.join(name));
        }
    }
    Ok(())
}

/// All directories below one. Links are not walked through, as they may lead back.
fn below(
    files: &Files,
    path: &str,
    before: &Path,
    depth: usize,
    next: &mut Vec<PathBuf>,
) -> Result<(), String> {
    if depth > DEPTH_MAX || next.len() > PATHS_MAX {
        return Err(format!(
            "{path}: ** goes through more than {DEPTH_MAX} levels or {PATHS_MAX} directories: begin \
             it further down"
        ));
    }
    for name in names(files, before)? {
        let inner = before.join(name);
        if files.is_directory_itself(&inner) {
            next.push(inner.clone());
            below(files, path, &inner, depth + 1, next)?;
        }
    }
    Ok(())
}

/// The names in a directory. What is none, or is none of ours, has no names.
fn names(files: &Files, directory: &Path) -> Result<Vec<std::ffi::OsString>, String> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    match files.metadata(directory) {
        Ok(known) if known.is_dir() => {}
        Ok(_) | Err(_) => return Ok(Vec::new()),
    }
    let unread = |why| format!("{} cannot be read: {why}", directory.display());
    files.list(directory).map_err(unread)
}
