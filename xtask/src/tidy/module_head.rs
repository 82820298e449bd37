//! Every module begins with its idea.
//!
//! The first line tells a reader whether this is the file to be in. Whoever cannot write that
//! line has found that the module is two.

use super::Fault;
use crate::tree::Tree;

/// Every `.rs` file begins with a `//!` line that says something.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let begins_with_its_idea = |text: &str| {
        let first = text.lines().next().and_then(|line| line.strip_prefix("//!"));
        first.is_some_and(|idea| !idea.trim().is_empty())
    };
    let remedy = "begin the file with a `//!` line that says what it is for";
    let headless = tree.ending("rs").filter(|(_, text)| !begins_with_its_idea(text));
    headless.map(|(path, _)| Fault::new(path, 1, remedy)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_modules_have_heads() {
        our_tree_keeps(check);
    }

    #[test]
    fn a_module_without_a_head_is_found() {
        let files = [
            ("good.rs", "//! The ring.\n"),
            ("bad.rs", "use x;\n//! Too late.\n"),
            ("empty.rs", ""),
            ("silent.rs", "//!\nuse x;\n"),
        ];
        assert_eq!(places(check, &files), ["bad.rs:1", "empty.rs:1", "silent.rs:1"]);
    }
}
