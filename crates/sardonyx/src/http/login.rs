//! A browser trades its token for a cookie: streams of events cannot carry a token otherwise.

use std::time::Instant;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Site,
    access::{Role, SESSION_MAX, token_name},
    asked::Body,
    guard::{COOKIE, cookie},
    refusal::Refusal,
};

/// A token that is shown.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shown {
    /// As `sardonyx token` printed it.
    #[serde(default)]
    token: String,
}

/// Who somebody is now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LoggedIn {
    role: Role,
}

/// Nobody any more.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LoggedOut {
    /// Always true.
    done: bool,
}

pub(crate) async fn login(State(site): State<Site>, body: Body) -> Result<Response, Refusal> {
    let shown: Shown = body.json()?;
    let Some(tokens) = &site.rules().tokens else {
        return Ok(Json(LoggedIn { role: Role::Admin }).into_response());
    };
    let unknown = |why: String| {
        let advice = "use one that `sardonyx token` has printed";
        Refusal::new(StatusCode::UNAUTHORIZED, "unknown-token", why, advice)
    };
    let role = tokens.role_of(&shown.token);
    let role = role.ok_or_else(|| unknown("this token is not known here".into()))?;
    let name = token_name(&shown.token);
    let session = site.rules().sessions.open(role, &name, Instant::now()).map_err(unknown)?;
    let set = set_cookie(&site, session.reveal(), SESSION_MAX.as_secs());
    Ok(([(header::SET_COOKIE, set)], Json(LoggedIn { role })).into_response())
}

pub(crate) async fn logout(State(site): State<Site>, headers: HeaderMap) -> Response {
    if let Some(cookie) = cookie(&headers) {
        site.rules().sessions.close(cookie);
    }
    let set = set_cookie(&site, "", 0);
    ([(header::SET_COOKIE, set)], Json(LoggedOut { done: true })).into_response()
}

fn set_cookie(site: &Site, value: &str, seconds: u64) -> String {
    let secure = if site.is_tls() { "; Secure" } else { "" };
    format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}
