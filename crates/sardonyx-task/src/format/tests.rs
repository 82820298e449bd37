//! Formats against serde_json, against each other, and against every cut of their bytes.

use std::{
    io::{self, Read},
    sync::Arc,
};

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{
    blocks::{Blocks, Broken, RECORD_BYTES_MAX, Rows},
    column::Type,
    csv::{self, Csv},
    encode,
    infer::Plan,
    lines::Lines,
    ndjson::Ndjson,
    *,
};

#[test]
fn a_files_name_says_its_format_and_its_packing() {
    for (path, format, packing) in [
        ("a.txt", Some(Format::Lines), Packing::Plain),
        ("a.log.gz", Some(Format::Lines), Packing::Gzip),
        ("x/a.b.NDJSON", Some(Format::Ndjson), Packing::Plain),
        ("a.jsonl.zst", Some(Format::Ndjson), Packing::Zstd),
        ("a.csv", Some(Format::Csv), Packing::Plain),
        ("a.parquet", Some(Format::Parquet), Packing::Plain),
        ("a", None, Packing::Plain),
        ("a.gz", None, Packing::Gzip),
    ] {
        assert_eq!((Format::of_path(path), Packing::of_path(path)), (format, packing), "{path}");
    }
    for format in Format::ALL {
        assert_eq!(Format::parse(format.name()), Ok(format));
    }
    assert!(Format::parse("xml").unwrap_err().contains("lines, ndjson, csv, parquet"));
}

/// A source that gives its bytes in pieces of these sizes, over and over.
struct Pieces {
    bytes: io::Cursor<Vec<u8>>,
    sizes: Vec<usize>,
    turn: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.turn % self.sizes.len()].min(buffer.len());
        self.turn += 1;
        self.bytes.read(&mut buffer[..size])
    }
}

/// Reads all of it in batches, however the bytes come.
fn read_in_pieces(
    bytes: &[u8],
    records: Box<dyn Records>,
    sizes: &[usize],
    rows_max: usize,
) -> Result<Vec<RecordBatch>, Broken> {
    let bytes = io::Cursor::new(bytes.to_vec());
    let source = Pieces { bytes, sizes: sizes.to_vec(), turn: 0 };
    let mut rows = Rows { blocks: Blocks::new(Box::new(source), 0, None), records };
    let mut batches = Vec::new();
    while let Some((batch, _)) = rows.read(rows_max, false)? {
        assert!(batch.num_rows() <= rows_max);
        batches.push(batch);
    }
    Ok(batches)
}

fn texts(batches: &[RecordBatch], column: usize) -> Vec<Option<String>> {
    let columns = batches.iter().map(|batch| batch.column(column).as_string::<i32>());
    columns.flat_map(|column| column.iter().map(|text| text.map(str::to_owned))).collect()
}

fn plan(columns: &[(&str, Type)], is_closed: bool) -> Plan {
    let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    Plan { columns, is_closed }
}

/// Any JSON value, not too deep.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        // Those that serde_json reads back to the last digit.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        any::<String>().prop_map(Value::from),
        select(vec!["", "\"", "\\", "a\"b", "\n", "\u{0}", "😀", "u00001"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((any::<String>(), inner), 0..3)
                .prop_map(|pairs| Value::from(Map::from_iter(pairs))),
        ]
    })
}

/// An object as a writer of its own might write it: keys in any order, some twice, with any white
/// space.
fn written(pairs: &[(&str, Value)], blank: &str) -> String {
    let pairs = pairs.iter().map(|(key, value)| {
        let (key, value) = (serde_json::to_string(key).unwrap(), value.to_string());
        format!("{blank}{key}{blank}:{blank}{value}{blank}")
    });
    format!("{blank}{{{}}}{blank}", pairs.collect::<Vec<_>>().join(","))
}

