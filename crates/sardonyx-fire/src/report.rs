//! The verdict: what happened, what was found, and what to do about it.

use std::{fmt, path::PathBuf, process::ExitCode};

use serde::Serialize;

use crate::judge::{Finding, traffic::Traffic};

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verdict {
    /// Its seed.
    pub seed: u64,
    /// Which faults there were, and the mean time between two, in milliseconds.
    pub kinds: Vec<(String, u64)>,
    /// Where everything is written down.
    pub dir: PathBuf,
    /// What happened.
    pub traffic: Traffic,
    /// Why it counts for nothing, if it does.
    pub void: Vec<String>,
    /// How often each thing was done.
    pub counts: Vec<(String, u64)>,
    /// What the judges found.
    pub findings: Vec<Finding>,
}

/// How a run ends for whoever started it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Enough happened, and nothing was broken.
    Well,
    /// Something was broken, however little happened.
    Broken,
    /// Nothing was broken, but too little happened to say so.
    Void,
}

impl Verdict {
    /// How it ends.
    pub fn outcome(&self) -> Outcome {
        let is_well = self.findings.iter().all(Finding::is_well);
        match (is_well, self.void.is_empty()) {
            (false, _) => Outcome::Broken,
            (true, false) => Outcome::Void,
            (true, true) => Outcome::Well,
        }
    }

    /// 0, 1 or 3.
    pub fn code(&self) -> ExitCode {
        match self.outcome() {
            Outcome::Well => ExitCode::SUCCESS,
            Outcome::Broken => ExitCode::from(1),
            Outcome::Void => ExitCode::from(3),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traffic { seconds, kills, rows, ids } = &self.traffic;
        let per_minute = *kills as f64 * 60.0 / seconds;
        let (rows_a_second, ids_a_second) = (*rows as f64 / seconds, *ids as f64 / seconds);
        writeln!(f, "seed {}, {seconds:.0} s of storm", self.seed)?;
        writeln!(f, "  kills  {kills:>12}   {per_minute:.1} a minute")?;
        writeln!(f, "  rows   {rows:>12}   {rows_a_second:.0} a second")?;
        writeln!(f, "  ids    {ids:>12}   {ids_a_second:.0} a second")?;
        for (what, n) in &self.counts {
            writeln!(f, "  {what:<14} {n:>5}")?;
        }
        for finding in &self.findings {
            let mark = if finding.is_well() { "ok    " } else { "BROKEN" };
            writeln!(f, "{mark}  {}: {}", finding.about, finding.seen)?;
            for broken in &finding.broken {
                writeln!(f, "        {broken}")?;
            }
        }
        match self.outcome() {
            Outcome::Well => writeln!(f, "nothing is broken"),
            Outcome::Broken => {
                writeln!(f, "BROKEN; the trace is {}", self.dir.join("trace.jsonl").display())
            }
            Outcome::Void => {
                writeln!(f, "VOID: too little happened to say anything")?;
                self.void.iter().try_for_each(|why| writeln!(f, "        {why}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(broken: &[&str], void: &[&str]) -> Verdict {
        let list = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        Verdict {
            seed: 1,
            kinds: Vec::new(),
            dir: PathBuf::new(),
            traffic: Traffic::default(),
            void: list(void),
            counts: Vec::new(),
            findings: vec![Finding::new("LR", String::new(), list(broken))],
        }
    }

    #[test]
    fn broken_is_worse_than_void_and_void_is_not_well() {
        assert_eq!(verdict(&[], &[]).outcome(), Outcome::Well);
        assert_eq!(verdict(&[], &["little"]).outcome(), Outcome::Void);
        assert_eq!(verdict(&["a law"], &[]).outcome(), Outcome::Broken);
        assert_eq!(verdict(&["a law"], &["little"]).outcome(), Outcome::Broken);
    }
}
