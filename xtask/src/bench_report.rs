//! `cargo xtask bench-report`: every benchmark in one run, and `docs/benchmarks.md` with what came of it.
//! The README's numbers are brought up to date.
//!
//! What can be measured only beside a server starts one on this machine, and ends it. What cannot be
//! measured here is named on the page, with the reason.

mod beside;
mod page;
mod plot;
mod servers;

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use self::{
    page::{Facts, Ratio, Section},
    servers::Server,
};
use crate::{
    bench_peers::{self, Compared, JOBS, LATE, Median, OURS},
    tree,
};

const PAGE: &str = "docs/benchmarks.md";
const PLOTS: &str = "docs/benchmarks";

/// Measures everything, and writes the page. `runs`: how often each job of the comparison.
pub(crate) fn run(runs: u64) -> Result<(), String> {
    let program = bench_peers::program()?;
    let before = load();
    let mut report = Report::default();
    report.engines(&bench_peers::measure(runs)?)?;
    let stores = stores(&program);
    for (title, args) in SECTIONS {
        report.bench(&program, title, args)?;
    }
    report.sections.push(Section {
        title: "The same stream on timely, in microseconds".into(),
        command: format!("bench-timely {}", LATE.join(" ")),
        rows: bench_peers::late().map(|it| vec![it]),
        plots: Vec::new(),
    });
    for (name, url, _server) in &stores {
        let title = format!("The store on {name}, beside it without us");
        match url {
            Ok(url) => report.bench(&program, &title, &["store", url])?,
            Err(why) => report.sections.push(Section {
                title,
                command: "sardonyx bench store".into(),
                rows: Err(why.clone()),
                plots: Vec::new(),
            }),
        }
    }
    report.gossip();
    report.growth(&program)?;
    let facts = Facts {
        date: text(Command::new("date").args(["-u", "+%Y-%m-%d"])),
        version: env!("CARGO_PKG_VERSION").into(),
        machine: report.machine.clone(),
        load: (before, load()),
    };
    let page = page::page(&facts, &report.ratios, &report.sections);
    fs::write(tree::root().join(PAGE), page).map_err(|why| format!("{PAGE}: {why}"))?;
    let readme = tree::root().join("README.md");
    let text = fs::read_to_string(&readme).map_err(|why| format!("README.md: {why}"))?;
    fs::write(&readme, page::refreshed(&text, &report.ratios))
        .map_err(|why| format!("README.md: {why}"))?;
    eprintln!("{PAGE} is written, and the README has its numbers");
    Ok(())
}

/// What is measured by one call of the program.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Streams: how late rows are, and what standing still costs", &["stream"]),
    ("Ids, beside other generators and bare servers", &["ids"]),
    ("The mesh, beside its goals", &["mesh"]),
    ("An idle node", &["node"]),
    ("A dashboard on a million entries", &["http"]),
];

/// The stores to measure, with the servers that they need.
fn stores(program: &Path) -> Vec<(&'static str, Result<String, String>, Option<Server>)> {
    let dir = tree::root().join("target/bench-report/store");
    // What an earlier run left would be replayed as well.
    let _ = fs::remove_dir_all(&dir);
    let mut all = vec![("a disk", Ok(format!("embedded:{}", dir.display())), None)];
    for (name, started) in [
        ("sardonyx://", Server::sardonyx(program)),
        ("etcd", Server::etcd()),
        ("ZooKeeper", Server::zookeeper()),
    ] {
        match started {
            Ok((server, url)) => all.push((name, Ok(url), Some(server))),
            Err(why) => all.push((name, Err(why), None)),
        }
    }
    all
}

