//! What settings become of flags, variables and files; and that the guide names all of them.

use std::{fmt::Write as _, fs};

use super::*;

fn command() -> Command {
    Command::new("start")
        .arg(Arg::new("peers").long("peers").short('p').default_value("1").help("How many | peers"))
        .arg(Arg::new("store").long("store").value_name("URL"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue))
        .arg(Arg::new("mesh-seed").long("mesh-seed").action(ArgAction::Append))
        .arg(Arg::new("config").long("config"))
}

fn with(given: &str, variables: &[(&str, &str)], file: &str) -> Result<Vec<String>, String> {
    let arguments = format!("sardonyx start {given}");
    let arguments = arguments.split_whitespace().map(OsString::from).collect();
    let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let table: toml::Table = file.parse().unwrap();
    let done = complete(&command(), arguments, &variables, Some(("f.toml", &table)))?;
    Ok(done.arguments[2..].iter().map(|it| it.to_string_lossy().into_owned()).collect())
}

#[test]
fn a_flag_wins_over_a_variable_and_that_over_the_file() {
    let file = "peers = 2\nstore = \"memory:\"";
    let variable = [("SARDONYX_PEERS", "3")];
    assert_eq!(with("", &[], file).unwrap(), ["--peers=2", "--store=memory:"]);
    assert_eq!(with("", &variable, file).unwrap(), ["--peers=3", "--store=memory:"]);
    for given in ["--peers 4", "--peers=4", "-p4"] {
        let mut expected = vec!["--store=memory:".to_owned()];
        expected.extend(given.split_whitespace().map(str::to_owned));
        assert_eq!(with(given, &variable, file).unwrap(), expected);
    }
}

#[test]
fn switches_are_true_or_false() {
    assert_eq!(with("", &[], "json = true").unwrap(), ["--json"]);
    assert_eq!(with("", &[("SARDONYX_JSON", "0")], "json = true").unwrap(), [""; 0]);
    let why = with("", &[("SARDONYX_JSON", "on")], "").unwrap_err();
    assert_eq!(why, "SARDONYX_JSON: write true or false, not \"on\"");
}

#[test]
fn what_may_be_given_often_is_a_list_and_tables_are_dashes() {
    let expected = ["--mesh-seed=a:1", "--mesh-seed=b:1"];
    assert_eq!(with("", &[], "mesh-seed = [\"a:1\", \"b:1\"]").unwrap(), expected);
    assert_eq!(with("", &[], "[mesh]\nseed = [\"a:1\", \"b:1\"]").unwrap(), expected);
    assert_eq!(with("", &[("SARDONYX_MESH_SEED", "a:1 b:1")], "").unwrap(), expected);
    let why = with("", &[], "store = [\"a\"]").unwrap_err();
    assert_eq!(why, "f.toml: store: one value is wanted, not a list");
}

#[test]
fn slips_are_refused_all_at_once_and_strangers_variables_are_not() {
    let variables = [("SARDONYX_PEER", "3"), ("SARDONYX_SERVICE_HOST", "10.0.0.1")];
    let why = with("", &variables, "sture = \"x\"\nconfig = \"y\"").unwrap_err();
    let lines: Vec<_> = why.lines().map(str::trim).collect();
    assert!(lines[0].starts_with("f.toml: config: there is no such key; "), "{why}");
    assert_eq!(lines[1], "f.toml: sture: there is no such key; did you mean store?");
    let slip = "SARDONYX_PEER: there is no such variable; did you mean SARDONYX_PEERS?";
    assert_eq!(lines[2..], [slip]);
}

#[test]
fn variables_of_others_are_not_slips_because_of_what_all_begin_with() {
    for name in ["SARDONYX_AT", "SARDONYX_PORT", "SARDONYX_PORT_7440_TCP", "SARDONYX_MEASURE"] {
        assert_eq!(with("", &[(name, "x")], "").unwrap(), [""; 0], "{name}");
    }
    assert!(with("", &[("SARDONYX_STOR", "x")], "").is_err());
}

#[test]
fn only_what_can_be_configured_is() {
    let args = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
    assert!(configured(&args("sardonyx start --peers 3")).is_some());
    assert!(configured(&args("sardonyx start --help")).is_none());
    assert!(configured(&args("sardonyx peers")).is_none());
    assert!(configured(&args("sardonyx")).is_none());
}

/// The table of settings, as the guide has it.
fn table() -> String {
    let command = subcommand("start").unwrap();
    let mut table = String::from(
        "| flag, and key of the file | variable | if absent | what it says |\n|---|---|---|---|\n",
    );
    for (arg, name) in flags(&command) {
        let plain = |text: String| text.replace('|', "\\|").replace('\n', " ");
        let defaults: Vec<_> =
            arg.get_default_values().iter().map(|it| it.to_string_lossy().into_owned()).collect();
        let default = match (defaults.is_empty(), arg.get_action().takes_values()) {
            (true, true) => String::new(),
            (true, false) => "`false`".into(),
            (false, true) => format!("`{}`", defaults.join(" ")),
            (false, false) => "`false`".into(),
        };
        let values: Vec<_> =
            arg.get_possible_values().iter().map(|it| format!("`{}`", it.get_name())).collect();
        let values = match values.is_empty() || !arg.get_action().takes_values() {
            true => String::new(),
            false => format!(" One of {}.", values.join(", ")),
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.trim_end_matches('.');
        let (variable, help) = (variable(name), plain(format!("{help}.{values}")));
        writeln!(table, "| `{name}` | `{variable}` | {default} | {help} |").unwrap();
    }
    table
}

#[test]
fn the_guide_names_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/configuration.md");
    let page = fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- settings -->\n\n", "\n<!-- end of settings -->");
    let (before, rest) = page.split_once(begin).expect("where the table begins");
    let (there, after) = rest.split_once(end).expect("where the table ends");
    let table = table();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, [before, begin, &table, end, after].concat()).unwrap();
        return;
    }
    let advice = "UPDATE=1 cargo test -p sardonyx the_guide_names writes it anew";
    assert_eq!(there, table, "docs/guide/configuration.md: {advice}");
}

#[test]
fn the_example_of_the_packaging_is_right() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/sardonyx.toml");
    assert!(!check("start", Path::new(path)).unwrap().is_empty());
}
