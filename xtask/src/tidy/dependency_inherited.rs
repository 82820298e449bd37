//! A member takes its dependencies from the workspace.
//!
//! One list, in the root manifest, with one version and one reason each; otherwise two members
//! drift to two versions and the reasons are nowhere.

use super::Fault;
use crate::tree::Tree;

/// In every member's manifest, each dependency is `workspace = true`, or the crate itself.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    // What is a workspace of its own, such as another engine's bench, has nothing to inherit from.
    let is_member = |text: &str| !text.lines().any(|line| line == "[workspace]");
    let manifests = tree.texts.iter();
    let manifests =
        manifests.filter(|(path, text)| path.ends_with("/Cargo.toml") && is_member(text));
    manifests.flat_map(|(path, text)| own_choices(path, text)).collect()
}

fn own_choices(path: &str, text: &str) -> Vec<Fault> {
    let remedy = "name it in [workspace.dependencies] with its reason, and write \
                  `….workspace = true` here";
    let mut faults = Vec::new();
    let mut is_inside = false;
    for (index, line) in text.lines().enumerate() {
        let fault = || Fault::new(path, index + 1, remedy);
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches([']', ' ']);
            is_inside = section.ends_with("dependencies");
            if section.contains("dependencies.") {
                faults.push(fault());
            }
        } else if is_inside && is_own_choice(line) {
            faults.push(fault());
        }
    }
    faults
}

fn is_own_choice(line: &str) -> bool {
    let is_named = line.starts_with(|c: char| c.is_ascii_alphanumeric()) && line.contains('=');
    let is_inherited = line.contains("workspace = true");
    let is_itself = line.contains("path = \".\"");
    is_named && !is_inherited && !is_itself
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_members_inherit() {
        our_tree_keeps(check);
    }

    #[test]
    fn a_version_of_ones_own_is_found() {
        let manifest = "\
[package]
name = \"a\"

[dependencies]
good.workspace = true
fine = { workspace = true, features = [\"std\"] }
bad = \"1\"

[dev-dependencies]
a = { path = \".\", features = [\"mutants\"] }
worse = { path = \"../worse\" }

[target.'cfg(unix)'.dependencies]
libc = \"1\"

[dependencies.table]
version = \"1\"
";
        let found = places(check, &[("crates/a/Cargo.toml", manifest)]);
        let expected = [7, 11, 14, 16].map(|line| format!("crates/a/Cargo.toml:{line}"));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_root_is_where_versions_are() {
        let root = "[workspace.dependencies]\na = \"1\"\n";
        assert_eq!(places(check, &[("Cargo.toml", root)]), [""; 0]);
    }
}
