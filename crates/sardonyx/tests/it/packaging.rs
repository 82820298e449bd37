//! What is shipped beside the program fits it: manual pages, the unit of systemd, the container.

use std::{fs, path::Path};

use crate::program::sardonyx;

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let ran = sardonyx(&["man", "--dir", dir.path().join("man1").to_str().unwrap()], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let page = |name: &str| fs::read_to_string(dir.path().join("man1").join(name)).unwrap();
    for name in ["sardonyx.1", "sardonyx-demo.1", "sardonyx-start.1", "sardonyx-ids-next.1"] {
        assert!(page(name).contains(".SH SYNOPSIS"), "{name}");
    }
    assert!(page("sardonyx-start.1").contains("session"), "flags are in their page");
    let help = sardonyx(&["--help"], "").stdout;
    let (_, commands) = help.split_once("Commands:").unwrap();
    let (commands, _) = commands.split_once("Options:").unwrap();
    let commands =
        commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<_> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names.iter().filter(|name| **name != "help") {
        page(&format!("sardonyx-{name}.1"));
    }
    let printed = sardonyx(&["man"], "");
    assert_eq!(printed.stdout, page("sardonyx.1"));
}

/// The value of a key in a unit.
fn of<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn the_unit_starts_a_command_that_exists_with_settings_that_are_right() {
    let unit = shipped("packaging/sardonyx.service");
    let start = of(&unit, "ExecStart");
    let [start] = start[..] else { panic!("{start:?}") };
    let words: Vec<_> = start.split_whitespace().collect();
    assert_eq!(words[0], "/usr/local/bin/sardonyx");
    // The same command line, with the settings that are shipped in place of those of the machine.
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/sardonyx.toml");
    let settings = settings.to_str().unwrap();
    let swapped: Vec<_> = words[1..]
        .iter()
        .map(|word| if *word == "/etc/sardonyx/sardonyx.toml" { settings } else { word })
        .collect();
    assert!(swapped.contains(&settings), "{start}");
    let ran = sardonyx(&[&swapped[..], &["--help"]].concat(), "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = sardonyx(&["check", "--config", settings, "--json"], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("--store=embedded:/var/lib/sardonyx"), "{}", ran.stdout);
    assert_eq!(of(&unit, "StateDirectory"), ["sardonyx"], "where the store of the settings is");
    assert_eq!(of(&unit, "RestartPreventExitStatus"), ["2 3"]);
}

#[test]
fn a_flag_that_is_wrong_would_be_noticed() {
    let ran = sardonyx(&["start", "--no-such-flag"], "");
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
}

#[test]
fn the_container_starts_the_program_with_variables_that_exist() {
    let file = shipped("Dockerfile");
    assert!(file.contains("ENTRYPOINT [\"/usr/local/bin/sardonyx\"]"));
    let table = shipped("docs/guide/configuration.md");
    let words = file.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let variables: Vec<_> = words.filter(|word| word.starts_with("SARDONYX_")).collect();
    assert!(!variables.is_empty());
    for variable in variables {
        assert!(table.contains(&format!("`{variable}`")), "{variable} is no setting");
    }
    let toolchain = shipped("Cargo.toml");
    let wanted = toolchain.lines().find_map(|line| line.strip_prefix("rust-version = \"")).unwrap();
    let image = format!("FROM rust:{}-", wanted.trim_end_matches('"'));
    assert!(file.contains(&image), "the image has the toolchain that is needed: {image}");
}
