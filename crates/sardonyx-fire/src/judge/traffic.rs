//! Whether enough happened. A run in which little happened is void: it shows nothing.

use serde::Serialize;

/// What happened while things went wrong.
#[derive(Clone, PartialEq, Debug, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub struct Traffic {
    /// How long the storm lasted, in seconds.
    pub seconds: f64,
    /// How many nodes and servers were killed.
    pub kills: u64,
    /// How many rows jobs were given.
    pub rows: u64,
    /// How many ids were drawn; those of the calm do not count.
    pub ids: u64,
}

/// What must happen at least for a run to count.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Least {
    /// Kills a minute.
    pub kills_a_minute: f64,
    /// Rows a second.
    pub rows_a_second: f64,
    /// Ids a second.
    pub ids_a_second: f64,
}

/// Fifty million ids in a quarter of an hour.
pub const USUAL: Least =
    Least { kills_a_minute: 12.0, rows_a_second: 5_000.0, ids_a_second: 50e6 / 900.0 };

/// Of an ordinary day less is asked: it is long.
pub const ORDINARY: Least =
    Least { kills_a_minute: 1.0, rows_a_second: 500.0, ids_a_second: USUAL.ids_a_second };

/// Why the run is void; nothing, if it counts.
pub fn judge(traffic: &Traffic, least: &Least) -> Vec<String> {
    let seconds = traffic.seconds.max(1e-3);
    let table = [
        ("kills a minute", traffic.kills as f64 * 60.0 / seconds, least.kills_a_minute),
        ("rows a second", traffic.rows as f64 / seconds, least.rows_a_second),
        ("ids a second", traffic.ids as f64 / seconds, least.ids_a_second),
    ];
    let too_few = table.iter().filter(|(_, is, least)| is < least);
    too_few.map(|(what, is, least)| format!("{is:.1} {what}, at least {least:.1} count")).collect()
}

/// How much of the load that was asked for must have come, in percent: with less the load was not the
/// steady one that sizes are compared under.
pub const PACE_LEAST_PERCENT: u64 = 90;

/// Why the run is void though it had a pace: jobs came too slowly, be it that the machine or the cluster
/// could not keep up.
pub fn judge_pace(n_submitted: u64, n_due: u64) -> Option<String> {
    let least = n_due.saturating_mul(PACE_LEAST_PERCENT).div_ceil(100);
    (n_submitted < least).then(|| {
        format!(
            "{n_submitted} batch jobs of {n_due} that the pace asks for, at least {least} count"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_that_was_not_kept_makes_a_run_void() {
        for (n_due, least) in [(0, 0), (1, 1), (10, 9), (11, 10), (1_800, 1_620)] {
            assert_eq!(judge_pace(least, n_due), None, "{least} of {n_due}");
            assert_eq!(judge_pace(n_due + 1, n_due), None);
            if let Some(too_few) = least.checked_sub(1) {
                assert!(judge_pace(too_few, n_due).is_some(), "{too_few} of {n_due}");
            }
        }
        let why = "1619 batch jobs of 1800 that the pace asks for, at least 1620 count";
        assert_eq!(judge_pace(1_619, 1_800).as_deref(), Some(why));
    }

    #[test]
    fn each_that_is_too_little_makes_a_run_void() {
        let enough = Traffic { seconds: 900.0, kills: 180, rows: 4_500_000, ids: 50_000_001 };
        assert_eq!(judge(&enough, &USUAL), [""; 0]);
        let cases = [
            Traffic { kills: 179, ..enough.clone() },
            Traffic { rows: 4_499_999, ..enough.clone() },
            Traffic { ids: 49_999_000, ..enough.clone() },
        ];
        for case in cases {
            assert_eq!(judge(&case, &USUAL).len(), 1, "{case:?}");
        }
        assert_eq!(judge(&Traffic::default(), &USUAL).len(), 3, "nothing at all");
    }
}
