//! What people write who are new to this, and what they are told.

use std::{fs, path::Path, process::Command};

const TABLE: &str = "Kunde,Stadt,Größe,Preis,Notiz\n\
    \"Müller, Jörg\",Köln,L,12.50,\"sagte \"\"danke\"\"\"\n\
    Özlem,München,M,,\n\
    \"Groß, Anna\",Köln,S,7.25,\"zwei\nZeilen\"\n\
    Émile,,L,30,\"\"\n";

const JOB: &str = r#"
name = "bestellungen"
workflow = [["lesen", "filter"], ["filter", "summe"], ["summe", "schreiben"]]

[catalog.lesen]
type = "input"
plugin = "file"
path = "bestellungen.csv"

[catalog.filter]
type = "function"
fn = "sql"
query = 'select Stadt, Größe, Preis from segments where Preis > 8'

[catalog.summe]
type = "function"
fn = "aggregate"
group-by = ["Stadt"]
aggregates = { anzahl = "count", umsatz = "sum(Preis)" }

[catalog.schreiben]
type = "output"
plugin = "file"
path = "umsatz.csv"
"#;

fn sardonyx(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_sardonyx");
    let ran = Command::new(program).args(args).current_dir(dir).output().unwrap();
    (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
}

#[test]
fn a_table_of_ones_own_becomes_a_grouped_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("bestellungen.csv"), TABLE).unwrap();
    fs::write(dir.path().join("job.toml"), JOB).unwrap();
    let (code, said) = sardonyx(dir.path(), &["run", "job.toml"]);
    assert_eq!(code, Some(0), "{said}");
    let made = fs::read_to_string(dir.path().join("umsatz.csv")).unwrap();
    let mut rows: Vec<_> = made.lines().collect();
    rows.sort_unstable();
    assert_eq!(rows, [",1,30.0", "Köln,1,12.5", "Stadt,anzahl,umsatz"]);
}

#[test]
fn a_slip_is_told_with_its_place_and_what_to_write() {
    let cases = [
        ("Preis > 8", "Preiss > 8", "catalog.filter: there is no column \"Preiss\"; the columns"),
        ("Preis > 8", "lenght(Kunde) > 8", "there is no function lenght; did you mean length?"),
        ("Preis > 8", "Stadt = \"Köln\"", "a text is written 'Köln'"),
        ("where Preis > 8", "group by Stadt", "group-by = [\"…\"] and fn = \"aggregate\""),
        ("bestellungen.csv", "nix.csv", "there is no file nix.csv"),
        (
            "bestellungen.csv",
            "semikolon.csv",
            "line 2: more than the 1 fields of the header: write delimiter = \";\"?",
        ),
        (
            "[\"Stadt\"]",
            "[\"Stad\"]",
            "group-by of summe: there is no column \"Stad\"; the columns are Stadt",
        ),
        (
            "path = \"best",
            "pfad = \"best",
            "catalog.lesen.pfad: there is no such key; the keys are path, format",
        ),
        (
            "path = \"best",
            "pathh = \"best",
            "catalog.lesen.pathh: there is no such key; did you mean path?",
        ),
        ("path = \"umsatz", "path = \"aus/umsatz", "there is no directory aus"),
    ];
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("bestellungen.csv"), TABLE).unwrap();
    fs::write(dir.path().join("semikolon.csv"), "Stadt;Größe;Preis\nKöln;L;12,50\n").unwrap();
    for (right, wrong, expected) in cases {
        assert!(JOB.contains(right), "{right}");
        fs::write(dir.path().join("job.toml"), JOB.replace(right, wrong)).unwrap();
        let (code, said) = sardonyx(dir.path(), &["check", "job.toml"]);
        assert_eq!(code, Some(2), "{wrong}: {said}");
        assert!(said.contains(expected), "{wrong}: {said}");
    }
}

#[test]
fn a_reason_names_its_task_once() {
    let dir = tempfile::tempdir().unwrap();
    // Beyond the rows in which types are found.
    let numbers: String = (0..20_000).map(|n| format!("A,L,{n}\n")).collect();
    fs::write(
        dir.path().join("bestellungen.csv"),
        format!("Stadt,Größe,Preis\n{numbers}A,L,zwei\n"),
    )
    .unwrap();
    fs::write(dir.path().join("job.toml"), JOB).unwrap();
    let (code, said) = sardonyx(dir.path(), &["run", "job.toml"]);
    assert_eq!(code, Some(1), "{said}");
    let expected = "was killed: task lesen: bestellungen.csv line 20002: Preis is zwei";
    assert!(said.contains(expected), "{said}");
}
