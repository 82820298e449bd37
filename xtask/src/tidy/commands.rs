//! A command is complete: named, pinned, shown, explained.
//!
//! Whoever adds a command copies a neighbour and should have to remember nothing else. The
//! compiler asks for the matches; this rule asks for what the compiler cannot see. Without a
//! golden line the command's bytes may drift, without an example nobody knows what it is for, and
//! what the garbage test never writes is never known to be harmless.

use super::Fault;
use crate::{docs, scan, tree::Tree};

const GOLDEN: &str = "crates/sardonyx-core/testdata/wire/v1.txt";
const EXAMPLES: &str = "crates/sardonyx-core/testdata";
const WIRE: &str = "crates/sardonyx-core/testdata/wire";
const GARBAGE: &str = "crates/sardonyx-core/tests/it/garbage.rs";

/// Every command has its name in the table, its golden line, an example, a place among the
/// garbage, and a heading in the page of commands; and every name has its file.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let names = docs::names(tree.text(docs::TABLE));
    let files: Vec<String> = docs::command_files(tree).map(docs::name_of).collect();
    let mut faults: Vec<Fault> =
        docs::command_files(tree).flat_map(|path| missing(tree, &names, path)).collect();
    for name in names.iter().filter(|name| !files.contains(name)) {
        let file = format!("{}/{}.rs", docs::COMMANDS, name.replace('-', "_"));
        let remedy = format!("`{name}` has no file: write it, as a copy of a neighbour");
        faults.push(Fault::new(&file, 1, remedy));
    }
    faults
}

fn missing(tree: &Tree, names: &[String], path: &str) -> Vec<Fault> {
    let name = docs::name_of(path);
    let is_golden = |line: &str| line.split_whitespace().next() == Some(&name);
    let mut examples = tree.below(EXAMPLES).filter(|(path, _)| !path.starts_with(WIRE));
    let heading = format!("## `{name}`");
    let code = scan::code(tree.text(GARBAGE));
    let is_garbage = scan::words(&code, &docs::camel(&name)).next().is_some();
    let wanted = [
        (names.contains(&name), format!("`Command::NAMES` in {}", docs::TABLE)),
        (tree.text(GOLDEN).lines().any(is_golden), format!("a line in {GOLDEN}")),
        (examples.any(|(_, text)| mentions(text, &name)), format!("an example below {EXAMPLES}")),
        (is_garbage, format!("a case in {GARBAGE}")),
        (
            tree.text(docs::PAGE).lines().any(|line| line == heading),
            format!("a heading in {} (`cargo xtask docs`)", docs::PAGE),
        ),
    ];
    let absent = wanted.into_iter().filter(|(is_there, _)| !is_there);
    absent.map(|(_, what)| Fault::new(path, 1, format!("`{name}` is missing {what}"))).collect()
}

/// Whether `name` stands in `text` by itself: `peer-gc` does not mention `gc`.
fn mentions(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::our_tree_keeps;

    #[test]
    fn our_commands_are_complete() {
        our_tree_keeps(check);
    }

    const COMPLETE: &[(&str, &str)] = &[
        ("crates/sardonyx-core/src/command.rs", "const NAMES: [&str; 1] = [\n    \"gc\",\n];\n"),
        ("crates/sardonyx-core/src/command/gc.rs", "//! `gc`: x.\n"),
        ("crates/sardonyx-core/src/command/rejected.rs", "//! Not a command.\n"),
        (GOLDEN, "gc 0d\n"),
        ("crates/sardonyx-core/testdata/gc/once.txt", "entry gc\n----\n"),
        ("docs/commands.md", "# Commands\n\n## `gc`\n"),
        (GARBAGE, "_ => Gc { caller }.into(),\n"),
    ];

    fn remedies(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|fault| fault.remedy).collect()
    }

    #[test]
    fn a_complete_command_has_no_fault() {
        assert_eq!(remedies(COMPLETE), [""; 0]);
    }

    #[test]
    fn whatever_is_missing_is_found() {
        let bad = [
            (0, "const NAMES: [&str; 0] = [];\n", "NAMES"),
            (3, "peer-gc 0d\n", "a line in"),
            (4, "entry peer-gc\n", "an example"),
            (5, "# Commands\n\n## `peer-gc`\n", "a heading"),
            (6, "_ => PeerGc { peer }.into(), // Not Gc.\n", "a case"),
        ];
        for (index, text, what) in bad {
            let mut files = COMPLETE.to_vec();
            files[index].1 = text;
            let found = remedies(&files);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(what), "{found:?}");
        }
    }

    #[test]
    fn the_golden_line_is_no_example() {
        let mut files = COMPLETE.to_vec();
        files.remove(4);
        assert!(remedies(&files)[0].contains("an example"));
    }

    #[test]
    fn a_name_without_a_file_is_found() {
        let mut files = COMPLETE.to_vec();
        files.remove(1);
        assert!(remedies(&files)[0].contains("`gc` has no file"));
    }
}
