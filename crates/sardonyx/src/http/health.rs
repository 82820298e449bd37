//! Whether this process can go on, and whether it can answer.

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

use super::Site;

pub(crate) async fn healthy(State(site): State<Site>) -> Response {
    match site.view().head().failed {
        None => "well\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("the log cannot be read: {why}\n"))
            .into_response(),
    }
}

pub(crate) async fn ready(State(site): State<Site>) -> Response {
    let head = site.view().head();
    match head.is_caught_up && head.failed.is_none() {
        true => "ready\n".into_response(),
        false => {
            let at = head.position.map_or("nothing".into(), |at| format!("up to entry {at}"));
            (StatusCode::SERVICE_UNAVAILABLE, format!("still reading the log: {at}\n"))
                .into_response()
        }
    }
}
