//! scratch
#![allow(clippy::all, clippy::print_stdout, clippy::unwrap_used, missing_docs)]
use sardonyx_core::mutant::{Mutant, with_mutant};
use sardonyx_sim::World;
use std::collections::BTreeMap;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: u64 = args[1].parse().unwrap();
    let names: Vec<_> = args[2..].to_vec();
    let ms: Vec<Option<Mutant>> = if names.is_empty() {
        vec![None]
    } else if names[0] == "all" {
        Mutant::ALL.iter().map(|m| Some(*m)).collect()
    } else {
        names
            .iter()
            .map(|n| Some(*Mutant::ALL.iter().find(|m| format!("{m:?}") == *n).unwrap()))
            .collect()
    };
    for m in ms {
        let t = std::time::Instant::now();
        let mut seen: BTreeMap<String, (u64, u64, String)> = BTreeMap::new();
        let mut fails = 0;
        let mut ran = 0;
        for seed in 1..=n {
            ran = seed;
            let r = std::panic::catch_unwind(|| with_mutant(m, || World::run(seed)));
            let why = match r {
                Ok(Ok(_)) => continue,
                Ok(Err(f)) => (f.name().to_owned(), f.why),
                Err(_) => ("PANIC".into(), String::new()),
            };
            fails += 1;
            let e = seen.entry(why.0).or_insert((0, seed, why.1));
            e.0 += 1;
            if m.is_some()
                && names.get(1).is_none_or(|_| true)
                && fails >= 1
                && std::env::var("ALLSEEDS").is_err()
            {
                break;
            }
        }
        println!("{m:?}: {fails} fail of {ran}, {:.1}s", t.elapsed().as_secs_f64());
        for (k, (c, s, w)) in seen {
            println!("   {c:>5} x {k} first {s}: {w}");
        }
    }
}
