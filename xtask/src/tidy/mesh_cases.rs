//! Every case and every hole of the mesh has a test, and one can find it.
//!
//! The page is a promise that somebody may rely on; a test that was renamed or taken out would break
//! it silently. So each row links to tests by name, and each name must be a function of that file.

use super::Fault;
use crate::tree::Tree;

const PAGE: &str = "docs/mesh-cases.md";

/// What must have a row: a letter, and how many there are.
const IDS: &[(&str, usize)] = &[("T", 20), ("A", 25), ("H", 40), ("Case ", 4)];

/// Every id has a row, every row has a test, and every test exists.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let Some(page) = tree.texts.get(PAGE) else {
        return vec![Fault::new(PAGE, 1, "the page of the mesh's cases is gone: restore it")];
    };
    let mut faults = Vec::new();
    let mut seen = Vec::new();
    for (line, text) in (1..).zip(page.lines()) {
        let Some(id) = id_of(text) else { continue };
        seen.push(id);
        let tests = tests_in(text);
        if tests.is_empty() {
            faults.push(Fault::new(
                PAGE,
                line,
                format!("{id} names no test: [`name`](../file.rs)"),
            ));
        }
        for (name, file) in tests {
            let defines = |text: &String| text.contains(&format!("fn {name}("));
            if !tree.texts.get(file).is_some_and(defines) {
                let remedy =
                    format!("{id}: there is no `{name}` in {file}: name the test as it is");
                faults.push(Fault::new(PAGE, line, remedy));
            }
        }
    }
    let wanted = IDS.iter().flat_map(|(letter, n)| (1..=*n).map(move |at| format!("{letter}{at}")));
    for id in wanted.filter(|id| !seen.contains(&id.as_str())) {
        faults.push(Fault::new(PAGE, 1, format!("{id} has no row: say which test shows it")));
    }
    faults
}

/// The id in a row's first cell.
fn id_of(line: &str) -> Option<&str> {
    let id = line.strip_prefix("| ")?.split(" |").next()?.trim();
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit());
    IDS.iter().any(|(letter, _)| id.strip_prefix(letter).is_some_and(is_number)).then_some(id)
}

/// The tests to which a line links, with their files.
fn tests_in(line: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((_, after)) = rest.split_once("[`") {
        let Some((name, link)) = after.split_once("`](../") else { break };
        let Some((file, end)) = link.split_once(')') else { break };
        found.push((name, file));
        rest = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::our_tree_keeps;

    #[test]
    fn every_case_of_the_mesh_has_its_test() {
        our_tree_keeps(check);
    }

    #[test]
    fn what_is_missing_is_found() {
        let page = "# Cases\n\n| | |\n|---|---|\n| T1 | a [`here`](../a.rs) |\n\
                    | T2 | [`gone`](../a.rs) [`here`](../b.rs) |\n| T3 | nothing |\n| Tx | no id |\n";
        let faults = check(&Tree::of(&[(PAGE, page), ("a.rs", "fn here() {}\n")]));
        let of = |line: usize| faults.iter().filter(|it| it.line == line).count();
        assert_eq!((of(5), of(6), of(7), of(8)), (0, 2, 1, 0));
        assert_eq!(of(1), 20 + 25 + 40 + 4 - 3, "those without a row");
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
