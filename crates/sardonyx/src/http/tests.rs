//! The API as clients meet it: over a socket, on a cluster in this process.

mod access;
mod audit;
mod client;
mod fuzz;
mod jobs;
mod limits;
mod past;

use serde_json::Value;
use tokio::net::TcpListener;

use self::client::{Answer, ask};
use super::*;
use crate::{Embedded, Options};

/// A cluster with peers, served.
struct Served {
    cluster: Embedded,
    server: Server,
}

impl Served {
    async fn start(terms: Terms) -> Served {
        let options = Options { peers: 3, threads: Some(1), ..Options::default() };
        let cluster = Embedded::start(options).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = cluster.serve_http(listener, terms).unwrap();
        let mut view = cluster.view();
        view.wait_for(|view| view.replica.n_peers() == 3).await.unwrap();
        let served = Served { cluster, server };
        served.until("/v1/overview", |it| it["peers"] == 3 && it["caught-up"] == true).await;
        served
    }

    async fn get(&self, path: &str) -> Answer {
        ask(self.server.address(), "GET", path, &[], b"").await
    }

    async fn post(&self, path: &str, kind: &str, body: &str) -> Answer {
        ask(self.server.address(), "POST", path, &[("content-type", kind)], body.as_bytes()).await
    }

    /// Asks until it is so.
    async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..600 {
            let answer = self.get(path).await.json();
            if is_so(&answer) {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("never so: {path} says {}", self.get(path).await.text());
    }

    async fn stop(self) {
        self.server.stop().await;
        self.cluster.stop().await.unwrap();
    }
}

/// What clients rely on does not change by accident: `UPDATE=1 cargo test -p sardonyx` writes the file
/// anew, and the difference is read as if somebody else had written it.
fn is_golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{name} has changed; UPDATE=1 writes it, a decision record says why");
}

#[test]
fn the_description_of_the_api_is_as_it_was() {
    let mut document = openapi();
    // A new version alone is no change of the API.
    document["info"]["version"] = "0".into();
    is_golden("http/openapi.json", &format!("{document:#}\n"));
}

/// A job that waits for a cell that nobody fills.
const ENDLESS: &str = r#"
name = "endless"
workflow = [["in", "out"]]
[catalog.in]
type = "input"
plugin = "wait"
cell = "never"
[catalog.out]
type = "output"
plugin = "wait"
for = "1ms"
"#;

/// A job that is over soon.
const SHORT: &str = r#"
name = "short"
workflow = [["in", "out"]]
[catalog.in]
type = "input"
plugin = "wait"
for = "10ms"
[catalog.out]
type = "output"
plugin = "wait"
for = "10ms"
"#;

const TOML: &str = "application/toml";
const JSON: &str = "application/json";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_lets_go_of_the_store_though_browsers_listen() {
    let served = Served::start(Terms::default()).await;
    let address = served.server.address();
    let mut streams = Vec::new();
    for path in ["/v1/events", "/v1/log/follow?from=0"] {
        streams.push(client::open(address, "GET", path, &[], b"").await);
    }
    let began = std::time::Instant::now();
    served.stop().await;
    assert!(began.elapsed() < std::time::Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_tells_browsers_to_keep_out_what_is_not_ours() {
    let served = Served::start(Terms::default()).await;
    for path in ["/", "/assets/app.js", "/v1/overview", "/nothing", "/metrics", "/healthz"] {
        let answer = served.get(path).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"));
        assert!(!policy.contains("unsafe"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    }
    assert_eq!(served.get("/readyz").await.status, 200);
    assert_eq!(served.get("/healthz").await.status, 200);
    let nothing = served.get("/nothing").await;
    assert_eq!((nothing.status, nothing.json()["code"].as_str()), (404, Some("not-found")));
    let wrong = served.post("/v1/peers", JSON, "{}").await;
    assert_eq!((wrong.status, wrong.json()["code"].as_str()), (405, Some("wrong-method")));
    let file = served.get("/assets/app.js").await;
    let tag = file.header("etag").unwrap().to_owned();
    let has = [("if-none-match", tag.as_str())];
    let again = ask(served.server.address(), "GET", "/assets/app.js", &has, b"");
    assert_eq!(again.await.status, 304);
    assert_eq!(served.get("/assets/..%2fapp.js").await.status, 404);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_shown_and_measured() {
    let served = Served::start(Terms::default()).await;
    let overview = served.get("/v1/overview").await.json();
    assert_eq!(overview["one-ring"], true);
    assert_eq!(overview["role"], "admin");
    let peers = served.get("/v1/peers").await.json();
    assert_eq!(peers["peers"].as_array().unwrap().len(), 3);
    let nodes = served.until("/v1/nodes", |it| it["nodes"][0]["members"] == 3).await;
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 1);
    assert_eq!(served.get("/v1/mesh").await.status, 404);
    assert_eq!(served.get("/v1/ids").await.json()["workers"].as_array().unwrap().len(), 0);
    let metrics = served.get("/metrics").await.text();
    assert!(metrics.contains("\nsardonyx_peers 3\n"), "{metrics}");
    assert!(metrics.contains("sardonyx_jobs{state=\"running\"} 0\n"));
    let families: Vec<_> = metrics.lines().filter(|line| line.starts_with('#')).collect();
    is_golden("http/metrics.txt", &format!("{}\n", families.join("\n")));
    let document = served.get("/v1/openapi.json").await.json();
    assert_eq!(document, openapi());
    served.stop().await;
}
