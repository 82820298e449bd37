//! The tree as a value: every path, and the text of every file that a rule reads.
//!
//! Rules are functions over it, so that a bad example is a few strings in a test and needs no
//! disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use crate::run;

/// The texts that rules read, by how their names end.
const TEXTS: &[&str] = &["rs", "md", "toml", "txt"];

/// The workspace at one moment. Paths are relative to its root, with `/` between their parts.
#[derive(Default)]
pub(crate) struct Tree {
    /// Every file and directory.
    pub(crate) paths: BTreeSet<String>,
    /// The texts, by path.
    pub(crate) texts: BTreeMap<String, String>,
    /// What cargo says about the members of the workspace, as JSON.
    pub(crate) metadata: String,
}

impl Tree {
    /// Reads the workspace that this tool belongs to.
    pub(crate) fn read() -> Result<Tree, String> {
        let mut tree = Tree::default();
        tree.walk(&root(), "")?;
        let output = run::cargo()
            .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
            .output()
            .map_err(|why| format!("cannot start cargo: {why}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("cargo metadata failed: {why}"));
        }
        tree.metadata = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(tree)
    }

    /// Everything below `at` except what git and cargo keep for themselves.
    fn walk(&mut self, root: &Path, at: &str) -> Result<(), String> {
        let cannot = |why| format!("cannot read {}: {why}", root.join(at).display());
        for entry in fs::read_dir(root.join(at)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if at.is_empty() { name.clone() } else { format!("{at}/{name}") };
            let is_dir = entry.file_type().map_err(cannot)?.is_dir();
            if is_dir {
                // Cargo marks its target directories so, whatever they are called.
                let is_built = entry.path().join("CACHEDIR.TAG").exists();
                if name != ".git" && name != "target" && !is_built {
                    self.walk(root, &path)?;
                }
            } else if TEXTS.iter().any(|&ending| has_ending(&path, ending)) {
                let bytes = fs::read(entry.path()).map_err(cannot)?;
                self.texts.insert(path.clone(), String::from_utf8_lossy(&bytes).into_owned());
            }
            self.paths.insert(path);
        }
        Ok(())
    }

    /// The files whose names end in `.ending`, in the order of their paths.
    pub(crate) fn ending<'a>(
        &'a self,
        ending: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(move |(path, _)| has_ending(path, ending))
    }

    /// The files below `directory`, in the order of their paths.
    pub(crate) fn below<'a>(
        &'a self,
        directory: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(move |(path, _)| {
            path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// The text at `path`, or nothing, for a rule to which a missing file and an empty one are
    /// the same fault.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.texts.get(path).map_or("", String::as_str)
    }
}

fn has_ending(path: &str, ending: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, last)| last == ending)
}

/// Whether a `.rs` file holds nothing but tests.
pub(crate) fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// The root of the workspace.
///
/// Asked when we run, not when we are compiled: one target directory may serve several clones,
/// and a root compiled in would be the root of another one.
pub(crate) fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    match package.as_deref().and_then(Path::parent) {
        Some(root) => root.to_owned(),
        None => PathBuf::from("."),
    }
}

#[cfg(test)]
impl Tree {
    /// A tree of a few files, for a rule's example.
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            let parents = Path::new(path).ancestors().filter_map(Path::to_str);
            tree.paths.extend(parents.filter(|path| !path.is_empty()).map(str::to_owned));
            tree.texts.insert((*path).to_owned(), (*text).to_owned());
        }
        tree
    }
}
