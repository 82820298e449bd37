//! On a real server.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_nats::jetstream::{Context, stream::Config};
use sardonyx_queue::suite::nats::NatsServers;
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;

use super::{input, output, wait};
use crate::{
    Terms,
    input::Read,
    suite::{self, Guarantee, Target},
};

fn server() -> Arc<NatsServers> {
    wait(async { Ok(Arc::new(NatsServers::start(1).await)) }).unwrap()
}

fn terms(keys: &Value) -> Terms {
    Terms::new("job", "task", keys)
}

async fn context(url: &str) -> Context {
    let (client, _) = sardonyx_queue::nats_client(url, Default::default()).await.unwrap();
    async_nats::jetstream::new(client)
}

/// Makes a stream of all subjects below its name, and fills it.
fn fill(url: &str, name: &str, messages: &[(&str, String)]) {
    let (url, name) = (url.to_owned(), name.to_owned());
    let messages: Vec<_> =
        messages.iter().map(|(subject, text)| ((*subject).to_owned(), text.clone())).collect();
    wait(async move {
        let context = context(&url).await;
        let config = Config { subjects: vec![format!("{name}.>")], name, ..Config::default() };
        context.get_or_create_stream(config).await.unwrap();
        for (subject, text) in messages {
            context.publish(subject, text.into()).await.unwrap().await.unwrap();
        }
        Ok(())
    })
    .unwrap();
}

/// The payloads of a stream.
fn payloads(url: &str) -> Vec<String> {
    let url = url.to_owned();
    wait(async move {
        let place = super::Place { url, subject: None, login: Default::default() };
        let Ok(link) = place.link(None).await else { return Ok(Vec::new()) };
        let consumer = link.from(1, None).await?;
        let n = consumer.cached_info().num_pending as usize;
        let mut messages = consumer.messages().await.unwrap();
        let mut all = Vec::new();
        while all.len() < n {
            let message = messages.next().await.unwrap().unwrap();
            all.push(String::from_utf8(message.payload.to_vec()).unwrap());
        }
        Ok(all)
    })
    .unwrap()
}

#[test]
fn the_input_passes_the_suite() {
    let server = server();
    let url = server.url("ORDERS");
    let messages: Vec<_> = (0..50)
        .map(|n| {
            let subject = if n % 5 == 0 { "ORDERS.other" } else { "ORDERS.new" };
            (subject, json!({"n": n, "who": format!("w{n}")}).to_string())
        })
        .collect();
    fill(&url, "ORDERS", &messages);
    for keys in [
        json!({"url": url}),
        json!({"url": url, "subject": "ORDERS.new"}),
        json!({"url": url, "format": "lines"}),
        json!({"url": url, "columns": ["n"], "schema": {"n": "int"}}),
    ] {
        suite::input(&|| input::input(&terms(&keys))).unwrap();
    }
}

#[test]
fn a_followed_stream_gives_what_comes_and_goes_on_where_it_was() {
    let server = server();
    let url = server.url("LIVE");
    fill(&url, "LIVE", &[("LIVE.a", "{\"n\":1}".into())]);
    let keys = json!({"url": url, "follow": true});
    let made = input::input(&terms(&keys)).unwrap();
    assert!(made.is_endless());
    let splits = made.splits(None).unwrap().splits;
    let tail = splits.last().unwrap();
    let mut reader = made.open(tail, None).unwrap();
    assert!(matches!(reader.read(10), Ok(Read::Wait(..))));
    fill(&url, "LIVE", &[("LIVE.a", "{\"n\":2}".into()), ("LIVE.a", "{\"n\":3}".into())]);
    let mut rows = Vec::new();
    let mut position = None;
    while rows.len() < 2 {
        match reader.read(1).unwrap() {
            Read::Batch(batch, behind) => {
                rows.extend(suite::texts(&batch).unwrap());
                position = Some(behind);
            }
            Read::Wait(..) => std::thread::sleep(std::time::Duration::from_millis(5)),
            Read::End => panic!("it ended"),
        }
    }
    drop(reader);
    fill(&url, "LIVE", &[("LIVE.a", "{\"n\":4}".into())]);
    let mut reader = made.open(tail, position.as_deref()).unwrap();
    loop {
        match reader.read(10).unwrap() {
            Read::Batch(batch, _) => {
                assert_eq!(batch.num_rows(), 1);
                break;
            }
            Read::Wait(..) => std::thread::sleep(std::time::Duration::from_millis(5)),
            Read::End => panic!("it ended"),
        }
    }
}

#[test]
fn the_output_passes_the_suite() {
    let server = server();
    let n_streams = AtomicU64::new(0);
    let mut fresh = || {
        let url = server.url(&format!("OUT{}", n_streams.fetch_add(1, Ordering::Relaxed)));
        let (name, rows_of) = (url.rsplit('/').next().unwrap().to_owned(), url.clone());
        let make = move || {
            let keys = json!({"url": url, "subject": format!("{name}.rows"), "create": true});
            output::output(&terms(&keys))
        };
        Ok(Target { make: Box::new(make), rows: Box::new(move || Ok(payloads(&rows_of))) })
    };
    suite::output(Guarantee::ExactlyOnce, &mut fresh).unwrap();
}

/// A mark from so long ago that the servers no longer know its ids: it is found in the stream.
#[test]
fn what_was_sent_long_ago_is_not_sent_again() {
    let server = server();
    let url = server.url("OLD");
    let keys = json!({"url": url, "subject": "OLD.rows"});
    let window = std::time::Duration::from_millis(200);
    let at = url.clone();
    wait(async move {
        let config = Config {
            name: "OLD".into(),
            subjects: vec!["OLD.>".into()],
            duplicate_window: window,
            ..Config::default()
        };
        context(&at).await.get_or_create_stream(config).await.unwrap();
        Ok(())
    })
    .unwrap();
    let made = output::output(&terms(&keys)).unwrap();
    let column: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1, 2, 3]));
    let batch = arrow::array::RecordBatch::try_from_iter([("n", column)]).unwrap();
    let mut writer = made.open("a").unwrap();
    writer.write(&batch).unwrap();
    let mark = writer.prepare(true).unwrap().unwrap();
    writer.committed().unwrap();
    std::thread::sleep(4 * window);
    made.recover(&[("a".into(), mark.clone())]).unwrap();
    made.finish(&[("a".into(), mark)]).unwrap();
    assert_eq!(payloads(&url).len(), 3);
}

#[test]
fn what_cannot_be_is_said() {
    let server = server();
    let url = server.url("THERE");
    fill(&url, "THERE", &[]);
    let why = |keys: Value| {
        let made = output::output(&terms(&keys));
        made.and_then(|it| it.check()).unwrap_err()
    };
    assert!(why(json!({"url": url})).contains("subject = "));
    assert!(why(json!({"url": url, "subject": "THERE.*"})).contains("without *"));
    assert!(why(json!({"url": url, "subject": "ELSE.x"})).contains("THERE.>"));
    assert!(why(json!({"url": url, "subject": "x", "format": "csv"})).contains("ndjson"));
    let missing = server.url("MISSING");
    assert!(why(json!({"url": missing, "subject": "x"})).contains("create = true"));
    assert!(why(json!({"subject": "x"})).contains("nats://"));
    assert!(why(json!({"url": "memory:", "subject": "x"})).contains("nats://"));
    let empty = input::input(&terms(&json!({"url": url, "follow": true}))).unwrap();
    assert!(empty.splits(None).unwrap_err().contains("schema"));
}
