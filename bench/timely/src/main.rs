//! `bench-timely map N`, `bench-timely words FILE` and `bench-timely late RATE SECONDS`: what Sardonyx' jobs of
//! these names do, on timely dataflow with one worker. Prints what it counted, so that a fast wrong answer is
//! noticed.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    time::{Duration, Instant},
};

use timely::{
    dataflow::{
        InputHandle,
        channels::pact::{Exchange, Pipeline},
        operators::{generic::operator::Operator, vec::Map},
    },
};

/// A record whose columns are only known when it runs, as ours are.
#[derive(Clone)]
enum Value {
    Int(u64),
}

type Record = HashMap<String, Value>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["map", n] => map(n.parse().expect("a number of rows")),
        ["words", file] => words(&std::fs::read_to_string(file).expect("a file of lines")),
        ["late", rate, seconds] => late(
            rate.parse().expect("rows per second"),
            seconds.parse().expect("a number of seconds"),
        ),
        _ => {
            eprintln!("bench-timely map N | words FILE | late RATE SECONDS");
            std::process::exit(2);
        }
    }
}

fn map(n: u64) {
    let (count, sum) = timely::execute_directly(move |worker| {
        let seen = Rc::new(RefCell::new((0u64, 0u64)));
        let mut input = InputHandle::new();
        let kept = Rc::clone(&seen);
        worker.dataflow::<u64, _, _>(|scope| {
            let next = |mut record: Record| {
                if let Some(Value::Int(n)) = record.get_mut("n") {
                    *n += 1;
                }
                record
            };
            input.to_stream(scope).map(next).sink(Pipeline, "sum", move |(input, _)| {
                input.for_each_time(|_, batches| {
                    let mut seen = kept.borrow_mut();
                    for record in batches.flat_map(|batch| batch.drain(..)) {
                        let Value::Int(n) = record["n"];
                        *seen = (seen.0 + 1, seen.1.wrapping_add(n));
                    }
                });
            });
        });
        for at in 0..n {
            input.send(Record::from([("n".to_owned(), Value::Int(at))]));
            if at % 1024 == 0 {
                worker.step();
            }
        }
        input.close();
        while worker.step() {}
        let seen = *seen.borrow();
        seen
    });
    println!("{{\"rows\": {count}, \"sum\": {sum}}}");
}

fn hash(word: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}

fn words(text: &str) {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (total, distinct) = timely::execute_directly(move |worker| {
        let counts = Rc::new(RefCell::new(HashMap::<String, u64>::new()));
        let kept = Rc::clone(&counts);
        let mut input = InputHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            let split = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let exchange = Exchange::new(|word: &String| hash(word));
            input.to_stream(scope).flat_map(split).sink(exchange, "count", move |(input, _)| {
                input.for_each_time(|_, batches| {
                    let mut counts = kept.borrow_mut();
                    for word in batches.flat_map(|batch| batch.drain(..)) {
                        *counts.entry(word).or_default() += 1;
                    }
                });
            });
        });
        for (at, line) in lines.into_iter().enumerate() {
            input.send(line);
            if at % 256 == 0 {
                worker.step();
            }
        }
        input.close();
        while worker.step() {}
        let counts = counts.borrow();
        (counts.values().sum::<u64>(), counts.len())
    });
    println!("{{\"rows\": {total}, \"distinct\": {distinct}}}");
}

/// Rows that are due at a rate, through a map; by how much each was late, in microseconds. The first two
/// seconds do not count. The worker sleeps as our input does, a millisecond at a time.
fn late(rate: u64, seconds: u64) {
    let n_rows = rate * (seconds + 2);
    let mut late = timely::execute_directly(move |worker| {
        let begun = Instant::now();
        let seen = Rc::new(RefCell::new(Vec::<u64>::new()));
        let kept = Rc::clone(&seen);
        let mut input = InputHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            let next = |(n, due): (u64, u64)| (n + 1, due);
            input.to_stream(scope).map(next).sink(Pipeline, "late", move |(input, _)| {
                input.for_each_time(|_, batches| {
                    let now = begun.elapsed().as_micros() as u64;
                    for (_, due) in batches.flat_map(|batch| batch.drain(..)) {
                        if due >= 2_000_000 {
                            kept.borrow_mut().push(now.saturating_sub(due));
                        }
                    }
                });
            });
        });
        let mut n_sent = 0;
        while n_sent < n_rows {
            let now = begun.elapsed().as_micros() as u64;
            let n_due = (now * rate / 1_000_000 + 1).min(n_rows);
            for n in n_sent..n_due {
                input.send((n, n * 1_000_000 / rate));
            }
            n_sent = n_due;
            input.advance_to(now + 1);
            worker.step();
            std::thread::sleep(Duration::from_millis(1));
        }
        input.close();
        while worker.step() {}
        seen.take()
    });
    late.sort_unstable();
    let at = |quantile: f64| late[(late.len() as f64 * quantile) as usize];
    println!("{{\"rows\": {}, \"p50\": {}, \"p99\": {}}}", late.len(), at(0.5), at(0.99));
}