/// What is drawn of a row: which line, and how high.
type Points = Vec<(&'static str, f64)>;

#[derive(Default)]
struct Report {
    machine: String,
    ratios: Vec<Ratio>,
    sections: Vec<Section>,
    /// The rows of `bench mesh`, for those who are measured after it.
    mesh: Vec<Value>,
}

impl Report {
    /// One benchmark of the program. One that fails is a sentence on the page, not the end of the run.
    fn bench(&mut self, program: &Path, title: &str, args: &[&str]) -> Result<(), String> {
        let rows = self.rows(program, args);
        let called = shown(args);
        let found = rows.as_deref().unwrap_or_default();
        self.ratios.extend(found.iter().filter_map(|row| ratio(&called, row)));
        match args {
            ["ids"] => self.ratios.extend(beside::ids(found)),
            ["mesh"] => self.mesh = found.to_vec(),
            _ => {}
        }
        let command = format!("sardonyx bench {called}");
        self.sections.push(Section { title: title.into(), command, rows, plots: Vec::new() });
        Ok(())
    }

    /// The rows that a benchmark prints. Some print several documents; all rows count.
    fn rows(&mut self, program: &Path, args: &[&str]) -> Result<Vec<Value>, String> {
        eprintln!("== bench {}", args.join(" "));
        let output = Command::new(program).args(["bench", "--json"]).args(args).output();
        let output = output.map_err(|why| why.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let documents = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
        let mut rows = Vec::new();
        for document in documents {
            let document = document.map_err(|why| why.to_string())?;
            let machine = &document["machine"];
            let cpu = machine["cpu"].as_str().unwrap_or_default();
            self.machine = format!("{} cores, {cpu}", machine["cores"]);
            rows.extend(document["rows"].as_array().cloned().unwrap_or_default());
        }
        Ok(rows)
    }

    /// Other memberships, at the paces at which ours is measured.
    fn gossip(&mut self) {
        for (millis, ours) in [("100", "G5 and G6"), ("300", "G11")] {
            let args = ["100", millis, "3"];
            let title = format!(
                "chitchat and foca, 100 members, a round every {millis} ms (ours is {ours} above)"
            );
            let rows = bench_peers::gossip().and_then(|program| {
                let output = Command::new(program).args(args).output();
                let output = output.map_err(|why| why.to_string())?;
                let said: Value = serde_json::from_slice(&output.stdout)
                    .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
                Ok(said["rows"].as_array().cloned().unwrap_or_default())
            });
            let theirs = rows.as_deref().unwrap_or_default();
            self.ratios.extend(beside::mesh(&self.mesh, theirs, millis));
            let command = format!("bench-gossip {}", args.join(" "));
            self.sections.push(Section { title, command, rows, plots: Vec::new() });
        }
    }

    /// Whole jobs beside other engines.
    fn engines(&mut self, Compared { all, left_out }: &Compared) -> Result<(), String> {
        let (mut rows, mut plots) = (Vec::new(), Vec::new());
        for job in JOBS {
            let ours = bench_peers::median(all, job, OURS);
            let mut bars = Vec::new();
            for engine in bench_peers::engines(all, job) {
                let Some(it) = bench_peers::median(all, job, engine) else { continue };
                let Median { seconds, cpu_seconds, rows_per_cpu_second: speed } = it;
                rows.push(json!({"job": job, "engine": engine, "seconds": seconds,
                    "CPU seconds": cpu_seconds, "rows per CPU second": speed}));
                if let Some(ours) = ours.as_ref().filter(|_| engine != OURS) {
                    let ratio = ours.rows_per_cpu_second / speed;
                    let what = format!("{job}, rows per CPU second");
                    self.ratios.push(Ratio { what, beside: engine.into(), ratio });
                }
                bars.push((engine.to_owned(), speed));
            }
            let file = format!("{job}.svg");
            let title = format!("{job}: rows per second of processor time");
            write(&file, &plot::bars(&title, "", &bars))?;
            plots.push((file, title));
        }
        self.sections.push(Section {
            title: "Whole jobs, beside other engines".into(),
            command: "cargo xtask bench-peers".into(),
            rows: Ok(rows),
            plots,
        });
        self.sections.extend(left_out.iter().map(|(title, why)| Section {
            title: title.clone(),
            command: "cargo xtask bench-peers".into(),
            rows: Err(why.lines().next().unwrap_or_default().to_owned()),
            plots: Vec::new(),
        }));
        Ok(())
    }

    /// How costs grow: with peers, with jobs, with the length of the log, with the data.
    fn growth(&mut self, program: &Path) -> Result<(), String> {
        self.line(program, "peers", "The replica, as the cluster grows", &["replica"], |row| {
            vec![
                ("an entry", 1e6 / number(row, "entries-per-second")),
                ("a change of a bare map", 1e6 / number(row, "map-changes-per-second")),
            ]
        })?;
        self.line(
            program,
            "peers",
            "The schedulers, as the cluster grows",
            &["schedule"],
            schedule,
        )?;
        let plan = ["schedule", "--peers", "1000", "--log", "1"];
        self.sizes(
            program,
            "The schedulers, as jobs become more",
            &plan,
            "jobs",
            [10, 100, 1000],
            schedule,
        )?;
        let play = ["schedule", "--peers", "1", "--jobs", "1"];
        // A thousand jobs come at its beginning, and are no small part of a shorter one.
        let log = [100_000, 300_000, 1_000_000];
        self.sizes(program, "Playing a log, as it becomes longer", &play, "log", log, |row| {
            vec![("an entry", 1e6 / number(row, "entries-per-second"))]
        })?;
        let words = ["job", "words", "--runs", "3", "--queues", "memory:"];
        self.sizes(
            program,
            "Words, as the data grows",
            &words,
            "rows",
            [10_000, 100_000, 1_000_000],
            |row| vec![("a word", 1e6 / number(row, "rows_per_cpu_second"))],
        )
    }

    /// A benchmark whose rows differ in one size, drawn over it.
    fn line(
        &mut self,
        program: &Path,
        size: &str,
        title: &str,
        args: &[&str],
        values: impl Fn(&Value) -> Points,
    ) -> Result<(), String> {
        let rows = self.rows(program, args)?;
        let command = format!("sardonyx bench {}", shown(args));
        self.draw(title, (args[0], size), command, rows, values)
    }

    /// A benchmark that is called with several sizes, drawn over them.
    fn sizes(
        &mut self,
        program: &Path,
        title: &str,
        args: &[&str],
        size: &str,
        sizes: [u64; 3],
        values: impl Fn(&Value) -> Points,
    ) -> Result<(), String> {
        let flag = format!("--{size}");
        let mut rows = Vec::new();
        for n in sizes {
            let n_text = n.to_string();
            let called = self.rows(program, &[args, &[flag.as_str(), &n_text]].concat())?;
            rows.extend(called.into_iter().map(|mut row| {
                if row[size].is_null() {
                    row[size] = n.into();
                }
                row
            }));
        }
        let command = format!("sardonyx bench {} {flag} N", shown(args));
        self.draw(title, (size, size), command, rows, values)
    }

    /// Rows that have the values, and a picture of them over their size.
    fn draw(
        &mut self,
        title: &str,
        (name, size): (&str, &str),
        command: String,
        mut rows: Vec<Value>,
        values: impl Fn(&Value) -> Points,
    ) -> Result<(), String> {
        // Rows of another shape make a table of their own, which nobody asked for here.
        rows.retain(|row| {
            row[size].is_number() && values(row).iter().all(|(_, value)| value.is_finite())
        });
        let mut lines: Vec<plot::Line> = Vec::new();
        for row in &rows {
            for (at, (name, value)) in values(row).into_iter().enumerate() {
                if lines.len() <= at {
                    lines.push((name.to_owned(), Vec::new()));
                }
                lines[at].1.push((number(row, size), value));
            }
        }
        let file = format!("{name}.svg");
        write(&file, &plot::lines(title, size, " µs", &lines))?;
        let plots = vec![(file, title.into())];
        self.sections.push(Section { title: title.into(), command, rows: Ok(rows), plots });
        Ok(())
    }
}

/// What a row says about us beside something else, if it does.
fn ratio(bench: &str, row: &Value) -> Option<Ratio> {
    let what = row["what"].as_str()?;
    let (ratio, beside) = match (row["ratio"].as_f64(), row["of_bare"].as_f64()) {
        (Some(ratio), _) => (ratio, row["beside"].as_str().unwrap_or_default().to_owned()),
        (None, Some(ratio)) => (ratio, "a bare server".to_owned()),
        (None, None) => return None,
    };
    Some(Ratio { what: format!("{bench}: {what}"), beside, ratio })
}

/// Directories and ports differ from run to run and mean nothing to a reader.
fn shown(args: &[&str]) -> String {
    let shorten = |arg: &&str| match arg.split_once(':') {
        Some((scheme, rest)) if rest.len() > 3 => format!("{scheme}:…"),
        Some(_) | None => (*arg).to_owned(),
    };
    args.iter().map(shorten).collect::<Vec<_>>().join(" ")
}

/// What sharing out costs, of a row of `bench schedule`.
fn schedule(row: &Value) -> Points {
    vec![("a volunteer", number(row, "volunteer-us")), ("a plan", 1e3 * number(row, "plan-ms"))]
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or(f64::NAN)
}

fn write(file: &str, svg: &str) -> Result<(), String> {
    let folder = tree::root().join(PLOTS);
    fs::create_dir_all(&folder).map_err(|why| format!("{PLOTS}: {why}"))?;
    fs::write(folder.join(file), svg).map_err(|why| format!("{PLOTS}/{file}: {why}"))
}

/// How busy the machine is, over the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn text(command: &mut Command) -> String {
    let output = command.output().map(|it| it.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_compare_are_ratios() {
        let row = json!({"what": "appends", "ratio": 0.9, "beside": "fdatasync"});
        let found = ratio("store", &row).unwrap();
        assert_eq!((found.what.as_str(), found.beside.as_str()), ("store: appends", "fdatasync"));
        assert!(ratio("ids", &json!({"what": "fill", "nanos": 0.6})).is_none());
        assert_eq!(
            shown(&["store", "embedded:/some/place", "memory:"]),
            "store embedded:… memory:"
        );
    }
}
