//! A link inside the project leads somewhere.
//!
//! Files move and headings are reworded; a reader who meets one dead link stops following the
//! others. Links to the outside are not followed: a test must not need the network.

use super::{Fault, markdown};
use crate::tree::Tree;

/// Every relative link in a document names a file or directory that exists, and its `#anchor`, in
/// a document, a heading of it.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    tree.ending("md").flat_map(|(path, text)| dead_in(tree, path, text)).collect()
}

fn dead_in(tree: &Tree, path: &str, text: &str) -> Vec<Fault> {
    let mut dead = Vec::new();
    for (line, prose) in markdown::prose(text) {
        for target in targets(&markdown::without_code(prose)) {
            if let Some(remedy) = why_dead(tree, path, target) {
                dead.push(Fault::new(path, line, remedy));
            }
        }
    }
    dead
}

/// What a line links to: `[text](target "title")`, `[name]: target`.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let defined = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let defined = defined.and_then(|(_, target)| target.split_whitespace().next());
    let all = inline.chain(defined).map(|target| target.trim_matches(['<', '>']));
    all.filter(|target| !target.contains(':')).collect()
}

fn why_dead(tree: &Tree, from: &str, target: &str) -> Option<String> {
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    let to = if file.is_empty() { Some(from.to_owned()) } else { resolve(from, file) };
    let Some(to) = to.filter(|to| to.is_empty() || tree.paths.contains(to)) else {
        return Some(format!("`{target}` leads nowhere: name a file of the tree"));
    };
    let document = tree.texts.get(&to).filter(|_| to.ends_with(".md"))?;
    let anchor = anchor?;
    let is_there = headings(document).any(|heading| slug(heading) == anchor);
    (!is_there).then(|| format!("`{to}` has no heading `#{anchor}`: take one that it has"))
}

/// The path that `link` means in the document `from`; none if it leads out of the tree.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = match link.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').collect(),
    };
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    let lines = markdown::prose(text).into_iter();
    lines.filter(|(_, line)| line.starts_with('#')).map(|(_, line)| line.trim_matches(['#', ' ']))
}

/// A heading's anchor, as the usual renderers make it.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_links_lead_somewhere() {
        our_tree_keeps(check);
    }

    fn dead(line: &str) -> bool {
        let text = format!("# Title\n\n## `leave-cluster`, and why\n\n{line}\n");
        let files = [("docs/a.md", text.as_str()), ("docs/b.md", "# B\n"), ("LICENSE", "")];
        !places(check, &files).is_empty()
    }

    #[test]
    fn dead_links_are_found() {
        assert!(dead("see [c](c.md)"));
        assert!(dead("see [b](b.md) and [c](../c.md)"));
        assert!(dead("see [b](b.md#nothing)"));
        assert!(dead("see [here](#nothing)"));
        assert!(dead("see [outside](../../b.md)"));
        assert!(dead("[c]: c.md"));
    }

    #[test]
    fn live_links_are_not() {
        assert!(!dead("see [b](b.md), [b](./b.md \"B\"), [b](../docs/b.md#b), [all](../docs/)"));
        assert!(!dead("see [root](..), [licence](/LICENSE)"));
        assert!(!dead("see [here](#leave-cluster-and-why)"));
        assert!(!dead("see [there](https://example.org/x.md) and [us](mailto:a@example.org)"));
        assert!(!dead("write `[text](target)`"));
        assert!(!dead("[b]: b.md"));
    }
}
