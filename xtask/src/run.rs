//! Calls to cargo: the steps of `cargo xtask test`, and the long properties.

use std::{
    env,
    ffi::OsString,
    process::{Command, Stdio},
    time::Instant,
};

use crate::tree;

/// A step of `cargo xtask test`: what it is called, and what cargo is told.
type Step = (&'static str, &'static [&'static str]);

/// Cheap steps first: a misplaced comma should not cost the time of all tests.
///
/// The core is checked a second time, alone, because only then is it built as it is shipped:
/// its tests switch on the feature `mutants`, and with it `std`. Without it, a stray `std::` does
/// not compile; that `#![no_std]` is there to make it so is tidy's business, which runs among
/// the tests.
const STEPS: &[Step] = &[
    ("format", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("core without std", &["clippy", "-p", "sardonyx-core", "--lib", "--", "-D", "warnings"]),
    ("tests and tidy", &["test", "--workspace"]),
];

/// Advisories are left out: they need the network, and change without a change here.
const DENY: Step = ("deny", &["deny", "--offline", "check", "bans", "licenses", "sources"]);

/// Runs every step in order, up to the first that fails.
pub(crate) fn test() -> Result<(), String> {
    let started = Instant::now();
    for &step in STEPS {
        timed(step)?;
    }
    fire()?;
    if has_deny() {
        timed(DENY)?;
    } else {
        eprintln!(
            "== deny: SKIPPED, cargo-deny is not installed (`cargo install cargo-deny`); \
             bans, licences and sources are unchecked"
        );
    }
    eprintln!("== all steps passed in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Behind the tests, which build what it runs, and alone: nobody else shall be slow because of it.
fn fire() -> Result<(), String> {
    eprintln!("== fire: half a minute of it");
    let started = Instant::now();
    let again = "to see it alone: cargo xtask fire-short";
    crate::fire::short().map_err(|why| format!("fire failed: {why}; {again}"))?;
    eprintln!("== fire: ok, {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

fn timed((name, args): Step) -> Result<(), String> {
    eprintln!("== {name}: cargo {}", args.join(" "));
    let started = Instant::now();
    let passed = call(cargo().args(args))?;
    let seconds = started.elapsed().as_secs_f64();
    if passed {
        eprintln!("== {name}: ok, {seconds:.1} s");
        Ok(())
    } else {
        let again = args.join(" ");
        Err(format!("{name} failed after {seconds:.1} s; to see it alone: cargo {again}"))
    }
}

/// A property that is worth more time than an ordinary test run gives it; or a module
/// of them, by a name that ends in `::`.
pub(crate) struct Property {
    package: &'static str,
    /// Which of the package's test programs.
    target: &'static str,
    name: &'static str,
    amount_variable: &'static str,
    seed_variable: &'static str,
}

/// Any log, however senseless, keeps the laws.
pub(crate) const FUZZ: Property = Property {
    package: "sardonyx-core",
    target: "it",
    name: "garbage::any_log_keeps_the_laws",
    amount_variable: "FUZZ_ENTRIES",
    seed_variable: "FUZZ_SEED",
};

/// After any storm of joins and deaths the living end in one ring.
pub(crate) const STORM: Property = Property {
    package: "sardonyx-core",
    target: "it",
    name: "storm::the_ring_heals",
    amount_variable: "STORM_RUNS",
    seed_variable: "STORM_SEED",
};

/// Every property of the schedulers, on random clusters.
pub(crate) const SCHEDULE: Property = Property {
    package: "sardonyx-core",
    target: "it",
    name: "schedule::properties::",
    amount_variable: "SCHEDULE_CLUSTERS",
    seed_variable: "SCHEDULE_SEED",
};

/// Whole clusters of real nodes, under every weather.
pub(crate) const SIM: Property = Property {
    package: "sardonyx-sim",
    target: "it",
    name: "storms::every_storm_calms_down",
    amount_variable: "SIM_SEEDS",
    seed_variable: "SIM_SEED",
};

/// The same with one rule after the other switched off, which must be noticed.
pub(crate) const MUTANTS: Property = Property {
    package: "sardonyx-sim",
    target: "it",
    name: "mutants::each_rule_switched_off_is_found",
    amount_variable: "MUTANT_SEEDS",
    seed_variable: "SIM_SEED",
};

/// What joins cost when many start at once.
pub(crate) fn joins() -> Result<(), String> {
    let mut run = proof("run", "sardonyx-sim");
    run.arg("--");
    run.args(["--joins", "10x10", "--joins", "20x50", "--joins", "10x1000"]);
    match call(&mut run)? {
        true => Ok(()),
        false => Err("they do not become one ring; see above".to_owned()),
    }
}

/// Members of a mesh, under every weather.
pub(crate) const MESH_SIM: Property = Property {
    package: "sardonyx-sim",
    target: "mesh",
    name: "storms::every_storm_calms_down",
    amount_variable: "MESH_SEEDS",
    seed_variable: "MESH_SEED",
};

/// Data on its way through tasks, under weather.
pub(crate) const DATA_SIM: Property = Property {
    package: "sardonyx-sim",
    target: "it",
    name: "data::what_reaches_the_outputs_is_what_was_put_in",
    amount_variable: "DATA_SEEDS",
    seed_variable: "DATA_FIRST",
};

/// All interleavings of a small cluster, of the given sizes.
pub(crate) fn model(sizes: &[(&str, u64)]) -> Result<(), String> {
    let mut test = proof("test", "sardonyx-sim");
    test.args(["--test", "it", "--", "--exact", "--nocapture"]);
    test.arg("model::three_members_one_joiner_one_crash");
    test.envs(sizes.iter().map(|(name, size)| (name, size.to_string())));
    match call(&mut test)? {
        true => Ok(()),
        false => Err("the model found a way to break it; see above".to_owned()),
    }
}

/// Optimised, because these are the runs in which a million is a small number. All of them begin
/// here, so that what one has built the next one finds.
pub(crate) fn proof(verb: &str, package: &str) -> Command {
    let mut cargo = cargo();
    cargo.args([verb, "--profile", "proof", "-p", package]);
    cargo
}

impl Property {
    /// Runs the property's test with `amount` of whatever it counts.
    pub(crate) fn run(&self, amount: u64, seed: Option<u64>) -> Result<(), String> {
        self.must_exist()?;
        let mut test = proof("test", self.package);
        test.args(["--test", self.target, "--", self.name, "--nocapture"]);
        if !self.is_module() {
            test.arg("--exact");
        }
        test.env(self.amount_variable, amount.to_string());
        if let Some(seed) = seed {
            test.env(self.seed_variable, seed.to_string());
        }
        let started = Instant::now();
        let passed = call(&mut test)?;
        let seconds = started.elapsed().as_secs_f64();
        if passed {
            eprintln!("== {}: ok, {amount} in {seconds:.1} s", self.name);
            Ok(())
        } else {
            let seed = self.seed_variable;
            Err(format!(
                "{} failed; give the seed above as --seed ({seed}) to repeat it",
                self.name
            ))
        }
    }

    /// Whether the name stands for all tests of a module.
    fn is_module(&self) -> bool {
        self.name.ends_with("::")
    }

    /// A test run in which no test has the name asked for succeeds; after a renaming we would
    /// believe for ever that the property holds.
    fn must_exist(&self) -> Result<(), String> {
        let mut list = proof("test", self.package);
        list.args(["--test", self.target, "--", self.name, "--list"]);
        let output = list
            .stderr(Stdio::inherit())
            .output()
            .map_err(|why| format!("cannot start cargo: {why}"))?;
        if !output.status.success() {
            return Err(format!("the tests of {} do not build", self.package));
        }
        if is_listed(&String::from_utf8_lossy(&output.stdout), self.name) {
            return Ok(());
        }
        Err(format!(
            "{} has no test `{}`; if it was renamed, rename it in xtask/src/run.rs too",
            self.package, self.name
        ))
    }
}

fn is_listed(listing: &str, test: &str) -> bool {
    let mut tests = listing.lines().filter_map(|line| line.strip_suffix(": test"));
    match test.ends_with("::") {
        true => tests.any(|it| it.starts_with(test)),
        false => tests.any(|it| it == test),
    }
}

fn has_deny() -> bool {
    let mut probe = cargo();
    probe.args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// The cargo that runs us, in the root of the workspace, as if a person had called it there.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    cargo.current_dir(tree::root());
    untold(&mut cargo);
    cargo
}

/// Takes away what cargo has told us of ourselves. Crates whose build looks at these names (ring does)
/// would be built anew each time a person's call and one of ours take turns, and with them most of the
/// rest.
pub(crate) fn untold(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_about_us) {
            command.env_remove(name);
        }
    }
}

fn is_about_us(name: &str) -> bool {
    let prefixes =
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

pub(crate) fn call(command: &mut Command) -> Result<bool, String> {
    let status = command.status().map_err(|why| format!("cannot start cargo: {why}"))?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_not_told_who_calls_it() {
        // `cargo test` has told us, so there is something to take away.
        assert!(env::var_os("CARGO_MANIFEST_DIR").is_some());
        let cargo = cargo();
        let taken: Vec<_> = cargo.get_envs().filter(|(_, value)| value.is_none()).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
            assert!(taken.iter().any(|(it, _)| *it == name), "{name} is passed on");
        }
        // Where to build is a person's wish.
        assert!(!is_about_us("CARGO_TARGET_DIR") && !is_about_us("CARGO_HOME"));
    }

    #[test]
    fn a_property_that_is_not_there_is_noticed() {
        let listing = "garbage::any_log_keeps_the_laws: test\n\n1 test, 0 benchmarks\n";
        assert!(is_listed(listing, FUZZ.name));
        assert!(!is_listed(listing, STORM.name));
        assert!(!is_listed("\n0 tests, 0 benchmarks\n", FUZZ.name));
    }
}
