//! `docs/benchmarks.md` from what was measured. Pure: the same numbers give the same page.

use std::{collections::BTreeSet, fmt::Write};

use serde_json::Value;

use super::plot::short;

/// What the page says before any number.
pub(super) struct Facts {
    pub(super) date: String,
    pub(super) version: String,
    pub(super) machine: String,
    /// The load of the machine before the first and after the last measurement.
    pub(super) load: (String, String),
}

/// One number of ours by one of somebody else's.
pub(super) struct Ratio {
    pub(super) what: String,
    pub(super) beside: String,
    pub(super) ratio: f64,
}

/// One command and what it printed.
pub(super) struct Section {
    pub(super) title: String,
    pub(super) command: String,
    /// The rows of its JSON, or why there are none.
    pub(super) rows: Result<Vec<Value>, String>,
    /// Files beside the page, and what they show.
    pub(super) plots: Vec<(String, String)>,
}

impl Ratio {
    /// What it is about, as a row begins.
    fn about(&self) -> String {
        format!("| {} | {} | ", self.what, self.beside)
    }

    fn row(&self) -> String {
        format!("{}{:.2} |", self.about(), self.ratio)
    }
}

/// The command whose output the README shows.
pub(super) const DEMO: &str = "cargo run --release -- demo";

/// A text whose rows about these ratios have their numbers of today, and which shows the demo of today.
pub(super) fn refreshed(text: &str, ratios: &[Ratio], demo: Option<&str>) -> String {
    let refresh = |line: &str| match ratios.iter().find(|it| line.starts_with(&it.about())) {
        Some(ratio) => ratio.row() + "\n",
        None => format!("{line}\n"),
    };
    let text: String = text.lines().map(refresh).collect();
    let shown = || {
        let command = text.find(&format!("\n{DEMO}\n"))?;
        let begin = command + text[command..].find("```text alike\n")? + "```text alike\n".len();
        Some(begin..begin + text[begin..].find("```\n")?)
    };
    match demo.zip(shown()) {
        Some((demo, shown)) => [&text[..shown.start], demo, &text[shown.end..]].concat(),
        None => text,
    }
}

/// The page.
pub(super) fn page(
    facts: &Facts,
    ratios: &[Ratio],
    sections: &[Section],
    demo: Option<&str>,
) -> String {
    let Facts { date, version, machine, load: (before, after) } = facts;
    let mut page = format!(
        "# Benchmarks\n\n<!-- Written by `cargo xtask bench-report`; do not edit. -->\n\n\
         Sardonyx {version} on {machine}, {date}. Load of the machine before the first measurement: \
         {before}; after the last: {after}. Everything below was measured in this one run. Compare ratios, \
         not numbers: both sides of a ratio had the same machine and the same neighbours. More is better, \
         except of times and of bytes.\n\n\
         ## Ratios\n\n| what | beside | ours / it |\n|---|---|---|\n"
    );
    for ratio in ratios {
        page.push_str(&ratio.row());
        page.push('\n');
    }
    for section in sections {
        let _ = write!(page, "\n## {}\n\n`{}`\n\n", section.title, section.command);
        match &section.rows {
            Ok(rows) => page.push_str(&table(rows)),
            Err(why) => {
                let _ = writeln!(page, "Not measured: {}", why.trim().replace('\n', " "));
            }
        }
        for (file, shows) in &section.plots {
            let _ = write!(page, "\n![{shows}](benchmarks/{file})\n");
        }
    }
    if let Some(demo) = demo {
        let _ = write!(page, "\n## The demo\n\n`{DEMO}`\n\n```text\n{demo}```\n");
    }
    page
}

/// What a row is about stands at its beginning, in this order; then what was measured.
const ABOUT: &[&str] = &["job", "engine", "what", "beside", "peers", "jobs", "log", "rows"];

/// Rows as a table. Not every row has every key.
fn table(rows: &[Value]) -> String {
    let keys: BTreeSet<(usize, &str)> = rows
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|row| row.keys().map(String::as_str))
        .map(|key| (ABOUT.iter().position(|it| *it == key).unwrap_or(ABOUT.len()), key))
        .collect();
    if keys.is_empty() {
        return "No rows.\n".to_owned();
    }
    let head: Vec<String> = keys.iter().map(|(_, key)| key.replace(['_', '-'], " ")).collect();
    let mut table = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(keys.len()));
    for row in rows {
        let cells: Vec<String> = keys.iter().map(|(_, key)| cell(&row[*key])).collect();
        let _ = writeln!(table, "| {} |", cells.join(" | "));
    }
    table
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(is_so) => (if *is_so { "yes" } else { "no" }).to_owned(),
        Value::Number(number) => number.as_f64().map(short).unwrap_or_default(),
        Value::String(text) => text.replace('|', "\\|"),
        Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_elsewhere_get_the_numbers_of_today() {
        let ratio = Ratio { what: "words".into(), beside: "timely".into(), ratio: 2.0 };
        let text = "# It\n\n| words | timely | 1.91 |\n| words | flink | 25.00 |\n";
        let today = text.replace("1.91", "2.00");
        assert_eq!(refreshed(text, &[ratio], Some("of today\n")), today);
    }

    #[test]
    fn the_demo_is_shown_as_it_was_today() {
        let text = |demo: &str| {
            format!(
                "```sh\ncargo run --release -- demo\n```\n```text alike\n{demo}```\n\n```text alike\nx\n```\n"
            )
        };
        assert_eq!(refreshed(&text("old\n"), &[], Some("new\nnews\n")), text("new\nnews\n"));
        assert_eq!(refreshed(&text("old\n"), &[], None), text("old\n"), "there is none of today");
    }

    #[test]
    fn ratios_come_first_and_what_failed_is_said() {
        let facts = Facts {
            date: "2026-01-02".into(),
            version: "0.1.0".into(),
            machine: "2 cores".into(),
            load: ("0.1".into(), "0.9".into()),
        };
        let ratio = Ratio { what: "words".into(), beside: "timely".into(), ratio: 4.567 };
        let section = |rows| Section {
            title: "Ids".into(),
            command: "sardonyx bench ids".into(),
            rows,
            plots: vec![("ids.svg".into(), "ids".into())],
        };
        let good = section(Ok(vec![
            json!({"what": "a|b", "ids_per_second": 4_100_000, "met": true}),
            json!({"what": "c", "ids_per_second": 1, "of_bare": 0.5}),
        ]));
        let failed = section(Err("no server\n".into()));
        let page = page(&facts, &[ratio], &[good, failed], Some("all is right\n"));
        assert!(page.ends_with(
            "## The demo\n\n`cargo run --release -- demo`\n\n```text\nall is right\n```\n"
        ));
        assert!(page.contains("| words | timely | 4.57 |"), "{page}");
        let table = "| what | ids per second | met | of bare |\n|---|---|---|---|\n\
                     | a\\|b | 4.10M | yes |  |\n| c | 1 |  | 0.50 |\n";
        assert!(page.contains(table), "{page}");
        assert!(page.contains("Not measured: no server\n"), "{page}");
        assert!(page.find("## Ratios").unwrap() < page.find("## Ids").unwrap());
        assert!(page.contains("![ids](benchmarks/ids.svg)"));
    }
}
