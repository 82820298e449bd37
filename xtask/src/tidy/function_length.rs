//! A function fits on a screen.
//!
//! What cannot be seen at once is understood in pieces, and the pieces have no names. Pull the
//! loops down into functions of their own and leave the decisions here. Tests are left out.

use super::Fault;
use crate::{scan, tree, tree::Tree};

const LINES_MAX: usize = 70;

/// No function has more than `LINES_MAX` lines from its `fn` to its closing brace, tests apart.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let files = tree.ending("rs").filter(|(path, _)| !tree::is_test(path));
    files.flat_map(|(path, text)| too_long(path, text)).collect()
}

fn too_long(path: &str, text: &str) -> Vec<Fault> {
    let code = scan::without_tests(text, &scan::code(text));
    let long = scan::functions(&code).filter(|function| function.n_lines > LINES_MAX);
    let fault = |function: scan::Function<'_>| {
        let scan::Function { name, n_lines, at } = function;
        let remedy = format!("`{name}` has {n_lines} lines, {LINES_MAX} at most: name its parts");
        Fault::new(path, scan::line_of(text, at), remedy)
    };
    long.map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_functions_are_short() {
        our_tree_keeps(check);
    }

    #[test]
    fn a_long_function_is_found() {
        let body = "    x();\n".repeat(69);
        let long = format!("//! Head.\n\nfn long() {{\n{body}}}\n\nfn short() {{}}\n");
        let fits = long.replacen("    x();\n", "", 1);
        let files = [("a.rs", fits.as_str()), ("b.rs", &long), ("tests/c.rs", &long)];
        assert_eq!(places(check, &files), ["b.rs:3"]);
    }

    #[test]
    fn tests_do_not_count() {
        let body = "        x();\n".repeat(99);
        let text = format!("#[cfg(test)]\nmod tests {{\n    fn long() {{\n{body}    }}\n}}\n");
        assert_eq!(places(check, &[("a.rs", &text)]), [""; 0]);
    }
}
