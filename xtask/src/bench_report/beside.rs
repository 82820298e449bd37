//! Ratios between rows that different programs, or different parts of one, have printed. Pure.

use serde_json::Value;

use super::{
    page::Ratio,
    plot::{Line, short},
};

/// Kinds of measurements of `bench ids`, and which row of each kind is ours.
const IDS: &[(&str, &str)] = &[
    ("cost: ", "ours, shared handle"),
    ("cost: ", "ours, fill of 1000"),
    ("real clock: ", "ours"),
    ("real clock, 4 busy threads beside: ", "ours"),
];

/// Ids in a second on one thread, ours by those of each other generator that draws as many at a time.
pub(super) fn ids(rows: &[Value]) -> Vec<Ratio> {
    let alone = || rows.iter().filter(|row| row["threads"] == 1);
    let of = |row: &Value, kind: &str| Some(row["what"].as_str()?.strip_prefix(kind)?.to_owned());
    let rate = |row: &Value| row["ids_per_second"].as_f64();
    let is_many = |name: &str| name.ends_with("1000");
    let mut ratios = Vec::new();
    for (kind, ours) in IDS {
        let mine = alone().find(|row| of(row, kind).is_some_and(|name| name == *ours));
        let Some(mine) = mine.and_then(rate) else { continue };
        for row in alone() {
            let (Some(name), Some(theirs)) = (of(row, kind), rate(row)) else { continue };
            // Without what makes us different we are nobody else.
            let is_ours = name.starts_with("ours") || name.starts_with("without");
            if !is_ours && is_many(&name) == is_many(ours) {
                let what = format!("ids per second, {kind}{ours}");
                ratios.push(Ratio { what, beside: name, ratio: mine / theirs });
            }
        }
    }
    ratios
}

/// What `bench mesh` and `bench-gossip` both measure: at which pace of theirs, the goal of ours and how
/// the two rows begin.
const MESH: &[(&str, &str, &str, &str)] = &[
    ("100", "G6", "cold start", "all started at once"),
    ("100", "G5", "a follower ends, removed", "one is killed"),
    ("300", "G11", "bytes of the whole cluster", "sent by all of them"),
];

/// What was measured at one pace both here and elsewhere: the goal, what it is, ours, and each other's.
type Both<'a> = (&'static str, &'a str, f64, Vec<(String, f64)>);

fn both<'a>(ours: &'a [Value], theirs: &[Value], millis: &str) -> Vec<Both<'a>> {
    let begins =
        |row: &Value, with: &str| row["what"].as_str().is_some_and(|it| it.starts_with(with));
    let of_pace = MESH.iter().filter(|(pace, ..)| *pace == millis);
    let found = of_pace.filter_map(|(_, goal, mine, other)| {
        let row = ours.iter().find(|row| row["goal"] == *goal && begins(row, mine))?;
        let others = theirs.iter().filter(|row| begins(row, other)).filter_map(|row| {
            let value = in_base(row["value"].as_f64(), row["unit"].as_str())?;
            Some((row["engine"].as_str()?.to_owned(), value))
        });
        Some((*goal, row["what"].as_str()?, base(row["p50"].as_str()?)?, others.collect()))
    });
    found.collect()
}

/// Times and bytes of a mesh, ours by theirs, whose rounds are so many milliseconds apart.
pub(super) fn mesh(ours: &[Value], theirs: &[Value], millis: &str) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for (_, what, mine, others) in both(ours, theirs, millis) {
        let what = format!("mesh: {what}");
        ratios.extend(others.into_iter().map(|(beside, theirs)| Ratio {
            what: what.clone(),
            beside,
            ratio: mine / theirs,
        }));
    }
    ratios
}

/// How late the rows of a stream are with us, by how late they are without us: through a bare channel, and
/// on timely, which says its times in microseconds.
pub(super) fn streams(rows: &[Value], timely: Option<&Value>) -> Vec<Ratio> {
    let millis = |what: &str| {
        let row = rows.iter().find(|row| row["what"] == what);
        row.and_then(|row| row["measured"].as_f64())
    };
    let mut ratios = Vec::new();
    for quantile in ["p50", "p99"] {
        let Some(ours) = millis(&format!("late by, three tasks, {quantile}")) else { continue };
        let bare = millis(&format!("late by, a bare channel, {quantile}"));
        let timely = timely.and_then(|it| Some(it[quantile].as_f64()? / 1e3));
        for (beside, theirs) in [("a bare channel", bare), ("timely", timely)] {
            let what = format!("streams: rows are late by, {quantile}");
            ratios.extend(theirs.map(|it| Ratio { what, beside: beside.into(), ratio: ours / it }));
        }
    }
    ratios
}