const KEYS: [&str; 6] = ["a", "b", "ü", "a\"b", "longer key with blanks", ""];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn ndjson_is_what_serde_json_reads(
        records in vec(vec((select(KEYS.to_vec()), value()), 0..6), 0..12),
        blank in select(vec!["", " ", "\t \r"]),
        is_ended in any::<bool>(),
        sizes in vec(1..50_usize, 1..4),
        rows_max in 1..5_usize,
    ) {
        let lines: Vec<String> = records.iter().map(|pairs| written(pairs, blank)).collect();
        let mut text = lines.join("\n");
        if is_ended {
            text.push('\n');
        }
        let wanted = [("a", Type::Text), ("a\"b", Type::Text), ("", Type::Text)];
        let ndjson = Box::new(Ndjson::new(&plan(&wanted, false)));
        let batches = read_in_pieces(text.as_bytes(), ndjson, &sizes, rows_max).unwrap();
        for (number, (name, _)) in wanted.iter().enumerate() {
            let expected: Vec<Option<String>> = lines
                .iter()
                .map(|line| {
                    let record: Map<String, Value> = serde_json::from_str(line).unwrap();
                    match record.get(*name) {
                        None | Some(Value::Null) => None,
                        Some(Value::String(text)) => Some(text.clone()),
                        Some(other) => Some(other.to_string()),
                    }
                })
                .collect();
            prop_assert_eq!(texts(&batches, number), expected);
        }
    }

    #[test]
    fn ndjson_takes_what_serde_json_takes_and_nothing_else(
        pairs in vec((select(KEYS.to_vec()), value()), 0..4),
        blank in select(vec!["", " "]),
        changes in vec((any::<prop::sample::Index>(), 0..3, select(b"{}[]:,\"\\0123.-+eEtrufalsn \t\x01x/".to_vec())), 0..3),
    ) {
        let mut line = written(&pairs, blank).into_bytes();
        for (place, what, byte) in changes {
            let place = place.index(line.len() + 1);
            match what {
                0 if place < line.len() => line[place] = byte,
                1 if place < line.len() => { line.remove(place); }
                _ => line.insert(place, byte),
            }
        }
        prop_assume!(std::str::from_utf8(&line).is_ok());
        let theirs = serde_json::from_slice::<Map<String, Value>>(&line);
        let is_blank = line.iter().all(|byte| b" \t\r\n".contains(byte));
        // A number that is too large for serde_json has the form of one; a half of a pair of
        // surrogates within a list is passed over by it as well.
        let is_about_values = theirs.as_ref().err().map(ToString::to_string)
            .is_some_and(|why| why.contains("out of range") || why.contains("surrogate") || why.contains("hex escape"));
        prop_assume!(!is_blank && !is_about_values);
        let ours = read_in_pieces(
            &line,
            Box::new(Ndjson::new(&plan(&[("a", Type::Text)], false))),
            &[1 << 20],
            10,
        );
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}: {:?}", String::from_utf8_lossy(&line), theirs);
    }

    #[test]
    fn numbers_and_truths_come_back_from_ndjson_and_csv(
        rows in vec((option::of(any::<i64>()), option::of(any::<f64>()), option::of(any::<bool>()), option::of(any::<String>())), 0..20),
        sizes in vec(1..40_usize, 1..4),
        rows_max in 1..7_usize,
    ) {
        let kinds = [("i", Type::Int), ("f", Type::Float), ("b", Type::Bool), ("t", Type::Text)];
        // JSON has no word for what is no number.
        let floats = |is_json: bool| -> Float64Array {
            rows.iter().map(|row| row.1.filter(|f| !is_json || f.is_finite())).collect()
        };
        for format in [Format::Ndjson, Format::Csv] {
            let columns: [ArrayRef; 4] = [
                Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
                Arc::new(floats(format == Format::Ndjson)),
                Arc::new(rows.iter().map(|row| row.2).collect::<BooleanArray>()),
                Arc::new(rows.iter().map(|row| row.3.as_deref()).collect::<StringArray>()),
            ];
            let names = kinds.map(|(name, _)| name);
            let batch = RecordBatch::try_from_iter_with_nullable(
                names.into_iter().zip(columns).map(|(name, column)| (name, column, true)),
            ).unwrap();
            let mut bytes = Vec::new();
            encode::encode(format, &batch, &mut bytes).unwrap();
            let plan = plan(&kinds, true);
            let header: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let records: Box<dyn Records> = match format {
                Format::Ndjson => Box::new(Ndjson::new(&plan)),
                Format::Lines | Format::Csv | Format::Parquet => Box::new(Csv::new(&plan, &header, b',').unwrap()),
            };
            let batches = read_in_pieces(&bytes, records, &sizes, rows_max).unwrap();
            let schema = super::ndjson::schema(&plan.columns);
            let again = arrow::compute::concat_batches(&schema, &batches).unwrap();
            for number in [0, 2, 3] {
                prop_assert_eq!(again.column(number), batch.column(number), "{:?}", format);
            }
            // Not equal to itself where it is no number.
            let bits = |batch: &RecordBatch| -> Vec<Option<u64>> {
                let floats = batch.column(1).as_primitive::<arrow::datatypes::Float64Type>();
                floats.iter().map(|f| f.map(|f| if f.is_nan() { 0 } else { f.to_bits() })).collect()
            };
            prop_assert_eq!(bits(&again), bits(&batch), "{:?}", format);
        }
    }

    #[test]
    fn a_csv_file_is_cut_only_between_records(
        bytes in vec(select(b"aa,\"\"\n\r".to_vec()), 0..60),
        piece in 1..20_u64,
    ) {
        // The ends of records, as the reader finds them, and only while it has no complaint.
        let mut ends = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let Ok(Some((_, end))) = csv::record(&bytes[at..], b',', true) else { break };
            at += end;
            ends.push(at as u64);
        }
        let cuts = csv::cuts(&bytes[..], b',', piece).unwrap();
        let mut last = 0;
        // What comes behind a complaint is never read.
        for cut in cuts.iter().filter(|cut| **cut <= at as u64) {
            prop_assert!(ends.contains(cut), "{cut} is not among {ends:?}");
            prop_assert!(*cut >= last + piece);
            last = *cut;
        }
        if piece == 1 && at == bytes.len() {
            let all: Vec<u64> = ends.iter().copied()
                .filter(|end| bytes[*end as usize - 1] == b'\n').collect();
            prop_assert_eq!(cuts, all);
        }
    }

    #[test]
    fn lines_are_those_of_the_standard_library(
        text in "[a-zü\r\n]{0,60}",
        sizes in vec(1..20_usize, 1..4),
        rows_max in 1..7_usize,
    ) {
        let batches = read_in_pieces(text.as_bytes(), Box::new(Lines::new()), &sizes, rows_max).unwrap();
        let expected: Vec<Option<String>> = text.split_inclusive('\n')
            .map(|line| {
                let line = line.strip_suffix('\n').unwrap_or(line);
                Some(line.strip_suffix('\r').unwrap_or(line).to_owned())
            })
            .collect();
        prop_assert_eq!(texts(&batches, 0), expected);
    }
}

