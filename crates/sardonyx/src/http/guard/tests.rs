//! Who is let through, as tables.

use std::time::Instant;

use axum::http::HeaderValue;

use super::{super::access::Token, *};

fn asked(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let value = |text: &str| HeaderValue::from_str(text).unwrap();
    pairs.iter().map(|(name, text)| (HeaderName::from_static(name), value(text))).collect()
}

fn now() -> Instant {
    Instant::now()
}

fn code(rules: &Rules, rule: Rule, headers: &[(&'static str, &str)]) -> String {
    match judge(rules, rule, false, &asked(headers), now()) {
        Ok(role) => role.name().to_owned(),
        Err(refusal) => refusal.code.to_owned(),
    }
}

const READ: Rule = Rule::Role(Role::Read);
const HOST: (&str, &str) = ("host", "localhost:7400");

#[test]
fn only_our_own_names_are_answered() {
    let rules = Rules { hosts: vec!["node1.example".into()], ..Rules::default() };
    let host = |host: &str| code(&rules, READ, &[("host", host)]);
    for ours in [
        "localhost",
        "localhost:1",
        "LOCALHOST",
        "127.0.0.1:80",
        "127.9.9.9",
        "[::1]:1",
        "[::1]",
        "node1.example:7400",
        "NODE1.example",
    ] {
        assert_eq!(host(ours), "admin", "{ours}");
    }
    for theirs in [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "xlocalhost",
        "[::2]:1",
        "node2.example",
        "localhost@evil.example",
    ] {
        assert_eq!(host(theirs), "wrong-host", "{theirs}");
    }
    assert_eq!(code(&rules, Rule::Page, &[("host", "evil.example")]), "wrong-host");
    assert_eq!(code(&rules, Rule::Anyone, &[("host", "10.0.0.1")]), "read");
}

#[test]
fn pages_of_other_sites_get_nothing() {
    let rules = Rules::default();
    let origin = |it: &str| code(&rules, READ, &[HOST, ("origin", it)]);
    assert_eq!(origin("http://localhost:7400"), "admin");
    assert_eq!(origin("https://LOCALHOST:7400"), "admin");
    for foreign in [
        "http://localhost:7401",
        "http://evil.example",
        "null",
        "",
        "localhost:7400",
        "file://localhost:7400",
        "http://localhost:7400.evil.example",
    ] {
        assert_eq!(origin(foreign), "other-site", "{foreign}");
    }
    for (site, expected) in [
        ("same-origin", "admin"),
        ("none", "admin"),
        ("cross-site", "other-site"),
        ("same-site", "other-site"),
    ] {
        let headers = [HOST, ("sec-fetch-site", site)];
        assert_eq!(code(&rules, READ, &headers), expected, "{site}");
    }
    // Nor may they log anybody in.
    let refused = judge(&rules, Rule::Page, true, &asked(&[HOST, ("origin", "null")]), now());
    assert_eq!(refused.unwrap_err().code, "other-site");
    // A link from elsewhere may lead here: the page shows nothing by itself.
    let linked = [HOST, ("sec-fetch-site", "cross-site")];
    assert_eq!(code(&rules, Rule::Page, &linked), "read");
}

#[test]
fn without_a_token_nobody_may_do_anything_where_there_are_tokens() {
    let token = Token::fresh().unwrap();
    let tokens = super::super::access::Tokens::parse(&token.line(Role::Submit)).unwrap();
    let rules = Rules { tokens: Some(tokens), ..Rules::default() };
    let with = |rule: Rule, shown: &str| code(&rules, rule, &[HOST, ("authorization", shown)]);
    let bearer = format!("Bearer {}", token.reveal());
    assert_eq!(with(READ, &bearer), "submit");
    assert_eq!(with(Rule::Role(Role::Submit), &bearer), "submit");
    assert_eq!(with(Rule::Role(Role::Admin), &bearer), "not-allowed");
    for wrong in ["Bearer", "Bearer ", "Bearer x", "Basic abc", "", token.reveal()] {
        assert_eq!(with(READ, wrong), "unknown-token", "{wrong}");
    }
    assert_eq!(code(&rules, READ, &[HOST]), "unknown-token");
    let session = rules.sessions.open(Role::Read, "t", Instant::now()).unwrap();
    let cookie = format!("a=b; {COOKIE}={}", session.reveal());
    assert_eq!(code(&rules, READ, &[HOST, ("cookie", &cookie)]), "read");
    let stale = format!("{COOKIE}=nothing");
    assert_eq!(code(&rules, READ, &[HOST, ("cookie", &stale)]), "unknown-token");
    // A token that is shown and wrong is not helped by a cookie.
    let both = [HOST, ("cookie", cookie.as_str()), ("authorization", "Bearer x")];
    assert_eq!(code(&rules, READ, &both), "unknown-token");
}
