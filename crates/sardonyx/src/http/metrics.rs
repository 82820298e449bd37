//! Numbers for Prometheus.

use std::fmt::Write as _;

use axum::{extract::State, http::header, response::IntoResponse};

use super::{Site, cluster::JobCounts};
use crate::shown;

/// Text in Prometheus' form, one family after the other.
#[derive(Default)]
struct Families(String);

impl Families {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP sardonyx_{name} {help}\n# TYPE sardonyx_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let labels: Vec<_> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.0, "sardonyx_{name}{labels} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }
}

/// A label's value may be anything, but for these three characters.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

pub(crate) async fn metrics(State(site): State<Site>) -> impl IntoResponse {
    let mut families = Families::default();
    about_the_cluster(&site, &mut families);
    about_tasks(&site, &mut families);
    about_the_server(&site, &mut families);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], families.0)
}

fn about_the_cluster(site: &Site, families: &mut Families) {
    let head = site.view().head();
    let position = head.position.map_or(0, |it| it.0);
    families.gauge("log_position", "The last position of the log that was read.", position);
    let n_peers = head.replica.n_peers() as u64;
    families.gauge("peers", "Peers in the ring.", n_peers);
    let n_joining = shown::joining(&head.replica).len() as u64;
    families.gauge("peers_joining", "Peers that are being stitched in.", n_joining);
    let is_one = u64::from(shown::is_one_ring(&head.replica));
    families.gauge("ring_is_one", "1 if the ring leads through everybody.", is_one);
    let counts = JobCounts::of(&head.replica);
    families.family("jobs", "gauge", "Jobs by state.");
    for (state, n) in [
        ("pending", counts.pending),
        ("running", counts.running),
        ("completed", counts.completed),
        ("killed", counts.killed),
        ("collected", counts.collected),
    ] {
        families.sample("jobs", &[("state", state)], n as u64);
    }
}

fn about_tasks(site: &Site, families: &mut Families) {
    let readings = site.about().figures.meters().read();
    type Part = fn(&sardonyx_task::meter::Reading) -> u64;
    let parts: [(&str, &str, Part); 4] = [
        ("task_segments_in_total", "Segments into a task, on this node.", |it| it.rows_in),
        ("task_segments_out_total", "Segments out of a task, on this node.", |it| it.rows_out),
        ("task_segments_failed_total", "Segments a function failed on.", |it| it.rows_failed),
        ("task_commits_total", "Transactions of a task, on this node.", |it| it.commits),
    ];
    for (name, help, part) in parts {
        families.family(name, "counter", help);
        for (place, reading) in &readings {
            let labels = [("job", place.job.as_str()), ("task", place.task.as_str())];
            families.sample(name, &labels, part(reading));
        }
    }
}

fn about_the_server(site: &Site, families: &mut Families) {
    let name = "http_answers_total";
    families.family(name, "counter", "Answers by class of status.");
    for (class, n) in site.counts().read().into_iter().enumerate() {
        families.sample(name, &[("class", &format!("{}xx", class + 1))], n);
    }
    let (bytes, n_kept) = site.view().look(|it| (it.bytes() as u64, it.n_kept() as u64));
    families.gauge("http_past_bytes", "The most that the remembered past may take.", bytes);
    families.gauge("http_past_replicas", "Replicas kept to show the past.", n_kept);
    families.gauge("resident_bytes", "Memory of this process.", resident_bytes());
}

/// What the kernel says this process has in memory; 0 where it does not say.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_may_be_anything() {
        let mut families = Families::default();
        families.family("x", "gauge", "An x.");
        families.sample("x", &[("job", "a\"b\\c\nd"), ("task", "<b>")], 3);
        let expected = "# HELP sardonyx_x An x.\n# TYPE sardonyx_x gauge\n\
                        sardonyx_x{job=\"a\\\"b\\\\c\\nd\",task=\"<b>\"} 3\n";
        assert_eq!(families.0, expected);
    }
}
