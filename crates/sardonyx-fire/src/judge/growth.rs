//! Whether anybody grows who should not: memory, open files, threads, and the log.
//!
//! Memory goes up and down all the time. What counts is the slope of the whole: the median of the
//! slopes between all pairs of samples, which a few peaks do not move.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How large a process was at a time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Size {
    /// Seconds since the first one was taken.
    pub at: f64,
    /// Memory of its own, in bytes: not what it shares with a file.
    pub memory: u64,
    /// Open files.
    pub files: u64,
    /// Threads.
    pub threads: u64,
}

/// Memory may grow by less than this in an hour.
pub const MEMORY_AN_HOUR: f64 = (1 << 20) as f64;

/// Files and threads may not grow by one in an hour.
pub const COUNT_AN_HOUR: f64 = 1.0;

/// So many samples are needed to speak of a slope.
pub const SAMPLES_LEAST: usize = 60;

/// The median of the slopes between all pairs, in units an hour.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let mut slopes = Vec::new();
    for (index, (at, value)) in points.iter().enumerate() {
        let later = points[index + 1..].iter().filter(|(then, _)| then > at);
        slopes.extend(later.map(|(then, other)| (other - value) / (then - at) * 3_600.0));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or(0.0)
}

/// What was seen of each process, and who grows. What is from before `warm` does not count.
pub fn judge(sizes: &BTreeMap<String, Vec<Size>>, warm: f64) -> (String, Vec<String>) {
    let (mut seen, mut broken) = (Vec::new(), Vec::new());
    for (who, sizes) in sizes {
        let sizes: Vec<_> = sizes.iter().filter(|size| size.at >= warm).collect();
        if sizes.len() < SAMPLES_LEAST {
            broken.push(format!("{who}: {} samples say nothing", sizes.len()));
            continue;
        }
        let of = |value: fn(&Size) -> u64| {
            let points: Vec<_> = sizes.iter().map(|size| (size.at, value(size) as f64)).collect();
            slope(&points)
        };
        let memory = of(|size| size.memory);
        let last = sizes.last().map_or(0, |size| size.memory);
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        seen.push(format!("{who} {:.0} MiB {:+.2}/h", mib(last as f64), mib(memory)));
        if memory >= MEMORY_AN_HOUR {
            broken.push(format!("{who}: memory grows by {:.2} MiB an hour", mib(memory)));
        }
        for (what, slope) in
            [("open files", of(|size| size.files)), ("threads", of(|size| size.threads))]
        {
            if slope >= COUNT_AN_HOUR {
                broken.push(format!("{who}: {slope:.1} more {what} an hour"));
            }
        }
    }
    if sizes.is_empty() {
        broken.push("nobody was looked at".into());
    }
    (seen.join(", "), broken)
}

/// How long the log was, time after time, beside the length at which it is to be trimmed: it may be so
/// long once more while somebody trims it.
pub fn judge_log(lengths: &[u64], trim_after: u64) -> (String, Vec<String>) {
    let (most, max) = (lengths.iter().copied().max().unwrap_or(0), 2 * trim_after);
    let n_trims = lengths.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let mut broken = Vec::new();
    if most > max {
        broken.push(format!("the log had {most} entries, {max} are the most"));
    }
    if n_trims == 0 {
        broken.push("the log was never seen to become shorter".into());
    }
    (format!("at most {most} entries, trimmed at least {n_trims} times"), broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample every ten seconds for an hour: a saw of some megabytes, and what is added.
    fn sizes(added: impl Fn(f64) -> (f64, u64, u64)) -> BTreeMap<String, Vec<Size>> {
        let size = |n: u32| {
            let at = f64::from(n) * 10.0;
            let (memory, files, threads) = added(at);
            let saw = f64::from(n * 7 % 13) * 300_000.0;
            Size { at, memory: (3e7 + saw + memory) as u64, files, threads }
        };
        BTreeMap::from([("node0".to_owned(), (0..360).map(size).collect())])
    }

    fn broken(added: impl Fn(f64) -> (f64, u64, u64)) -> Vec<String> {
        judge(&sizes(added), 900.0).1
    }

    #[test]
    fn what_goes_up_and_down_does_not_grow() {
        assert_eq!(broken(|_| (0.0, 20, 4)), [""; 0]);
        let peaks = |at: f64| if at as u64 % 600 < 60 { 5e7 } else { 0.0 };
        assert_eq!(broken(|at| (peaks(at), 20 + at as u64 % 3, 4)), [""; 0]);
        let before = |at: f64| if at < 900.0 { at * 1e5 } else { 9e7 };
        assert_eq!(broken(|at| (before(at), 20, 4)), [""; 0], "only while it warms up");
    }

    #[test]
    fn each_that_grows_is_found() {
        let an_hour = |at: f64| at / 3_600.0;
        assert_eq!(broken(|at| (an_hour(at) * 0.9 * MEMORY_AN_HOUR, 20, 4)), [""; 0]);
        assert_eq!(broken(|at| (an_hour(at) * 1.3 * MEMORY_AN_HOUR, 20, 4)).len(), 1);
        assert_eq!(broken(|at| (0.0, 20 + (an_hour(at) * 40.0) as u64, 4)).len(), 1);
        assert_eq!(broken(|at| (0.0, 20, 4 + (an_hour(at) * 40.0) as u64)).len(), 1);
    }

    #[test]
    fn too_little_is_not_well() {
        assert_eq!(judge(&BTreeMap::new(), 0.0).1.len(), 1);
        let few = BTreeMap::from([("node0".to_owned(), Vec::new())]);
        assert_eq!(judge(&few, 0.0).1.len(), 1);
    }

    #[test]
    fn a_log_that_is_not_trimmed_is_found() {
        assert_eq!(judge_log(&[10, 900, 40, 1_900, 30], 1_000).1, [""; 0]);
        assert_eq!(judge_log(&[10, 900, 40, 2_001, 30], 1_000).1.len(), 1);
        assert_eq!(judge_log(&[10, 20, 30], 1_000).1.len(), 1);
        assert_eq!(judge_log(&[], 1_000).1.len(), 1);
    }
}
