//! The past over HTTP is what the library computes from the log.

use sardonyx_core::{Replica, wire};

use super::*;

/// The whole log, page by page.
async fn log(served: &Served, limit: usize) -> Vec<Value> {
    let (mut all, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let page = served.get(&format!("/v1/log?from={at}&limit={limit}")).await.json();
        all.extend(page["entries"].as_array().unwrap().clone());
        from = page["next"].as_u64();
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn any_past_cluster_is_what_the_log_says() {
    let served = Served::start(Terms::default()).await;
    served.post("/v1/jobs?id=s", TOML, SHORT).await;
    served.get("/v1/jobs/s/wait").await;
    served.post("/v1/jobs?id=s", TOML, SHORT).await;
    let entries = log(&served, 3).await;
    assert_eq!(entries, log(&served, 1_000).await);
    assert!(entries.len() > 10);
    let rejected: Vec<_> = entries.iter().filter(|it| it["applied"] == false).collect();
    assert!(rejected.iter().any(|it| it["fn"] == "submit-job" && it["rejected"].is_string()));
    let (mut replica, mut before) = (Replica::new(), Replica::new());
    for line in &entries {
        let json = serde_json::json!({"id": line["id"], "fn": line["fn"], "args": line["args"]});
        let entry = wire::entry_from_json(&json.to_string()).unwrap();
        let outcome = replica.play(&entry);
        assert_eq!(outcome.is_ok(), line["applied"] == true);
        let at = entry.position;
        let shown = served.get(&format!("/v1/replica?at={at}")).await.json();
        let expected: Value = serde_json::from_str(&wire::replica_to_json(&replica)).unwrap();
        assert_eq!(shown["replica"], expected, "at {at}");
        let from = at.0.saturating_sub(1);
        let diff = served.get(&format!("/v1/diff?from={from}&to={at}")).await.json();
        let old = if at.0 == 0 { &replica } else { &before };
        let expected = serde_json::to_value(sardonyx_core::diff(old, &replica)).unwrap();
        assert_eq!(diff["diff"], expected, "at {at}");
        before = replica.clone();
    }
    let between = served.get("/v1/log?from=2&before=5").await.json();
    let is_between = |it: &&Value| (2..5).contains(&it["id"].as_u64().unwrap());
    let expected: Vec<_> = entries.iter().filter(is_between).cloned().collect();
    assert_eq!(between["entries"].as_array().unwrap(), &expected);
    let newest = served.get("/v1/log?limit=2").await.json();
    assert_eq!(newest["entries"].as_array().unwrap(), &entries[entries.len() - 2..]);
    let earlier = served.get(&format!("/v1/log?limit=2&before={}", newest["begins"])).await.json();
    assert_eq!(
        earlier["entries"].as_array().unwrap(),
        &entries[entries.len() - 4..entries.len() - 2]
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_after_a_gc_says_what_is_gone() {
    let served = Served::start(Terms::default()).await;
    let collected = served.post("/v1/gc", JSON, "{}").await.json();
    let origin = collected["origin"].as_u64().unwrap();
    // Who was there before still knows.
    assert_eq!(served.get("/v1/replica?at=0").await.status, 200);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let later = served.cluster.serve_http(listener, Terms::default()).unwrap();
    let address = later.address();
    for _ in 0..300 {
        if ask(address, "GET", "/readyz", &[], b"").await.status == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    for path in
        ["/v1/replica?at=0", "/v1/diff?from=0&to=9", "/v1/log?from=1", "/v1/log/follow?from=1"]
    {
        let gone = ask(address, "GET", path, &[], b"").await;
        assert_eq!((gone.status, gone.json()["code"].as_str()), (410, Some("gone")), "{path}");
    }
    let first = ask(address, "GET", &format!("/v1/replica?at={origin}"), &[], b"").await;
    assert_eq!(first.json()["replica"]["peers"].as_array().unwrap().len(), 3);
    later.stop().await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_sees_entries_and_changes_as_they_come() {
    let served = Served::start(Terms::default()).await;
    let address = served.server.address();
    let mut events = client::open(address, "GET", "/v1/events", &[], b"").await;
    client::until(&mut events, "event: begin").await;
    let last = served.get("/v1/overview").await.json()["position"].as_u64().unwrap();
    let mut log = client::open(address, "GET", "/v1/log/follow?from=0", &[], b"").await;
    client::until(&mut log, &format!("id: {last}\n")).await;
    let seen = last.to_string();
    let back = [("last-event-id", seen.as_str())];
    let mut again = client::open(address, "GET", "/v1/log/follow?from=0", &back, b"").await;
    served.post("/v1/jobs?id=s", TOML, SHORT).await;
    let text = client::until(&mut again, "complete-task").await;
    assert!(!text.contains("id: 0\n"), "it goes on where it was");
    client::until(&mut log, "complete-task").await;
    client::until(&mut events, "\"completed\"").await;
    client::until(&mut events, "event: rates").await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_somebody_asked_for_an_end() {
    let served = Served::start(Terms::default()).await;
    let events = served.get("/v1/events?seconds=1").await;
    assert!(events.text().contains("event: begin"), "{}", events.text());
    let log = served.get("/v1/log/follow?from=0&seconds=1").await;
    assert!(log.text().contains("id: 0\n"), "{}", log.text());
    for path in ["/v1/events?seconds=", "/v1/log/follow?seconds="] {
        for wrong in ["0", "3601", "x", "-1"] {
            let refused = served.get(&format!("{path}{wrong}")).await;
            assert_eq!(refused.status, 400, "{path}{wrong}: {}", refused.text());
        }
    }
    served.stop().await;
}
