//! Every endpoint against every role, from the router's own table; strangers; TLS.

use std::{path::Path, sync::Arc};

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    super::{guard::Rule, routes},
    *,
};

fn tokens() -> (Tokens, Vec<(Role, Token)>) {
    let made: Vec<_> = Role::ALL.map(|role| (role, Token::fresh().unwrap())).into();
    let lines: Vec<_> = made.iter().map(|(role, token)| token.line(*role)).collect();
    (Tokens::parse(&lines.join("\n")).unwrap(), made)
}

/// The status of an answer, however long its body may go on.
async fn status(address: std::net::SocketAddr, verb: &str, path: &str, token: Option<&str>) -> u16 {
    let bearer = format!("Bearer {}", token.unwrap_or_default());
    let headers: &[(&str, &str)] = match token {
        Some(_) => &[("authorization", &bearer), ("content-type", JSON)],
        None => &[("content-type", JSON)],
    };
    let mut stream = client::open(address, &verb.to_uppercase(), path, headers, b"").await;
    let text = client::until(&mut stream, "\r\n\r\n").await;
    Answer::read(text.as_bytes()).status
}

#[tokio::test(flavor = "multi_thread")]
async fn every_endpoint_lets_in_exactly_those_who_may() {
    let (tokens, made) = tokens();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = Embedded::start(Options { peers: 1, ..Options::default() }).await.unwrap();
    let terms = Terms { tokens: Some(tokens), ..Terms::default() };
    let served = Served { server: cluster.serve_http(listener, terms).unwrap(), cluster };
    let address = served.server.address();
    let table = routes::table();
    assert!(table.len() > 20);
    for route in table {
        let path = route.path.replace("{job}", "j").replace("{file}", "app.js");
        let path = if path == "/v1/diff" { "/v1/diff?from=0&to=0".into() } else { path };
        let (verb, what) = (route.verb.name(), format!("{:?} {path}", route.verb));
        let nobody = status(address, verb, &path, None).await;
        let Rule::Role(need) = route.rule else {
            assert_ne!(nobody, 403, "{what}");
            assert!(nobody != 401 || path == "/v1/login", "{what}");
            continue;
        };
        assert_eq!(nobody, 401, "{what} without a token");
        let stranger = Token::fresh().unwrap();
        assert_eq!(status(address, verb, &path, Some(stranger.reveal())).await, 401, "{what}");
        for (role, token) in &made {
            let got = status(address, verb, &path, Some(token.reveal())).await;
            let is_refused = got == 401 || got == 403;
            assert_eq!(is_refused, *role < need, "{what} as {role:?}: {got}");
            assert!(got < 500, "{what} as {role:?}: {got}");
        }
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_trades_its_token_for_a_cookie_that_scripts_cannot_read() {
    let (tokens, made) = tokens();
    let served = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = Embedded::start(Options { peers: 1, ..Options::default() }).await.unwrap();
        let terms = Terms { tokens: Some(tokens), ..Terms::default() };
        Served { server: cluster.serve_http(listener, terms).unwrap(), cluster }
    };
    let address = served.server.address();
    let wrong = served.post("/v1/login", JSON, r#"{"token": "hunter2"}"#).await;
    assert_eq!(wrong.status, 401);
    assert!(!wrong.text().contains("hunter2"));
    let shown = format!(r#"{{"token": "{}"}}"#, made[0].1.reveal());
    let entered = served.post("/v1/login", JSON, &shown).await;
    assert_eq!((entered.status, entered.json()["role"].as_str()), (200, Some("read")));
    let cookie = entered.header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(made[0].1.reveal()), "a session is not the token");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let with = |path: &'static str, verb: &'static str| {
        let cookie = cookie.clone();
        async move { ask(address, verb, path, &[("cookie", &cookie)], b"").await.status }
    };
    assert_eq!(with("/v1/overview", "GET").await, 200);
    assert_eq!(with("/v1/gc", "POST").await, 403);
    assert_eq!(with("/v1/logout", "POST").await, 200);
    assert_eq!(with("/v1/overview", "GET").await, 401);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_others_and_wrong_names_change_nothing() {
    let served = Served::start(Terms::default()).await;
    let address = served.server.address();
    let own = format!("http://{address}");
    let before = served.get("/v1/overview").await.json()["position"].clone();
    for (name, value, status) in [
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("host", "evil.example", 421),
        ("host", "127.0.0.1.evil.example", 421),
    ] {
        let headers = [(name, value), ("content-type", TOML)];
        let answer = ask(address, "POST", "/v1/jobs", &headers, SHORT.as_bytes()).await;
        assert_eq!(answer.status, status, "{name}: {value}");
    }
    // What a form of another site can send without asking.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        assert_eq!(served.post("/v1/jobs", kind, SHORT).await.status, 415, "{kind}");
    }
    assert_eq!(served.get("/v1/overview").await.json()["position"], before);
    let headers = [("origin", own.as_str()), ("content-type", TOML)];
    let answer = ask(address, "POST", "/v1/jobs", &headers, SHORT.as_bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    served.stop().await;
}

fn certificate(dir: &Path) -> (Tls, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let why = Tls::read(&key, &certificate).unwrap_err();
    assert!(why.contains("key.pem"), "{why}");
    (Tls::read(&certificate, &key).unwrap(), made.cert.der().clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_the_same_is_served_and_plain_requests_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let (tls, der) = certificate(dir.path());
    let served = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = Embedded::start(Options { peers: 1, ..Options::default() }).await.unwrap();
        let terms = Terms { tls: Some(tls), ..Terms::default() };
        Served { server: cluster.serve_http(listener, terms).unwrap(), cluster }
    };
    let address = served.server.address();
    assert!(served.server.url().starts_with("https://"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(der).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let request = client::request(address, "GET", "/v1/overview", &[], 0);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A server that ends a connection without a farewell has still answered.
    let _ = stream.read_to_end(&mut bytes).await;
    assert_eq!(Answer::read(&bytes).status, 200);
    let mut plain = client::open(address, "GET", "/v1/overview", &[], b"").await;
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes).await;
    assert!(!bytes.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&bytes));
    served.stop().await;
}
