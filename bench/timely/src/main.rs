//! `bench-timely map N` and `bench-timely words FILE`: what Sardonyx' jobs of these names do, on timely
//! dataflow with one worker. Prints what it counted, so that a fast wrong answer is noticed.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

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
        _ => {
            eprintln!("bench-timely map N | words FILE");
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
