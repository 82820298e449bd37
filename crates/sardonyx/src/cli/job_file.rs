//! Job files on the command line: read, checked, complained about.

use std::{
    io::{self, Read as _},
    path::Path,
};

use sardonyx::{
    Registry,
    job::{Job, Language, Names, RegisteredNames},
};

use super::Failure;

/// Reads a job that this build is to run: with all its functions, and tried on a few rows.
pub(super) fn read(path: &Path, registry: &Registry) -> Result<(Job, String), Failure> {
    let (text, language) = text(path)?;
    let job = check(path, &text, language, &RegisteredNames::new(registry.clone()).trying())?;
    Ok((job, text))
}

/// The text of a job file, and its language; `-` is stdin.
pub(super) fn text(path: &Path) -> Result<(String, Language), Failure> {
    let name = path.to_string_lossy();
    if name == "-" {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text)?;
        let is_json = text.trim_start().starts_with('{');
        return Ok((text, if is_json { Language::Json } else { Language::Toml }));
    }
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|why| Failure::input(format!("{name}: {why}")))?;
    Ok((text, Language::of(&name)))
}

/// The job, or all complaints about it.
pub(super) fn check(
    path: &Path,
    text: &str,
    language: Language,
    names: &dyn Names,
) -> Result<Job, Failure> {
    Job::read(text, language, names).map_err(|complaints| {
        let lines: Vec<_> = complaints.iter().map(|it| format!("\n  {it}")).collect();
        Failure::input(format!("{} cannot run:{}", path.display(), lines.concat()))
    })
}
