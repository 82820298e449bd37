//! Who did what, over a socket: before it is done, by which token, and with what outcome.

use super::{
    super::audit::{self, Audit},
    *,
};

#[tokio::test(flavor = "multi_thread")]
async fn whoever_changes_something_is_written_down() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let token = Token::fresh().unwrap();
    let line = token.line(Role::Submit);
    let terms = Terms {
        tokens: Some(Tokens::parse(&line).unwrap()),
        audit: Some(Audit::open(&path, "node 1").unwrap()),
        ..Terms::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = Embedded::start(Options { peers: 1, ..Options::default() }).await.unwrap();
    let served = Served { server: cluster.serve_http(listener, terms).unwrap(), cluster };
    let address = served.server.address();
    let bearer = format!("Bearer {}", token.reveal());
    let headers = [("authorization", bearer.as_str()), ("content-type", TOML)];
    let asked = ask(address, "POST", "/v1/jobs", &headers, ENDLESS.as_bytes()).await;
    assert_eq!(asked.status, 200, "{}", asked.text());
    let id = asked.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(ask(address, "POST", "/v1/jobs", &headers, b"name = 3").await.status, 422);
    // What a browser does, which has traded its token for a cookie.
    let shown = format!("{{\"token\":\"{}\"}}", token.reveal());
    let json = [("content-type", JSON)];
    let login = ask(address, "POST", "/v1/login", &json, shown.as_bytes()).await;
    let cookie = login.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let headers = [("cookie", cookie.as_str()), ("content-type", JSON)];
    let kill = format!("/v1/jobs/{id}/kill");
    assert_eq!(ask(address, "POST", &kill, &headers, b"{}").await.status, 200);
    // Looking changes nothing, and who may not ask has not asked.
    assert_eq!(ask(address, "GET", "/v1/jobs", &headers, b"").await.status, 200);
    assert_eq!(ask(address, "POST", "/v1/gc", &headers, b"").await.status, 403);
    assert_eq!(ask(address, "POST", "/v1/gc", &[], b"").await.status, 401);
    served.stop().await;
    let text = std::fs::read_to_string(&path).unwrap();
    let whole = audit::verify(text.as_bytes()).unwrap();
    assert_eq!(whole.lines, 7, "{text}");
    let lines: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let name = &line.split_once(' ').unwrap().1[..12];
    for n in [1, 3, 5] {
        assert_eq!(lines[n]["event"], "asked");
        assert_eq!(lines[n]["who"], format!("submit {name}"));
        assert!(lines[n]["from"].as_str().unwrap().starts_with("127.0.0.1:"));
        assert_eq!(lines[n + 1]["asked"], lines[n]["number"]);
    }
    assert_eq!(lines[1]["what"], "POST /v1/jobs");
    assert_eq!((&lines[2]["status"], &lines[2]["about"]), (&200.into(), &id.as_str().into()));
    assert_eq!(lines[4]["status"], 422);
    assert_eq!(lines[5]["what"], format!("POST {kill}"));
    assert!(!text.contains(token.reveal()) && !text.contains(cookie.split_once('=').unwrap().1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_down_is_not_done() {
    // Every write to it fails, as on a disk that is full.
    let full = std::path::Path::new("/dev/full");
    let audit = Audit::unchecked(full).unwrap();
    let served = Served::start(Terms { audit: Some(audit), ..Terms::default() }).await;
    let refused = served.post("/v1/jobs", TOML, SHORT).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("no-audit")));
    assert_eq!(served.get("/v1/jobs").await.json()["jobs"].as_array().unwrap().len(), 0);
    served.stop().await;
}
