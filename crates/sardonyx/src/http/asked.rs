//! Reading requests, with our own words for what is wrong with them.

use std::time::Duration;

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Query, Request, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use bytes::Bytes;
use sardonyx_core::JobId;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::{refusal::Refusal, routes::BODY_BYTES_MAX};

/// How long the body of a request may take.
pub const BODY_MAX: Duration = Duration::from_secs(10);

/// What a query asks for. Unknown keys are refused.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asked<T>, Refusal> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Asked(asked)),
            Err(why) => {
                let why = why.body_text();
                let why = why.strip_prefix("Failed to deserialize query string: ").unwrap_or(&why);
                let advice = "GET /v1/openapi.json says what this path understands";
                Err(Refusal::bad(format!("the query makes no sense: {why}"), advice))
            }
        }
    }
}

/// The job in a path.
pub(crate) struct InPath(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for InPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<InPath, Refusal> {
        let bad = |why: String| Refusal::bad(format!("this is no job id: {why}"), "GET /v1/jobs");
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|why| bad(why.body_text()))?;
        JobId::new(&text).map(InPath).map_err(|why| bad(why.to_string()))
    }
}

/// A body, and what it says it is: the part of its content type before any parameter.
pub(crate) struct Body {
    pub(crate) kind: Option<String>,
    pub(crate) bytes: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Body, Refusal> {
        let kind = kind(request.headers());
        if announced(request.headers()).is_some_and(|bytes| bytes > BODY_BYTES_MAX as u64) {
            return Err(Refusal::too_large("a body", BODY_BYTES_MAX));
        }
        match timeout(BODY_MAX, Bytes::from_request(request, state)).await {
            Ok(Ok(bytes)) => Ok(Body { kind, bytes }),
            Ok(Err(why)) => Err(unread(&why)),
            Err(_) => Err(Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                "too-slow",
                format!("the body did not come within {} seconds", BODY_MAX.as_secs()),
                "send it again, faster",
            )),
        }
    }
}

/// How large the body says it is.
fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn unread(why: &BytesRejection) -> Refusal {
    match why.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Refusal::too_large("a body", BODY_BYTES_MAX),
        _ => Refusal::bad(why.body_text(), "send the body whole"),
    }
}

fn kind(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(kind.split(';').next()?.trim().to_ascii_lowercase())
}

impl Body {
    /// The body as JSON of this form; an empty one is the default.
    pub(crate) fn json<T: DeserializeOwned + Default>(&self) -> Result<T, Refusal> {
        if self.bytes.is_empty() {
            return Ok(T::default());
        }
        match self.kind.as_deref() {
            Some("application/json") => {}
            other => return Err(wrong_kind(other, "application/json")),
        }
        let senseless = |why: &dyn std::fmt::Display| {
            let advice = "GET /v1/openapi.json says what to send";
            Refusal::bad(format!("the body makes no sense: {why}"), advice)
        };
        // Otherwise a list would pass for an object, its items for the values in their order.
        let body: Value = serde_json::from_slice(&self.bytes).map_err(|why| senseless(&why))?;
        if !body.is_object() {
            return Err(senseless(&"it is no object"));
        }
        serde_json::from_value(body).map_err(|why| senseless(&why))
    }
}

/// Says what should have been sent.
pub(crate) fn wrong_kind(kind: Option<&str>, wanted: &str) -> Refusal {
    let kind = kind.unwrap_or("nothing");
    Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "wrong-content-type",
        format!("the content type is {kind}"),
        format!("send it as {wanted}"),
    )
}

/// How many things a page may have, at least one.
pub(crate) fn limit(asked: Option<u64>, usual: usize, most: usize) -> Result<usize, Refusal> {
    let Some(asked) = asked else { return Ok(usual) };
    match usize::try_from(asked).ok().filter(|n| (1..=most).contains(n)) {
        Some(n) => Ok(n),
        None => Err(Refusal::bad(
            format!("limit={asked} is out of bounds"),
            format!("write a limit between 1 and {most}"),
        )),
    }
}
