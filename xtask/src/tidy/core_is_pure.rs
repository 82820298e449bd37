//! The core is `#![no_std]`, and what needs `std` there is never shipped.
//!
//! `no_std` is the shortest way to tell the compiler "no clock, no files, no network, no threads,
//! no hash maps". It holds only while the attribute is there, nothing lets `std` back in, and
//! nobody outside the core's own tests switches on the feature that may.

use super::{Fault, edges};
use crate::{scan, tree, tree::Tree};

const SOURCES: &str = "crates/sardonyx-core/src";
const LIB: &str = "crates/sardonyx-core/src/lib.rs";
const MANIFEST: &str = "crates/sardonyx-core/Cargo.toml";

/// Under these, `std` is for tests: of the crate itself, or of whether its tests would notice.
const GATES: &[&str] = &["#[cfg(test)]", "#[cfg(any(test, feature = \"mutants\"))]"];

/// `#![no_std]` is there; `std` is named only behind a gate; `mutants` only in tests.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let lib = scan::code(tree.text(LIB));
    if !lib.lines().any(|line| line.trim_end() == "#![no_std]") {
        faults.push(Fault::new(LIB, 1, "put `#![no_std]` below the module head"));
    }
    let sources = tree.below(SOURCES).filter(|(path, _)| !tree::is_test(path));
    faults.extend(sources.flat_map(|(path, text)| open_std(path, text)));
    faults.extend(shipped_mutants(tree));
    faults
}

fn open_std(path: &str, text: &str) -> Vec<Fault> {
    let code = scan::code(text);
    let gated = scan::items_under(text, &code, GATES);
    let open = scan::words(&code, "std").filter(|at| !gated.iter().any(|gate| gate.contains(at)));
    let remedy = "the core has no `std`: use `core` or `alloc`, or take it as an input; \
                  only tests and mutants may, under their `cfg`";
    open.map(|at| Fault::new(path, scan::line_of(text, at), remedy)).collect()
}

fn shipped_mutants(tree: &Tree) -> Vec<Fault> {
    let packages = edges::packages(&tree.metadata).unwrap_or_default();
    let shipping = |package: &&edges::Package| {
        let mut shipped = package.dependencies.iter().filter(|to| !to.is_dev);
        shipped.any(|to| {
            to.name == "sardonyx-core" && to.features.iter().any(|feature| feature == "mutants")
        })
    };
    let remedy = "`mutants` switches rules of the core off: only under [dev-dependencies]";
    let mut faults: Vec<Fault> =
        packages.iter().filter(shipping).map(|it| Fault::new(&it.manifest, 1, remedy)).collect();
    let by_default = |line: &str| line.starts_with("default") && line.contains("\"mutants\"");
    if let Some(line) = tree.text(MANIFEST).lines().position(by_default) {
        faults.push(Fault::new(MANIFEST, line + 1, "take `mutants` out of the default features"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_core_is_pure() {
        our_tree_keeps(check);
    }

    #[test]
    fn a_core_with_std_is_found() {
        assert_eq!(places(check, &[(LIB, "//! The core.\n")]), [format!("{LIB}:1")]);
        let conditional = "#![cfg_attr(not(test), no_std)]\n";
        assert_eq!(places(check, &[(LIB, conditional)]), [format!("{LIB}:1")]);
    }

    #[test]
    fn std_is_found_unless_it_is_behind_a_gate() {
        let text = "//! std is only named here.\n#![no_std]\n\
                    #[cfg(any(test, feature = \"mutants\"))]\nextern crate std;\n\
                    #[cfg(test)]\nmod tests {\n    use std::thread;\n}\n\
                    use std::time::Instant;\n";
        assert_eq!(places(check, &[(LIB, text)]), [format!("{LIB}:9")]);
        let open = "#![no_std]\nextern crate std;\n";
        assert_eq!(places(check, &[(LIB, open)]), [format!("{LIB}:2")]);
    }

    #[test]
    fn mutants_outside_tests_are_found() {
        let mut tree = Tree::of(&[(LIB, "#![no_std]\n")]);
        let on_core = r#"{"name": "sardonyx-core", "features": ["mutants"], "kind": KIND}"#;
        let of = |kind: &str| {
            let on_core = on_core.replace("KIND", kind);
            format!(
                r#"{{"workspace_root": "/w", "packages": [{{"name": "sardonyx",
                "manifest_path": "/w/crates/sardonyx/Cargo.toml", "dependencies": [{on_core}]}}]}}"#
            )
        };
        tree.metadata = of("\"dev\"");
        assert_eq!(check(&tree), []);
        tree.metadata = of("null");
        assert_eq!(check(&tree)[0].path, "crates/sardonyx/Cargo.toml");
    }

    #[test]
    fn mutants_by_default_are_found() {
        let files = [(LIB, "#![no_std]\n"), (MANIFEST, "[features]\ndefault = [\"mutants\"]\n")];
        assert_eq!(places(check, &files), [format!("{MANIFEST}:2")]);
    }
}
