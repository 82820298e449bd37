//! Traces reach a collector: a real node, a real job, a collector that keeps what it is sent.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::{
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
    trace_service_server::{TraceService, TraceServiceServer},
};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

/// The names of all spans, with their attributes.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(String, String)>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans;
        let scopes = resources.into_iter().flat_map(|resource| resource.scope_spans);
        let spans = scopes.flat_map(|scope| scope.spans);
        let spans = spans.map(|span| (span.name, format!("{:?}", span.attributes)));
        self.0.lock().unwrap().extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn has(&self, name: &str, attribute: &str) -> bool {
        let spans = self.0.lock().unwrap();
        spans.iter().any(|(it, attributes)| it == name && attributes.contains(attribute))
    }
}

const JOB: &str = r#"
name = "traced"
workflow = [["make", "drop"]]
[catalog.make]
type = "input"
plugin = "generate"
count = 1000
[catalog.drop]
type = "output"
plugin = "null"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_commits_reach_a_collector() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let collector = Collector::default();
    let service = TraceServiceServer::new(collector.clone());
    let incoming = TcpIncoming::from(listener);
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
    let dir = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", dir.path().join("store").display());
    std::fs::write(dir.path().join("job.toml"), JOB).unwrap();
    let program = env!("CARGO_BIN_EXE_sardonyx");
    let mut node = Command::new(program);
    node.args(["start", "--peers", "4", "--store", &store, "--otlp", &url, "--json"]);
    node.args(["--listen", "127.0.0.1:0"]).current_dir(dir.path()).stdout(Stdio::piped());
    let mut node = node.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(node.stdout.take().unwrap()));
    let first: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let served = first["serves"].as_str().unwrap().to_owned();
    let mut submit = Command::new(program);
    submit.args(["submit", "job.toml", "--id", "traced-1", "--store", &served]);
    assert!(submit.current_dir(dir.path()).status().unwrap().success());
    let wanted = [("session", "traced-1"), ("session", "\"drop\""), ("commit", "rows")];
    let begun = std::time::Instant::now();
    while !wanted.iter().all(|(name, attribute)| collector.has(name, attribute)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", collector.0.lock().unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    node.kill().unwrap();
    node.wait().unwrap();
}

#[test]
fn an_address_that_is_none_is_refused() {
    let mut node = Command::new(env!("CARGO_BIN_EXE_sardonyx"));
    let ran = node.args(["start", "--store", "memory:", "--otlp", "collector:4317"]).output();
    let ran = ran.unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("write http://127.0.0.1:4317"));
}
