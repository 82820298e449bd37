//! Tidy: what no compiler checks and people forget.
//!
//! One file per rule, each with its reason. A rule is a function from the tree to its faults; the
//! tests of each show a bad example, and that our own tree has none.

mod commands;
mod commands_page;
mod core_is_pure;
mod dependency_inherited;
mod dependency_reason;
mod edges;
mod file_length;
mod function_length;
mod leftovers;
mod links;
mod map_length;
mod markdown;
mod measured;
mod mesh_cases;
mod module_head;
mod one_title;

use std::fmt;

use crate::tree::Tree;

/// A place where a rule is broken, and what to do about it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) remedy: String,
}

impl Fault {
    pub(crate) fn new(path: &str, line: usize, remedy: impl Into<String>) -> Fault {
        Fault { path: path.to_owned(), line, remedy: remedy.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.remedy)
    }
}

/// A rule: its faults in a tree, none if the tree keeps it.
type Rule = fn(&Tree) -> Vec<Fault>;

const RULES: &[(&str, Rule)] = &[
    ("crate edges", edges::check),
    ("the core is pure", core_is_pure::check),
    ("file length", file_length::check),
    ("function length", function_length::check),
    ("module heads", module_head::check),
    ("leftovers", leftovers::check),
    ("one title per document", one_title::check),
    ("links", links::check),
    ("the map fits", map_length::check),
    ("numbers were measured", measured::check),
    ("commands are complete", commands::check),
    ("docs/commands.md is up to date", commands_page::check),
    ("cases of the mesh have tests", mesh_cases::check),
    ("dependencies have reasons", dependency_reason::check),
    ("dependencies are inherited", dependency_inherited::check),
];

/// Prints every fault of every rule.
pub(crate) fn report(tree: &Tree) -> Result<(), String> {
    let mut n_faults = 0;
    for (name, rule) in RULES {
        let mut faults = rule(tree);
        faults.sort();
        n_faults += faults.len();
        let verdict = if faults.is_empty() { "ok" } else { "BROKEN" };
        eprintln!("{name}: {verdict}");
        for fault in &faults {
            eprintln!("  {fault}");
        }
    }
    match n_faults {
        0 => Ok(()),
        1 => Err("tidy found one fault".to_owned()),
        many => Err(format!("tidy found {many} faults")),
    }
}

#[cfg(test)]
mod testing {
    //! What the rules' tests share.

    use std::sync::LazyLock;

    use super::{Rule, Tree};

    static OURS: LazyLock<Tree> = LazyLock::new(|| Tree::read().unwrap());

    /// Fails with every fault that `rule` finds in our own tree.
    pub(super) fn our_tree_keeps(rule: Rule) {
        let faults: Vec<String> = rule(&OURS).iter().map(ToString::to_string).collect();
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    /// Where `rule` finds faults in an example, as `path:line`.
    pub(super) fn places(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
        let mut faults = rule(&Tree::of(files));
        faults.sort();
        faults.iter().map(|fault| format!("{}:{}", fault.path, fault.line)).collect()
    }
}
