//! What stands before every endpoint: is this host ours, does another site's page ask, and may
//! whoever asks do this.
//!
//! [`judge`] decides, on what the request says of itself; nothing else lets a request through.

use axum::{
    http::{HeaderMap, HeaderName, Method, StatusCode, header},
    response::IntoResponse as _,
};

use super::{
    access::{Role, Sessions, Tokens, token_name},
    audit,
    refusal::Refusal,
};

/// Who may use an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// Anybody, under any name: whether the node is well, which load balancers ask.
    Anyone,
    /// Anybody who uses a name of ours: the page itself, which shows nothing of the cluster.
    Page,
    /// Whoever has this role, or more.
    Role(Role),
}

/// The cookie of a browser that has logged in.
pub(crate) const COOKIE: &str = "sardonyx-session";

/// By what requests are judged.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The names by which we are known, besides those of this machine itself.
    pub(crate) hosts: Vec<String>,
    /// `None`: whoever can connect may do anything.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) sessions: Sessions,
}

/// Lets a request through, with the role of whoever asks, or says why not.
pub(crate) fn judge(
    rules: &Rules,
    rule: Rule,
    is_write: bool,
    headers: &HeaderMap,
    now: std::time::Instant,
) -> Result<Role, Refusal> {
    let need = match rule {
        Rule::Anyone => return Ok(Role::Read),
        Rule::Page => None,
        Rule::Role(role) => Some(role),
    };
    let host = text(headers, header::HOST).unwrap_or_default();
    if !is_ours(rules, host) {
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong-host",
            "this server is not known by that name",
            "use the address it listens on, or start it with --http-host NAME",
        ));
    }
    if need.is_some() || is_write {
        refuse_other_sites(headers, host)?;
    }
    let Some(need) = need else { return Ok(Role::Read) };
    let has = role_of(rules, headers, now)?;
    match has >= need {
        true => Ok(has),
        false => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "not-allowed",
            format!("this needs the role {}, and yours is {}", need.name(), has.name()),
            format!("use a token of the role {}", need.name()),
        )),
    }
}

/// A page of another site may use a browser that has access here; it must not get anything.
fn refuse_other_sites(headers: &HeaderMap, host: &str) -> Result<(), Refusal> {
    let foreign = || {
        Refusal::new(
            StatusCode::FORBIDDEN,
            "other-site",
            "this comes from a page of another site",
            "use the dashboard of this server, or a program",
        )
    };
    if let Some(site) = text(headers, HeaderName::from_static("sec-fetch-site"))
        && !matches!(site, "same-origin" | "none")
    {
        return Err(foreign());
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let same = origin.split_once("://").is_some_and(|(scheme, rest)| {
        matches!(scheme, "http" | "https") && rest.eq_ignore_ascii_case(host)
    });
    match same {
        true => Ok(()),
        false => Err(foreign()),
    }
}

fn role_of(rules: &Rules, headers: &HeaderMap, now: std::time::Instant) -> Result<Role, Refusal> {
    let Some(tokens) = &rules.tokens else { return Ok(Role::Admin) };
    let who = |what: &str| {
        Refusal::new(
            StatusCode::UNAUTHORIZED,
            "unknown-token",
            what,
            "send the header `Authorization: Bearer TOKEN`, or log in at /",
        )
    };
    if let Some(shown) = text(headers, header::AUTHORIZATION) {
        let bearer = shown.split_once(' ').filter(|it| it.0.eq_ignore_ascii_case("bearer"));
        let role = bearer.and_then(|(_, token)| tokens.role_of(token.trim()));
        return role.ok_or_else(|| who("this token is not known here"));
    }
    match cookie(headers) {
        Some(cookie) => {
            let role = rules.sessions.role_of(cookie, now);
            role.ok_or_else(|| who("you are no longer logged in"))
        }
        None => Err(who("this needs a token")),
    }
}

/// Who asks, for people: the role, and by which token.
fn name_of(rules: &Rules, role: Role, headers: &HeaderMap) -> String {
    if rules.tokens.is_none() {
        return "anybody: there are no tokens".into();
    }
    let shown = text(headers, header::AUTHORIZATION).and_then(|it| it.split_once(' '));
    let token = match shown {
        Some((_, token)) => Some(token_name(token.trim())),
        None => cookie(headers).and_then(|cookie| rules.sessions.name_of(cookie)),
    };
    format!("{} {}", role.name(), token.unwrap_or_default())
}

/// The session in the cookies, if there is one.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    let mut pairs = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// Whether a Host header names this server.
fn is_ours(rules: &Rules, host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _)) => name,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let is_loopback = name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    let is_listed = || rules.hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
    is_loopback || name.eq_ignore_ascii_case("localhost") || is_listed()
}

fn text(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// What every answer says to browsers: nothing inline, nothing from elsewhere, in no frame.
pub(crate) const ANSWER_HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// The endpoint's rule, before the endpoint.
pub(crate) async fn guard(
    axum::extract::State((site, rule)): axum::extract::State<(super::Site, Rule)>,
    mut request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    let is_write = !matches!(*request.method(), Method::GET | Method::HEAD);
    match judge(site.rules(), rule, is_write, request.headers(), std::time::Instant::now()) {
        Ok(role) => {
            request.extensions_mut().insert(role);
            match site.audit().filter(|_| is_write && matches!(rule, Rule::Role(_))) {
                Some(log) => {
                    let who = name_of(site.rules(), role, request.headers());
                    audit::watched(log, who, request, next).await
                }
                None => next.run(request).await,
            }
        }
        Err(refusal) => refusal.into_response(),
    }
}

#[cfg(test)]
mod tests;