#[test]
fn columns_of_records_with_changing_keys_are_right() {
    let text = "{\"x\":1,\"a\":\"1\"}\n{\"a\":\"2\",\"x\":1}\n{\"a\":\"3\",\"a\":\"4\"}\n{\"a\" : \"5\"}\n{\"\\u0061\":\"6\"}\n{}\n";
    let ndjson = Box::new(Ndjson::new(&plan(&[("a", Type::Text)], false)));
    let batches = read_in_pieces(text.as_bytes(), ndjson, &[7], 100).unwrap();
    let expected = ["1", "2", "4", "5", "6"].map(|text| Some(text.to_owned()));
    assert_eq!(texts(&batches, 0), [&expected[..], &[None]].concat());
}

#[test]
fn any_number_of_different_keys_can_be_passed_over() {
    let lines = (0..10_000).map(|n| format!("{{\"key-{n}\":{n},\"a\":{n}}}\n"));
    let text: String = lines.collect();
    let ndjson = Box::new(Ndjson::new(&plan(&[("a", Type::Int)], false)));
    let batches = read_in_pieces(text.as_bytes(), ndjson, &[100_000], 100_000).unwrap();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 10_000);
}

#[test]
fn a_record_may_have_as_many_bytes_as_the_limit_says_and_no_more() {
    for (n_bytes, is_taken) in [(RECORD_BYTES_MAX - 1, true), (RECORD_BYTES_MAX, false)] {
        let source = io::repeat(b'x').take(n_bytes as u64).chain(&b"\nnext\n"[..]);
        let blocks = Blocks::new(Box::new(source), 0, None);
        let mut rows = Rows { blocks, records: Box::new(Lines::new()) };
        match rows.read(1, false) {
            Ok(Some((batch, position))) => {
                assert!(is_taken);
                assert_eq!(position, n_bytes as u64 + 1);
                assert_eq!(batch.column(0).as_string::<i32>().value(0).len(), n_bytes);
            }
            Err(Broken::Source(0, why)) => {
                assert!(!is_taken);
                assert!(why.to_string().contains("a record of more than 64 MB"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_batch_ends_when_it_has_bytes_enough() {
    let line = "x".repeat(1 << 20) + "\n";
    let text = line.repeat(40);
    let batches =
        read_in_pieces(text.as_bytes(), Box::new(Lines::new()), &[1 << 20], 1000).unwrap();
    let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows, [16, 16, 8]);
}

#[test]
fn nested_columns_are_written_as_json() {
    let list = arrow::array::ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
    ]);
    let record = arrow::array::StructArray::from(vec![(
        Arc::new(arrow::datatypes::Field::new("x", arrow::datatypes::DataType::Utf8, true)),
        Arc::new(StringArray::from(vec![Some("a\"b"), None, Some("c")])) as ArrayRef,
    )]);
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("list", Arc::new(list) as ArrayRef, true),
        ("record", Arc::new(record) as ArrayRef, true),
    ])
    .unwrap();
    let mut bytes = Vec::new();
    encode::encode(Format::Ndjson, &batch, &mut bytes).unwrap();
    let rows: Vec<Value> =
        serde_json::Deserializer::from_slice(&bytes).into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(
        rows,
        [
            json!({"list": [1, null], "record": {"x": "a\"b"}}),
            json!({"list": null, "record": {"x": null}}),
            json!({"list": [], "record": {"x": "c"}}),
        ]
    );
    bytes.clear();
    encode::encode(Format::Csv, &batch, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text.lines().next().unwrap(), r#""[1,null]","{""x"":""a\""b""}""#);
}

#[test]
fn a_columns_name_with_quotes_is_not_taken_for_two_keys() {
    let text = "{\"a\":1,\"b\":2}\n{\"a\\\":1,\\\"b\":3}\n{\"a\":1,\"b\":4}\n";
    let ndjson =
        Box::new(Ndjson::new(&plan(&[("a\":1,\"b", Type::Text), ("b", Type::Text)], false)));
    let batches = read_in_pieces(text.as_bytes(), ndjson, &[1000], 100).unwrap();
    assert_eq!(texts(&batches, 0), [None, Some("3".to_owned()), None]);
    assert_eq!(texts(&batches, 1), [Some("2".to_owned()), None, Some("4".to_owned())]);
}
