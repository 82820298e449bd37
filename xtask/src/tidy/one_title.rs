//! A document is about one thing, and its title says which.
//!
//! Two titles are two documents, of which the second cannot be found.

use super::{Fault, markdown};
use crate::tree::Tree;

/// Every document begins with a title and has no second one.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    tree.ending("md").flat_map(|(path, text)| faults_in(path, text)).collect()
}

fn faults_in(path: &str, text: &str) -> Vec<Fault> {
    let prose = markdown::prose(text);
    let mut titles = prose.iter().filter(|(_, line)| line.starts_with("# "));
    if titles.next().is_none() {
        return vec![Fault::new(path, 1, "give the document a title: `# …`")];
    }
    let remedy = "a second title: make it a section (`## …`), or a document of its own";
    titles.map(|(line, _)| Fault::new(path, *line, remedy)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_documents_have_one_title() {
        our_tree_keeps(check);
    }

    #[test]
    fn none_and_two_are_found() {
        let files = [
            ("good.md", "# One\n\n## Part\n\n```sh\n# a comment\n```\n"),
            ("none.md", "## Part\n"),
            ("two.md", "# One\n\n# Two\n"),
        ];
        assert_eq!(places(check, &files), ["none.md:1", "two.md:3"]);
    }
}
