//! No id twice, and every one below the mark of its number.

use std::collections::BTreeMap;

/// Ids that follow each other one by one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Run {
    /// The first.
    pub first: u64,
    /// How many.
    pub n: u64,
}

impl Run {
    /// Behind its last; the largest number there is, if it has no sense.
    fn end(&self) -> u64 {
        self.first.saturating_add(self.n)
    }
}

/// Reads what a process wrote down: pairs of eight bytes each. Half a pair is what a kill left.
pub fn runs(bytes: &[u8]) -> Vec<Run> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, it| (sum << 8) | u64::from(*it));
    bytes.chunks_exact(16).map(|it| Run { first: number(&it[..8]), n: number(&it[8..]) }).collect()
}

/// How many ids those are.
pub fn n_in(runs: &[Run]) -> u64 {
    runs.iter().fold(0, |sum, run| sum.saturating_add(run.n))
}

/// What one process drew only grows.
pub fn grows(name: &str, runs: &[Run]) -> Vec<String> {
    let falls = runs.windows(2).filter(|pair| pair[1].first < pair[0].end());
    falls.map(|pair| format!("{name}: {} after {}", pair[1].first, pair[0].first)).collect()
}

/// How many ids there are in all, and which come twice.
pub fn differ(runs: &mut [Run]) -> (u64, Vec<String>) {
    runs.sort_unstable();
    let mut broken = Vec::new();
    // The end so far, because a long run may reach over several.
    let mut end = 0;
    for run in runs.iter() {
        if run.first < end {
            broken.push(format!("{} and up to {} more came before", run.first, end - run.first));
        }
        if run.first.checked_add(run.n).is_none() {
            broken.push(format!("{} and {} more are beyond all numbers", run.first, run.n));
        }
        end = end.max(run.end());
    }
    (n_in(runs), broken)
}

/// The number and the time of an id's last, and what marks there are: times only below them.
pub fn below_marks(
    runs: &[Run],
    decode: impl Fn(u64) -> (u32, u64),
    marks: &BTreeMap<u32, u64>,
) -> Vec<String> {
    let mut broken = Vec::new();
    for run in runs.iter().filter(|run| run.n > 0) {
        let (number, time) = decode(run.end() - 1);
        if marks.get(&number).is_none_or(|mark| time >= *mark) {
            let mark = marks.get(&number);
            broken.push(format!("time {time} of number {number} is not below its mark {mark:?}"));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn run(first: u64, n: u64) -> Run {
        Run { first, n }
    }

    #[test]
    fn written_and_read() {
        let mut bytes = Vec::new();
        for number in [7_u64, 2, 1 << 40, 5] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([1, 2, 3]);
        assert_eq!(runs(&bytes), [run(7, 2), run(1 << 40, 5)]);
    }

    #[test]
    fn an_id_that_comes_twice_is_found() {
        assert_eq!(differ(&mut [run(10, 5), run(15, 5), run(1, 9)]), (19, vec![]));
        let (n, broken) = differ(&mut [run(10, 5), run(14, 1)]);
        assert_eq!((n, broken.len()), (6, 1));
        let (_, broken) = differ(&mut [run(10, 100), run(20, 1), run(50, 1)]);
        assert_eq!(broken.len(), 2, "the long run reaches over both: {broken:?}");
    }

    #[test]
    fn ids_that_cannot_be_are_found() {
        let (n, broken) = differ(&mut [run(u64::MAX, 1), run(7, u64::MAX)]);
        assert_eq!((n, broken.len()), (u64::MAX, 2), "{broken:?}");
    }

    #[test]
    fn a_process_that_goes_back_is_found() {
        assert_eq!(grows("p", &[run(1, 2), run(3, 1)]), [""; 0]);
        assert_eq!(grows("p", &[run(3, 1), run(1, 2)]).len(), 1);
        assert_eq!(grows("p", &[run(3, 5), run(7, 1)]).len(), 1);
    }

    #[test]
    fn an_id_behind_its_mark_is_found() {
        let decode = |id: u64| ((id % 10) as u32, id / 10);
        let marks = BTreeMap::from([(1, 5)]);
        assert_eq!(below_marks(&[run(41, 1)], decode, &marks), [""; 0]);
        assert_eq!(below_marks(&[run(51, 1)], decode, &marks).len(), 1);
        assert_eq!(below_marks(&[run(42, 1)], decode, &marks).len(), 1, "a number without a mark");
    }
}
