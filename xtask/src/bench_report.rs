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
    for (title, args) in SECTIONS {
        let rows = report.bench(&program, title, args);
        match *args {
            ["ids"] => {
                report.ratios.extend(beside::ids(&rows));
                report.picture("ids.svg", &beside::ids_picture(&rows))?;
            }
            ["mesh"] => {
                report.ratios.extend(beside::echo(&rows));
                report.mesh = rows;
            }
            ["stream"] => report.timely_stream(&rows),
            _ => {}
        }
    }
    for store in STORES {
        report.store(&program, store)?;
    }
    report.gossip()?;
    report.growth(&program)?;
    let demo = demo(&program);
    if let Err(why) = &demo {
        report.section("The demo", page::DEMO.into(), Err(why.clone()));
    }
    let demo = demo.ok();
    let facts = Facts {
        date: text(Command::new("date").args(["-u", "+%Y-%m-%d"])),
        version: env!("CARGO_PKG_VERSION").into(),
        machine: report.machine.clone(),
        load: (before, load()),
    };
    let page = page::page(&facts, &report.ratios, &report.sections, demo.as_deref());
    fs::write(tree::root().join(PAGE), page).map_err(|why| format!("{PAGE}: {why}"))?;
    let readme = tree::root().join("README.md");
    let text = fs::read_to_string(&readme).map_err(|why| format!("README.md: {why}"))?;
    fs::write(&readme, page::refreshed(&text, &report.ratios, demo.as_deref()))
        .map_err(|why| format!("README.md: {why}"))?;
    eprintln!("{PAGE} is written, and the README has its numbers");
    match report.missing() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(format!("not measured, and the page says why: {}", missing.join("; "))),
    }
}

/// What the demo shows, as the README has it.
fn demo(program: &Path) -> Result<String, String> {
    eprintln!("== demo");
    let output = Command::new(program).arg("demo").output().map_err(|why| why.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("the demo: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// What is measured by one call of the program.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Streams: how late rows are, and what standing still costs", &["stream"]),
    ("Ids, beside other generators and bare servers", &["ids"]),
    ("The mesh, beside its goals", &["mesh"]),
    ("An idle node", &["node"]),
    ("A dashboard on a million entries", &["http"]),
];

/// How a store is called, and the file of its picture.
const STORES: [(&str, &str); 4] = [
    ("a disk", "store-disk.svg"),
    ("sardonyx://", "store-served.svg"),
    ("etcd", "store-etcd.svg"),
    ("ZooKeeper", "store-zookeeper.svg"),
];

/// A store, with the server that it needs as long as it is measured: one that idles takes the time of
/// those that do not.
fn store(program: &Path, name: &str) -> Result<(Option<Server>, String), String> {
    let with_server = |(server, url)| (Some(server), url);
    match name {
        "sardonyx://" => Server::sardonyx(program).map(with_server),
        "etcd" => Server::etcd().map(with_server),
        "ZooKeeper" => Server::zookeeper().map(with_server),
        _ => {
            let dir = tree::root().join("target/bench-report/store");
            // What an earlier run left would be replayed as well.
            let _ = fs::remove_dir_all(&dir);
            Ok((None, format!("embedded:{}", dir.display())))
        }
    }
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
    /// One benchmark of the program, and its rows. One that fails is a sentence on the page, not the end
    /// of the run.
    fn bench(&mut self, program: &Path, title: &str, args: &[&str]) -> Vec<Value> {
        let rows = self.rows(program, args);
        let called = shown(args);
        let found = rows.clone().unwrap_or_default();
        self.ratios.extend(found.iter().filter_map(|row| ratio(&called, row)));
        self.section(title, format!("sardonyx bench {called}"), rows);
        found
    }

    /// A section without pictures.
    fn section(&mut self, title: &str, command: String, rows: Result<Vec<Value>, String>) {
        self.sections.push(Section { title: title.into(), command, rows, plots: Vec::new() });
    }

    /// A picture for the section that was measured last, if there is anything to draw.
    fn picture(&mut self, file: &str, (title, bars): &beside::Picture) -> Result<(), String> {
        if let (false, Some(section)) = (bars.is_empty(), self.sections.last_mut()) {
            write(file, &plot::bars(title, "", bars))?;
            section.plots.push((file.to_owned(), title.clone()));
        }
        Ok(())
    }

    /// What was to be measured and was not.
    fn missing(&self) -> Vec<String> {
        let is_missing = |it: &&Section| it.rows.as_ref().map_or(true, Vec::is_empty);
        self.sections.iter().filter(is_missing).map(|it| it.title.clone()).collect()
    }

    /// The rows of `bench stream`, on timely.
    fn timely_stream(&mut self, ours: &[Value]) {
        let theirs = bench_peers::late();
        self.ratios.extend(beside::streams(ours, theirs.as_ref().ok()));
        let command = format!("bench-timely {}", LATE.join(" "));
        let title = "The same stream on timely, in microseconds";
        self.section(title, command, theirs.map(|it| vec![it]));
    }

    /// A store, beside what it stands on.
    fn store(&mut self, program: &Path, (name, file): (&str, &str)) -> Result<(), String> {
        let title = format!("The store on {name}, beside it without us");
        match store(program, name) {
            Ok((_server, url)) => {
                let rows = self.bench(program, &title, &["store", &url]);
                self.picture(file, &beside::store_picture(name, &rows))
            }
            Err(why) => {
                self.section(&title, "sardonyx bench store".into(), Err(why));
                Ok(())
            }
        }
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
    fn gossip(&mut self) -> Result<(), String> {
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
            let theirs = rows.clone().unwrap_or_default();
            self.ratios.extend(beside::mesh(&self.mesh, &theirs, millis));
            self.section(&title, format!("bench-gossip {}", args.join(" ")), rows);
            let pictures = beside::mesh_pictures(&self.mesh, &theirs, millis);
            for (at, picture) in pictures.iter().enumerate() {
                self.picture(&format!("mesh-{millis}-{at}.svg"), picture)?;
            }
        }
        Ok(())
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
        let command = format!("sardonyx bench {}", shown(args));
        match self.rows(program, args) {
            Ok(rows) => self.draw(title, (args[0], size), command, rows, values),
            Err(why) => {
                self.section(title, command, Err(why));
                Ok(())
            }
        }
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
        let command = format!("sardonyx bench {} {flag} N", shown(args));
        let mut rows = Vec::new();
        for n in sizes {
            let n_text = n.to_string();
            let called = match self.rows(program, &[args, &[flag.as_str(), &n_text]].concat()) {
                Ok(called) => called,
                Err(why) => {
                    self.section(title, command, Err(why));
                    return Ok(());
                }
            };
            rows.extend(called.into_iter().map(|mut row| {
                if row[size].is_null() {
                    row[size] = n.into();
                }
                row
            }));
        }
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
        self.ratios.extend(beside::growth(title, size, &lines));
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