/// Questions and answers between members, by a bare echo of the same run.
pub(super) fn echo(rows: &[Value]) -> Vec<Ratio> {
    let time = |goal: &str, with: &str, quantile: &str| {
        let is_it = |row: &&Value| {
            row["goal"] == goal && row["what"].as_str().is_some_and(|it| it.starts_with(with))
        };
        base(rows.iter().find(is_it)?[quantile].as_str()?)
    };
    let ratio = |quantile: &str| {
        let (ours, bare) =
            (time("G14", "question and answer", quantile)?, time("echo", "bare echo", quantile)?);
        let what = format!("mesh: question and answer of 64 bytes, {quantile}");
        Some(Ratio { what, beside: "a bare echo".into(), ratio: ours / bare })
    };
    ["p50", "p99"].into_iter().filter_map(ratio).collect()
}

/// What a line costs where it ends, by what it costs where it begins.
pub(super) fn growth(title: &str, size: &str, lines: &[Line]) -> Vec<Ratio> {
    let grown = lines.iter().filter_map(|(name, points)| {
        let ((from, first), (to, last)) = (points.first()?, points.last()?);
        let what = format!("{title}: {name}, {} {size}", short(*to));
        Some(Ratio { what, beside: format!("{} {size}", short(*from)), ratio: last / first })
    });
    grown.collect()
}

/// One picture of a table: what it shows, and its bars.
pub(super) type Picture = (String, Vec<(String, f64)>);

/// Ids in a second on one thread: what a generator costs whose clock stands still for it, one by one.
pub(super) fn ids_picture(rows: &[Value]) -> Picture {
    let bar = |row: &Value| {
        let name = row["what"].as_str()?.strip_prefix("cost: ")?;
        let name =
            name.strip_prefix("ours, ").map_or(name.to_owned(), |it| format!("sardonyx, {it}"));
        Some((name, row["ids_per_second"].as_f64()?))
    };
    let alone = rows.iter().filter(|row| row["threads"] == 1);
    ("Ids per second on one thread, ours and others'".into(), alone.filter_map(bar).collect())
}

/// Appends to a store in a second, and what it could do without us.
pub(super) fn store_picture(name: &str, rows: &[Value]) -> Picture {
    let mut bars: Vec<(String, f64)> = Vec::new();
    for row in rows {
        let (Some(what), Some(ours)) = (row["what"].as_str(), row["ours"].as_f64()) else {
            continue;
        };
        let Some(at_once) = what.strip_prefix("appends, ") else { continue };
        let ours = (format!("sardonyx, {at_once}"), ours);
        if !bars.contains(&ours) {
            bars.push(ours);
        }
        if let (Some(beside), Some(raw)) = (row["beside"].as_str(), row["raw"].as_f64()) {
            bars.push((format!("{beside}, {at_once}"), raw));
        }
    }
    (format!("Appends per second to {name}"), bars)
}

/// The same as pictures, in seconds or bytes.
pub(super) fn mesh_pictures(ours: &[Value], theirs: &[Value], millis: &str) -> Vec<Picture> {
    let picture = |(goal, what, mine, others): Both<'_>| {
        let unit = if goal == "G11" { "bytes a second" } else { "seconds" };
        let bars = std::iter::once(("sardonyx".to_owned(), mine)).chain(others).collect();
        (format!("{what}, in {unit}"), bars)
    };
    both(ours, theirs, millis).into_iter().map(picture).collect()
}

/// `218.40 ms` in seconds, `28.57 kB/s` in bytes a second.
fn base(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    in_base(number.parse().ok(), Some(unit))
}

