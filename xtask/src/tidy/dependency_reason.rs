//! Every dependency has its reason, where it is named.
//!
//! A dependency is somebody else's code that we answer for. The reason is what lets the next
//! person replace it, or see that it has become superfluous. A group without a blank line in
//! between may share one. Crates of our own need none: the table of edges is about them.

use super::Fault;
use crate::tree::Tree;

const ROOT: &str = "Cargo.toml";

/// In the root manifest, above each dependency or its group stands a comment.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let (mut is_inside, mut has_reason) = (false, false);
    for (index, line) in tree.text(ROOT).lines().enumerate() {
        let line = line.trim_end();
        if line.starts_with('[') {
            is_inside = line.starts_with("[workspace.dependencies");
            has_reason &= line != "[workspace.dependencies]";
        } else if line.is_empty() {
            has_reason = false;
        } else if line.starts_with('#') {
            has_reason = true;
        }
        if is_inside && names_foreign_crate(line) && !has_reason {
            let remedy = "say above it, in one `#` line, why we depend on this";
            faults.push(Fault::new(ROOT, index + 1, remedy));
        }
    }
    faults
}

fn names_foreign_crate(line: &str) -> bool {
    let is_named = line.starts_with(|c: char| c.is_ascii_alphanumeric()) && line.contains('=');
    let is_table = line.starts_with("[workspace.dependencies.");
    (is_named || is_table) && !line.contains("path = \"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_dependencies_have_reasons() {
        our_tree_keeps(check);
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let manifest = "\
[workspace]
members = []

# About the section, not about a dependency.
[workspace.dependencies]
first = \"1\"
ours = { path = \"crates/ours\" }

# A reason.
second = \"1\"
shared = { version = \"1\", features = [
    \"a\",
] }

third = \"1\"

[workspace.lints.rust]
unsafe_code = \"forbid\"
";
        assert_eq!(places(check, &[(ROOT, manifest)]), ["Cargo.toml:6", "Cargo.toml:15"]);
    }
}
