//! Nothing half done is left behind.
//!
//! A note to oneself is read by others as a promise. What is missing becomes an issue, where
//! somebody looks; a test that does not run becomes one that does, or goes.

use super::Fault;
use crate::{scan, tree::Tree};

/// In comments and code alike. In two pieces, or this file would be its own bad example.
const MARK: &str = concat!("FIX", "ME");

/// In code only: a text may speak about them.
const IN_CODE: &[(&str, &str)] = &[
    ("todo!", "write what is missing, or do not offer it yet"),
    ("unimplemented!", "write what is missing, or do not offer it yet"),
    ("#[ignore", "a test runs or goes; a slow one asks an environment variable how much to do"),
];

/// No marks, no holes, no sleeping tests.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    tree.ending("rs").flat_map(|(path, text)| left_in(path, text)).collect()
}

fn left_in(path: &str, text: &str) -> Vec<Fault> {
    let code = scan::code(text);
    let fault = |at, remedy: &str| Fault::new(path, scan::line_of(text, at), remedy);
    let marks = text.match_indices(MARK);
    let mut faults: Vec<Fault> = marks
        .map(|(at, _)| fault(at, "mend it now, or open an issue and say its number"))
        .collect();
    for (left, remedy) in IN_CODE {
        let found = code.match_indices(left);
        faults.extend(found.map(|(at, _)| fault(at, &format!("`{left}`: {remedy}"))));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn we_left_nothing() {
        our_tree_keeps(check);
    }

    #[test]
    fn leftovers_are_found_in_code() {
        let text = "fn a() {\n    todo!()\n}\nfn b() {\n    unimplemented!(\"later\")\n}\n\
                    #[test]\n#[ignore = \"slow\"]\nfn c() {}\n";
        assert_eq!(places(check, &[("a.rs", text)]), ["a.rs:2", "a.rs:5", "a.rs:8"]);
    }

    #[test]
    fn leftovers_are_found_in_comments() {
        let text = format!("//! Head.\n// {MARK}: the edge case.\n");
        assert_eq!(places(check, &[("a.rs", &text)]), ["a.rs:2"]);
    }

    #[test]
    fn a_text_may_speak_about_them() {
        let text = "// Why not todo!() here.\nconst A: &str = \"#[ignore]\";\n";
        assert_eq!(places(check, &[("a.rs", text)]), [""; 0]);
    }
}
