//! Numbers in the README were measured.
//!
//! Whoever reads one may ask where it comes from. The answer is a line of docs/benchmarks.md, which a
//! command writes; the same command brings the README up to date.

use super::{Fault, markdown};
use crate::tree::Tree;

const README: &str = "README.md";
const PAGE: &str = "docs/benchmarks.md";
const SECTION: &str = "## How fast";

const DEMO: &str = "cargo run --release -- demo";

/// Every row of a table in the README's section about speed is a row of the page, and what it shows of the
/// demo stands there too. A README that has neither any more has been rewritten, and this rule with it.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let (page, readme) = (tree.text(PAGE), tree.text(README));
    let numbers: Vec<(usize, &str)> = rows(readme).chain(demo(readme)).collect();
    if rows(readme).next().is_none() || demo(readme).next().is_none() {
        let remedy = format!("no table below `{SECTION}`, or nothing shown of `{DEMO}`");
        return vec![Fault::new(README, 1, remedy)];
    }
    let is_measured = |row: &str| page.lines().any(|line| line == row);
    let unknown = numbers.into_iter().filter(|(_, row)| !is_measured(row));
    unknown
        .map(|(line, _)| {
            let remedy = format!("no row of {PAGE}: run `cargo xtask bench-report`, or copy one");
            Fault::new(README, line, remedy)
        })
        .collect()
}

fn rows(readme: &str) -> impl Iterator<Item = (usize, &str)> {
    let prose = markdown::prose(readme).into_iter();
    let section = prose.skip_while(|(_, line)| !line.starts_with(SECTION)).skip(1);
    let section = section.take_while(|(_, line)| !line.starts_with("## "));
    section.filter(|(_, line)| line.starts_with("| ") && line.ends_with(" |"))
}

/// What is shown behind the demo's command, line by line.
fn demo(readme: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(readme.lines()).skip_while(|(_, line)| *line != DEMO);
    let shown = lines.skip_while(|(_, line)| !line.starts_with("```text")).skip(1);
    shown.take_while(|(_, line)| *line != "```")
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
        let page = "# Benchmarks\n\n| what | ratio |\n|---|---|\n| words | 1.91 |\n\n```text\n7 words\n```\n";
        let readme = |demo: &str, row: &str| {
            format!(
                "# It\n\n```sh\n{DEMO}\n```\n```text alike\n{demo}\n```\n\n## How fast, how large\n\n\
                 | what | ratio |\n|---|---|\n{row}\n\n## Else\n\n| a | b |\n"
            )
        };
        let found = |readme: &str| places(check, &[(PAGE, page), (README, readme)]);
        assert_eq!(found(&readme("7 words", "| words | 1.91 |")), [""; 0]);
        assert_eq!(found(&readme("7 words", "| words | 9.99 |")), ["README.md:14"]);
        assert_eq!(found(&readme("8 words", "| words | 1.91 |")), ["README.md:7"]);
        let elsewhere = readme("7 words", "| words | 1.91 |").replace("How fast", "Speed");
        assert_eq!(found(&elsewhere), ["README.md:1"]);
    }
}
