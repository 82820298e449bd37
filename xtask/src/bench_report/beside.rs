//! Ratios between rows that different programs, or different parts of one, have printed. Pure.

use serde_json::Value;

use super::page::Ratio;

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

/// Times and bytes of a mesh, ours by theirs, whose rounds are so many milliseconds apart.
pub(super) fn mesh(ours: &[Value], theirs: &[Value], millis: &str) -> Vec<Ratio> {
    let begins =
        |row: &Value, with: &str| row["what"].as_str().is_some_and(|it| it.starts_with(with));
    let mut ratios = Vec::new();
    for (_, goal, mine, other) in MESH.iter().filter(|(pace, ..)| *pace == millis) {
        let mine = ours.iter().find(|row| row["goal"] == *goal && begins(row, mine));
        let Some((mine, what)) =
            mine.and_then(|row| Some((base(row["p50"].as_str()?)?, row["what"].as_str()?)))
        else {
            continue;
        };
        for row in theirs.iter().filter(|row| begins(row, other)) {
            let Some(theirs) = in_base(row["value"].as_f64(), row["unit"].as_str()) else {
                continue;
            };
            let beside = row["engine"].as_str().unwrap_or_default().to_owned();
            ratios.push(Ratio { what: format!("mesh: {what}"), beside, ratio: mine / theirs });
        }
    }
    ratios
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
