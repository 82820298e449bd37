//! ARCHITECTURE.md stays a map.
//!
//! It is the one page that everybody reads, because it is one page. What does not fit belongs
//! into a document that the map points to.

use super::Fault;
use crate::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";
const LINES_MAX: usize = 200;

/// The map is there and has at most `LINES_MAX` lines.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    match tree.text(MAP).lines().count() {
        0 => vec![Fault::new(MAP, 1, "write the map: the laws, and where things are")],
        1..=LINES_MAX => Vec::new(),
        n_lines => {
            let remedy = format!("{n_lines} lines, {LINES_MAX} at most: move detail to docs/");
            vec![Fault::new(MAP, LINES_MAX + 1, remedy)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_map_fits() {
        our_tree_keeps(check);
    }

    #[test]
    fn a_long_map_is_found() {
        assert_eq!(places(check, &[(MAP, &"x\n".repeat(200))]), [""; 0]);
        assert_eq!(places(check, &[(MAP, &"x\n".repeat(201))]), ["ARCHITECTURE.md:201"]);
        assert_eq!(places(check, &[]), ["ARCHITECTURE.md:1"]);
    }
}
