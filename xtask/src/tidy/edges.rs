//! Which crate may know which.
//!
//! We split crates for what they then cannot do: a plugin's author cannot see the log, the core
//! cannot reach a socket. One convenient edge undoes that for good, so what is drawn in the table
//! below is what holds, and a new edge needs a change here and a decision record. Development edges
//! count as well: a test that needs the wrong crate tests the wrong layer.

use serde_json::Value;

use super::Fault;
use crate::tree::Tree;

/// A crate of ours, and which others of ours it may depend on.
const EDGES: &[(&str, &[&str])] = &[
    ("sardonyx-core", &[]),
    ("sardonyx-store", &["sardonyx-core"]),
    ("sardonyx-queue", &[]),
    ("sardonyx-task", &["sardonyx-queue"]),
    ("sardonyx-ids", &["sardonyx-store"]),
    ("sardonyx-mesh", &[]),
    (
        "sardonyx-peer",
        &[
            "sardonyx-core",
            "sardonyx-store",
            "sardonyx-queue",
            "sardonyx-task",
            "sardonyx-ids",
            "sardonyx-mesh",
        ],
    ),
    (
        "sardonyx-sim",
        &[
            "sardonyx-core",
            "sardonyx-store",
            "sardonyx-queue",
            "sardonyx-task",
            "sardonyx-ids",
            "sardonyx-mesh",
            "sardonyx-peer",
            "sardonyx",
        ],
    ),
    (
        "sardonyx",
        &[
            "sardonyx-core",
            "sardonyx-store",
            "sardonyx-queue",
            "sardonyx-task",
            "sardonyx-ids",
            "sardonyx-mesh",
            "sardonyx-peer",
        ],
    ),
    ("sardonyx-fire", &["sardonyx-core", "sardonyx-store", "sardonyx-ids"]),
    ("xtask", &[]),
];

const TABLE: &str = "EDGES in xtask/src/tidy/edges.rs";

/// Every member is in the table, and depends on no other of ours than the table says.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let packages = match packages(&tree.metadata) {
        Ok(packages) => packages,
        Err(why) => return vec![Fault::new("Cargo.toml", 1, why)],
    };
    packages.iter().flat_map(|package| faults_of(tree, package)).collect()
}

fn faults_of(tree: &Tree, package: &Package) -> Vec<Fault> {
    let Package { name, manifest, .. } = package;
    let Some((_, allowed)) = EDGES.iter().find(|(known, _)| known == name) else {
        let remedy = format!("no such crate in the plan: add `{name}` to {TABLE}, or do without");
        return vec![Fault::new(manifest, 1, remedy)];
    };
    let edges = package.dependencies.iter().filter(|to| to.is_ours && to.name != *name);
    let forbidden = edges.filter(|to| !allowed.contains(&to.name.as_str()));
    let fault = |to: &Dependency| {
        let line = line_naming(tree.text(manifest), &to.name);
        let to = &to.name;
        let remedy =
            format!("`{name}` may not know `{to}`: move the code, or change {TABLE} by a decision");
        Fault::new(manifest, line, remedy)
    };
    forbidden.map(fault).collect()
}

fn line_naming(manifest: &str, name: &str) -> usize {
    let of_dependency = |line: &str| {
        let rest = line.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    };
    1 + manifest.lines().position(of_dependency).unwrap_or(0)
}

/// A member of the workspace as cargo sees it.
pub(super) struct Package {
    name: String,
    pub(super) manifest: String,
    pub(super) dependencies: Vec<Dependency>,
}

/// What a member depends on, in whatever way.
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) is_dev: bool,
    pub(super) features: Vec<String>,
    is_ours: bool,
}

/// The members in what `cargo metadata` says.
pub(super) fn packages(metadata: &str) -> Result<Vec<Package>, String> {
    let read = serde_json::from_str::<Value>(metadata);
    let metadata = read.map_err(|why| format!("cargo metadata is not JSON: {why}"))?;
    let root = text(&metadata["workspace_root"]);
    let package = |package: &Value| {
        let manifest = text(&package["manifest_path"]).replace('\\', "/");
        let inside = manifest.strip_prefix(&root.replace('\\', "/")).unwrap_or(&manifest);
        Package {
            name: text(&package["name"]),
            manifest: inside.trim_start_matches('/').to_owned(),
            dependencies: list(&package["dependencies"]).iter().map(dependency).collect(),
        }
    };
    Ok(list(&metadata["packages"]).iter().map(package).collect())
}

fn dependency(dependency: &Value) -> Dependency {
    Dependency {
        name: text(&dependency["name"]),
        is_dev: dependency["kind"] == "dev",
        features: list(&dependency["features"]).iter().map(text).collect(),
        is_ours: !dependency["path"].is_null(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::our_tree_keeps;

    #[test]
    fn our_edges_are_in_the_table() {
        our_tree_keeps(check);
    }

    fn faults(packages: &str) -> Vec<String> {
        let manifest = "[dependencies]\nserde.workspace = true\nsardonyx-core.workspace = true\n";
        let mut tree = Tree::of(&[("crates/x/Cargo.toml", manifest)]);
        tree.metadata = format!(r#"{{"workspace_root": "/w", "packages": [{packages}]}}"#);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    fn package(name: &str, dependencies: &str) -> String {
        format!(
            r#"{{"name": "{name}", "manifest_path": "/w/crates/x/Cargo.toml",
                 "dependencies": [{dependencies}]}}"#
        )
    }

    const ON_CORE: &str = r#"{"name": "sardonyx-core", "path": "/w/crates/sardonyx-core"}"#;

    #[test]
    fn an_edge_in_the_table_is_allowed() {
        assert_eq!(faults(&package("sardonyx-store", ON_CORE)), [""; 0]);
    }

    #[test]
    fn an_edge_to_others_is_not_our_business() {
        assert_eq!(faults(&package("xtask", r#"{"name": "clap", "path": null}"#)), [""; 0]);
    }

    #[test]
    fn an_edge_to_itself_is_allowed() {
        assert_eq!(faults(&package("sardonyx-core", ON_CORE)), [""; 0]);
    }

    #[test]
    fn an_unknown_edge_is_found() {
        let found = faults(&package("sardonyx-queue", ON_CORE));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/x/Cargo.toml:3: `sardonyx-queue` may not know"));
    }

    #[test]
    fn an_unknown_crate_is_found() {
        let found = faults(&package("sardonyx-utils", ""));
        assert!(found[0].starts_with("crates/x/Cargo.toml:1: no such crate"));
    }

    #[test]
    fn the_table_names_only_crates_it_knows() {
        let known: Vec<&str> = EDGES.iter().map(|(name, _)| *name).collect();
        assert!(EDGES.iter().all(|(_, to)| to.iter().all(|name| known.contains(name))));
    }
}