fn in_base(number: Option<f64>, unit: Option<&str>) -> Option<f64> {
    let factor = match unit? {
        "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "kB/s" => 1e3,
        _ => return None,
    };
    Some(number? * factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(ratios: &[Ratio]) -> Vec<(&str, &str, f64)> {
        ratios.iter().map(|it| (it.what.as_str(), it.beside.as_str(), it.ratio)).collect()
    }

    #[test]
    fn generators_are_compared_with_those_who_draw_as_many_at_a_time() {
        let row = |what: &str, threads: u32, rate: f64| json!({"what": what, "threads": threads, "ids_per_second": rate});
        let rows = [
            row("cost: ours, shared handle", 1, 8.0),
            row("cost: ours, shared handle", 2, 1.0),
            row("cost: ours, fill of 1000", 1, 30.0),
            row("cost: other", 1, 2.0),
            row("cost: other", 2, 1.0),
            row("cost: other, next 1000", 1, 10.0),
            row("real clock: ours", 1, 4.0),
            row("real clock: without past credit", 1, 3.0),
        ];
        assert_eq!(
            shown(&ids(&rows)),
            [
                ("ids per second, cost: ours, shared handle", "other", 4.0),
                ("ids per second, cost: ours, fill of 1000", "other, next 1000", 3.0),
            ]
        );
    }

    #[test]
    fn rows_that_are_late_are_compared_with_those_that_went_without_us() {
        let row = |what: &str, millis: f64| json!({"what": what, "measured": millis});
        let rows =
            [row("late by, three tasks, p50", 1.0), row("late by, a bare channel, p50", 0.5)];
        let timely = json!({"p50": 250, "p99": 900});
        let what = "streams: rows are late by, p50";
        assert_eq!(
            shown(&streams(&rows, Some(&timely))),
            [(what, "a bare channel", 2.0), (what, "timely", 4.0)]
        );
        assert_eq!(shown(&streams(&rows, None)), [(what, "a bare channel", 2.0)]);
        assert_eq!(shown(&streams(&[], Some(&timely))), []);
    }

    #[test]
    fn questions_are_compared_with_a_bare_echo() {
        let rows = [
            json!({"goal": "echo", "what": "bare echo of 64 bytes", "p50": "50 µs", "p99": "-"}),
            json!({"goal": "G14", "what": "question and answer of 64 bytes", "p50": "75 µs"}),
        ];
        let what = "mesh: question and answer of 64 bytes, p50";
        assert_eq!(shown(&echo(&rows)), [(what, "a bare echo", 1.5)]);
    }

    #[test]
    fn growth_is_the_last_by_the_first() {
        let line = ("an entry".to_owned(), vec![(10.0, 2.0), (100.0, 3.0), (10_000.0, 6.0)]);
        let grown = growth("The replica", "peers", &[line, ("nothing".to_owned(), Vec::new())]);
        assert_eq!(shown(&grown), [("The replica: an entry, 10k peers", "10 peers", 3.0)]);
    }

    #[test]
    fn pictures_have_what_was_measured_beside_each_other() {
        let id = |what: &str, threads: u32| json!({"what": what, "threads": threads, "ids_per_second": 7.0});
        let rows = [id("cost: ours, fill of 1000", 1), id("cost: other", 1), id("cost: other", 2)];
        let names = |bars: &[(String, f64)]| bars.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(&ids_picture(&rows).1), ["sardonyx, fill of 1000", "other"]);

        let append = |beside: &str| json!({"what": "appends, 1 in flight", "ours": 5.0, "raw": 6.0, "beside": beside});
        let rows = [append("a"), append("b"), json!({"what": "replay", "ours": 1.0})];
        let names = names(&store_picture("a disk", &rows).1);
        assert_eq!(names, ["sardonyx, 1 in flight", "a, 1 in flight", "b, 1 in flight"]);

        let ours = [json!({"goal": "G6", "what": "cold start of 100 members", "p50": "200.00 ms"})];
        let theirs = [
            json!({"engine": "foca", "what": "all started at once, until", "value": 400.0, "unit": "ms"}),
        ];
        let bars = vec![("sardonyx".to_owned(), 0.2), ("foca".to_owned(), 0.4)];
        let title = "cold start of 100 members, in seconds".to_owned();
        assert_eq!(mesh_pictures(&ours, &theirs, "100"), [(title, bars)]);
    }

    #[test]
    fn meshes_are_compared_at_the_same_pace_and_in_the_same_unit() {
        let ours = [
            json!({"goal": "G6", "what": "cold start of 100 members", "p50": "0.20 s"}),
            json!({"goal": "G11", "what": "bytes of the whole cluster", "p50": "30.00 kB/s"}),
        ];
        let theirs = [
            json!({"engine": "foca", "what": "all started at once, until", "value": 400.0, "unit": "ms"}),
            json!({"engine": "foca", "what": "sent by all of them", "value": 15.0, "unit": "kB/s"}),
        ];
        let cold = ("mesh: cold start of 100 members", "foca", 0.5);
        let bytes = ("mesh: bytes of the whole cluster", "foca", 2.0);
        assert_eq!(shown(&mesh(&ours, &theirs, "100")), [cold]);
        assert_eq!(shown(&mesh(&ours, &theirs, "300")), [bytes]);
        assert_eq!(shown(&mesh(&[], &theirs, "100")), []);
    }
}
