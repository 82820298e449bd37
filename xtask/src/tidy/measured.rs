//! Numbers in the README were measured.
//!
//! Whoever reads one may ask where it comes from. The answer is a line of docs/benchmarks.md, which a
//! command writes; the same command brings the README up to date.

use super::{Fault, markdown};
use crate::tree::Tree;

const README: &str = "README.md";
const PAGE: &str = "docs/benchmarks.md";
const SECTION: &str = "## How fast";

/// Every row of a table in the README's section about speed is a row of the page.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let page = tree.text(PAGE);
    let prose = markdown::prose(tree.text(README));
    let section = prose.iter().skip_while(|(_, line)| !line.starts_with(SECTION)).skip(1);
    let section = section.take_while(|(_, line)| !line.starts_with("## "));
    let rows = section.filter(|(_, line)| line.starts_with("| ") && line.ends_with(" |"));
    let is_measured = |row: &str| page.lines().any(|line| line == row);
    rows.filter(|(_, row)| !is_measured(row))
        .map(|(line, _)| {
            let remedy = format!("no row of {PAGE}: run `cargo xtask bench-report`, or copy one");
            Fault::new(README, *line, remedy)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_numbers_were_measured() {
        our_tree_keeps(check);
    }

    #[test]
    fn a_number_that_nobody_measured_is_found() {
        let page = "# Benchmarks\n\n| what | ratio |\n|---|---|\n| words | 1.91 |\n";
        let readme = |row: &str| {
            format!(
                "# It\n\n## How fast, how large\n\n| what | ratio |\n|---|---|\n{row}\n\n## Else\n\n| a | b |\n"
            )
        };
        let files = |row: &str| [(PAGE, page.to_owned()), (README, readme(row))];
        let found = |row: &str| {
            let files = files(row);
            let files: Vec<(&str, &str)> = files.iter().map(|(at, it)| (*at, &it[..])).collect();
            places(check, &files)
        };
        assert_eq!(found("| words | 1.91 |"), [""; 0]);
        assert_eq!(found("| words | 9.99 |"), ["README.md:7"]);
    }
}
