//! How fast files are read and written. `SARDONYX_SPEED_MB` says how large they are; without it, a
//! few megabytes, and what is tested is that nothing is lost. With it, rates are printed:
//!
//! `SARDONYX_SPEED_MB=1000 cargo test --release -p sardonyx-task --test it speed -- --nocapture --test-threads 1`

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{array::AsArray, datatypes::Int64Type};
use sardonyx_task::{Input, Terms, input::Read, plugin};
use serde_json::{Value, json};

/// As a pipeline would ask for them.
const ROWS: usize = 16_384;

fn megabytes() -> u64 {
    std::env::var("SARDONYX_SPEED_MB").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

fn made(keys: &Value) -> Arc<dyn Input> {
    let name = keys["plugin"].as_str().unwrap();
    plugin::input(name, &Terms::new("speed", "read", keys)).unwrap().unwrap()
}

/// The CPU time of this process: busy neighbours do not count.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn report(what: &str, bytes: u64, work: impl FnOnce()) {
    let (wall, cpu) = (Instant::now(), cpu_time());
    work();
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
    let rate = bytes as f64 / 1e6 / cpu.max(0.001);
    println!(
        "{what}: {:.0} MB, {cpu:.2} CPU s, {wall:.2} s, {rate:.0} MB/CPU-s",
        bytes as f64 / 1e6
    );
}

/// A number that looks random and follows from `i`.
fn mix(i: u64) -> u64 {
    let z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z ^ (z >> 32)
}

struct Logs {
    path: PathBuf,
    bytes: u64,
    rows: u64,
    sum: i64,
}

/// Log records, with the sum of the bytes of those that went well.
fn logs(directory: &Path) -> Logs {
    let path = directory.join("logs.ndjson");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    let (mut bytes, mut rows, mut sum) = (0_u64, 0_u64, 0_i64);
    let mut line = Vec::new();
    while bytes < megabytes() * 1_000_000 {
        let random = mix(rows);
        let (user, item) = (random % 100_000, (random >> 20) % 5_000);
        let status = if (random >> 40) % 10 < 7 { 200 } else { 404 };
        let size = 100 + (random >> 44) % 99_900;
        line.clear();
        writeln!(
            line,
            r#"{{"ts":{},"user":"u{user:05}","url":"/shop/item/{item}/view?ref=home","status":{status},"bytes":{size}}}"#,
            1_700_000_000_000 + rows
        )
        .unwrap();
        file.write_all(&line).unwrap();
        bytes += line.len() as u64;
        rows += 1;
        sum += if status == 200 { size as i64 } else { 0 };
    }
    file.flush().unwrap();
    Logs { path, bytes, rows, sum }
}

/// Reads everything; calls `see` with each batch.
fn read_all(input: &dyn Input, mut see: impl FnMut(&arrow::array::RecordBatch)) {
    for split in input.splits(None).unwrap().splits {
        let mut reader = input.open(&split, None).unwrap();
        loop {
            match reader.read(ROWS).unwrap() {
                Read::Batch(batch, _) => see(&batch),
                Read::Wait(..) => panic!("a file does not wait"),
                Read::End => break,
            }
        }
    }
}

#[test]
fn speed_of_ndjson() {
    let directory = tempfile::tempdir().unwrap();
    let logs = logs(directory.path());
    let path = logs.path.to_str().unwrap();
    let three = json!({"plugin": "file", "path": path, "columns": ["user", "status", "bytes"]});
    let all = json!({"plugin": "file", "path": path});
    for (what, keys) in [("ndjson, 3 of 5 columns", three), ("ndjson, 5 columns", all)] {
        let input = made(&keys);
        report(what, logs.bytes, || {
            let (mut rows, mut sum) = (0, 0);
            read_all(&*input, |batch| {
                rows += batch.num_rows() as u64;
                let status = batch.column_by_name("status").unwrap().as_primitive::<Int64Type>();
                let bytes = batch.column_by_name("bytes").unwrap().as_primitive::<Int64Type>();
                let pairs = status.values().iter().zip(bytes.values());
                sum += pairs
                    .map(|(status, bytes)| if *status == 200 { *bytes } else { 0 })
                    .sum::<i64>();
            });
            assert_eq!((rows, sum), (logs.rows, logs.sum));
        });
    }
}

#[test]
fn speed_of_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("words.txt");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    let (mut bytes, mut rows) = (0_u64, 0_u64);
    while bytes < megabytes() * 1_000_000 {
        let words = (0..10).map(|word| format!("w{:05}", mix(rows * 10 + word) % 50_000));
        let line = words.collect::<Vec<_>>().join(" ") + "\n";
        file.write_all(line.as_bytes()).unwrap();
        bytes += line.len() as u64;
        rows += 1;
    }
    file.flush().unwrap();
    drop(file);
    let input = made(&json!({"plugin": "file", "path": path.to_str().unwrap()}));
    report("lines", bytes, || {
        let mut seen = 0;
        read_all(&*input, |batch| seen += batch.num_rows() as u64);
        assert_eq!(seen, rows);
    });
}

#[test]
fn speed_of_outputs() {
    let directory = tempfile::tempdir().unwrap();
    let logs = logs(directory.path());
    let input = made(&json!({"plugin": "file", "path": logs.path.to_str().unwrap()}));
    for name in ["out.ndjson", "out.csv", "out.parquet", "out.csv.zst"] {
        let path = directory.path().join(name);
        let path = path.to_str().unwrap();
        let keys = json!({"plugin": "file", "path": path});
        let output = plugin::output("file", &Terms::new("speed", "write", &keys)).unwrap().unwrap();
        report(&format!("reading, and writing {name}"), logs.bytes, || {
            let mut writer = output.open("p").unwrap();
            read_all(&*input, |batch| writer.write(batch).unwrap());
            let mark = writer.prepare(false).unwrap().unwrap();
            writer.committed().unwrap();
            output.finish(&[("p".into(), mark)]).unwrap();
        });
        let again = plugin::input("file", &Terms::new("speed", "again", &keys)).unwrap().unwrap();
        report(&format!("reading {name}"), fs::metadata(path).unwrap().len(), || {
            let mut rows = 0;
            read_all(&*again, |batch| rows += batch.num_rows() as u64);
            assert_eq!(rows, logs.rows);
        });
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn speed_of_generated_rows() {
    let count = megabytes() * 10_000;
    for (what, shape) in [
        ("numbers", json!({"n": "sequence"})),
        ("lines of 10 words", json!({"line": {"words": 10, "vocabulary": 50_000}})),
    ] {
        let input = made(&json!({"plugin": "generate", "count": count, "shape": shape}));
        let (cpu, mut rows) = (cpu_time(), 0);
        read_all(&*input, |batch| rows += batch.num_rows() as u64);
        assert_eq!(rows, count);
        let cpu = (cpu_time() - cpu).as_secs_f64();
        let rate = count as f64 / 1e6 / cpu.max(0.001);
        println!("generated {what}: {count} rows, {cpu:.2} CPU s, {rate:.1} M rows/CPU-s");
    }
}
