//! Whatever stands in a settings file: flags, or a complaint that says where.

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use harness::Target;

use super::*;

#[test]
fn a_settings_file() {
    let seeds = [
        "peers = 4\nstore = \"embedded:data\"\nqueues = \"memory:\"\n",
        "json = true\n[mesh]\nlisten = \"127.0.0.1:7000\"\nkey-file = \"key\"\n",
        "seeds = \"a:1,b:2\"\n[http]\naudit = \"audit.jsonl\"\nca = 1\n",
        "[a.b.c.d.e.f]\ng = 1\n[[files-root]]\nx = 1979-05-27\n",
        "files-root = [\"a\", \"b\"]\nsession = \"3s\"\ntrim-after = 1000\n",
    ]
    .map(|it| it.as_bytes().to_vec())
    .into();
    let words = &[
        "=",
        "[",
        "]",
        "\"",
        "true",
        "nan",
        "1979-05-27",
        "-",
        ".",
        "[[",
        "\n",
        "mesh",
        "http",
        "listen",
        "store",
        "peers",
        "config",
        "'''",
        "{",
        "}",
        "-1",
        "9223372036854775808",
    ];
    let start = subcommand("start").expect("it can be configured");
    Target { name: "settings", seeds, words }.run(|input| {
        let text = String::from_utf8_lossy(input);
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(why) => return toml::de::Error::message(&why).to_owned(),
        };
        judge(&start, &table)
    });
}

/// A file adds flags and nothing else: never another subcommand, never a value that stands alone.
fn judge(start: &Command, table: &toml::Table) -> String {
    let given = ["sardonyx", "start", "--peers=7"].map(OsString::from);
    match complete(start, given.clone().into(), &BTreeMap::new(), Some(("f.toml", table))) {
        Err(why) => {
            assert!(why.starts_with("f.toml: ") && why.len() > 20, "{why}");
            why
        }
        Ok(Completed { arguments, notes }) => {
            let (front, end) = (&arguments[..2], arguments.last());
            assert_eq!((front, end), (&given[..2], given.last()), "what was given stays");
            let added = &arguments[2..arguments.len() - 1];
            assert_eq!(added.len(), notes.len(), "each has its origin: {notes:?}");
            for it in added.iter().map(|it| it.to_string_lossy()) {
                let is_named = it.starts_with("--") && !it.starts_with("--peers");
                assert!(is_named && !it.starts_with("--config"), "{it}");
            }
            match Cli::command().try_get_matches_from(&arguments) {
                Ok(_) => format!("fine {}", added.len()),
                Err(why) => format!("{:?}", why.kind()),
            }
        }
    }
}
