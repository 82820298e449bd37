//! A file ends before its reader forgets how it began.
//!
//! Large centre files grow a line at a time and nobody's line is to blame. At 400 lines ask what
//! the second thing in the file is; at 800 this rule stops asking. Tests are left out: a table of
//! cases is long without being hard.

use std::ops::Range;

use super::Fault;
use crate::{scan, tree, tree::Tree};

const LINES_MAX: usize = 800;

/// No `.rs` file has more than `LINES_MAX` lines, tests apart.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let files = tree.ending("rs").filter(|(path, _)| !tree::is_test(path));
    files.filter_map(|(path, text)| too_long(path, text)).collect()
}

fn too_long(path: &str, text: &str) -> Option<Fault> {
    let code = scan::code(text);
    let of_tests = |range: Range<usize>| text[range].lines().count();
    let n_test_lines: usize =
        scan::items_under(text, &code, &["#[cfg(test)]"]).into_iter().map(of_tests).sum();
    let n_lines = text.lines().count().saturating_sub(n_test_lines);
    let remedy =
        format!("{n_lines} lines, {LINES_MAX} at most: give the second thing its own file");
    (n_lines > LINES_MAX).then(|| Fault::new(path, LINES_MAX + 1, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_files_are_short() {
        our_tree_keeps(check);
    }

    #[test]
    fn a_long_file_is_found() {
        let (fits, long) = ("x\n".repeat(800), "x\n".repeat(801));
        let files = [("a.rs", fits.as_str()), ("b.rs", &long), ("tests/it/c.rs", &long)];
        assert_eq!(places(check, &files), ["b.rs:801"]);
    }

    #[test]
    fn tests_do_not_count() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "x\n".repeat(900));
        assert_eq!(places(check, &[("a.rs", &tests)]), [""; 0]);
    }
}
