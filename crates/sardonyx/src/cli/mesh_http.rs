//! What a node of the mesh answers over HTTP, on its own machine.
//!
//! A page in a browser on the same machine must not be able to give orders: who names another host,
//! or comes from a page, is refused.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use sardonyx_mesh::{Address, Mesh, events::SendError};
use sardonyx_peer::Nodes;
use serde::Deserialize;
use serde_json::{Value, json};

/// How long a question may wait for its answer.
const ASK_PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn router(mesh: Arc<Mesh>) -> Router {
    routes(mesh).layer(axum::middleware::from_fn(only_from_here))
}

/// The same for a node of the engine, which also knows what the others run.
pub(super) fn router_with_nodes(mesh: Arc<Mesh>, nodes: Nodes) -> Router {
    let list = Router::new().route("/v1/nodes", get(list)).with_state(nodes);
    routes(mesh).merge(list).layer(axum::middleware::from_fn(only_from_here))
}

async fn list(State(nodes): State<Nodes>) -> Json<Value> {
    Json(json!({ "nodes": nodes.list() }))
}

fn routes(mesh: Arc<Mesh>) -> Router {
    Router::new()
        .route("/v1/mesh", get(status))
        .route("/v1/mesh/leave", post(leave))
        .route("/v1/mesh/transfer", post(transfer))
        .route("/v1/mesh/send", post(send))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .with_state(mesh)
}

async fn only_from_here(
    headers: HeaderMap,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> Response {
    let host = headers.get(header::HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_loopback =
        name.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    let is_here = is_loopback || name == "localhost";
    match is_here && !headers.contains_key(header::ORIGIN) {
        true => next.run(request).await,
        false => {
            (StatusCode::FORBIDDEN, "not from a page, and not by another name\n").into_response()
        }
    }
}

async fn status(State(mesh): State<Arc<Mesh>>) -> Json<Value> {
    let report = mesh.status().await;
    let mut value = sardonyx::shown::mesh(&report);
    value["now-micros"] = json!(Mesh::now().0);
    let counts = mesh.counts().all();
    value["counts"] = counts.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect();
    let connected = mesh.connected();
    value["connected"] =
        connected.iter().map(|(to, mine)| json!({ "to": to, "dialled": mine })).collect();
    Json(value)
}

async fn leave(State(mesh): State<Arc<Mesh>>) -> Response {
    match mesh.leave().await {
        Ok(()) => Json(json!({ "left": true })).into_response(),
        Err(why) => (StatusCode::CONFLICT, why).into_response(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Heir {
    to: Address,
}

async fn transfer(State(mesh): State<Arc<Mesh>>, Json(heir): Json<Heir>) -> Response {
    match mesh.transfer_leadership(heir.to.clone()).await {
        Ok(()) => Json(json!({ "asked": heir.to })).into_response(),
        Err(why) => (StatusCode::CONFLICT, why).into_response(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    to: Option<Address>,
    kind: String,
    body: String,
    #[serde(default)]
    ask: bool,
}

async fn send(State(mesh): State<Arc<Mesh>>, Json(said): Json<Said>) -> Response {
    let body = Bytes::from(said.body);
    let refuse = |why: &SendError| {
        let code = match why {
            SendError::TooLarge { .. } | SendError::Unwritable(_) | SendError::NotMember(_) => {
                StatusCode::BAD_REQUEST
            }
            SendError::NotActive(_) | SendError::QueueFull(_) | SendError::Stopped => {
                StatusCode::CONFLICT
            }
        };
        (code, why.to_string()).into_response()
    };
    match said.to {
        Some(to) if said.ask => match mesh.ask_raw(&to, &said.kind, body, ASK_PATIENCE).await {
            Ok(answer) => {
                let answer = String::from_utf8_lossy(&answer);
                Json(json!({ "answer": answer })).into_response()
            }
            Err(sardonyx_mesh::events::AskError::NotSent(why)) => refuse(&why),
            Err(why) => (StatusCode::GATEWAY_TIMEOUT, why.to_string()).into_response(),
        },
        Some(to) => match mesh.whisper_raw(&to, &said.kind, body) {
            Ok(()) => Json(json!({ "sent": { to.to_string(): null } })).into_response(),
            Err(why) => refuse(&why),
        },
        None => {
            let report = mesh.roar_raw(&said.kind, &body, true);
            let sent: serde_json::Map<String, Value> = report
                .iter()
                .map(|(to, sent)| {
                    (to.to_string(), json!(sent.as_ref().err().map(ToString::to_string)))
                })
                .collect();
            Json(json!({ "sent": sent })).into_response()
        }
    }
}

async fn health(State(mesh): State<Arc<Mesh>>) -> Response {
    match mesh.leader() {
        Some(_) => "a leader is known\n".into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "no leader is known\n").into_response(),
    }
}

async fn metrics(State(mesh): State<Arc<Mesh>>) -> String {
    let mut text = String::new();
    for (name, n) in mesh.counts().all() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE sardonyx_mesh_{name}_total counter");
        let _ = writeln!(text, "sardonyx_mesh_{name}_total {n}");
    }
    let view = mesh.members();
    let gauges = [
        ("members", view.members.len() as u64),
        ("version", view.version.0),
        ("leads", u64::from(mesh.fencing_token().is_some())),
    ];
    for (name, n) in gauges {
        let _ = writeln!(text, "# TYPE sardonyx_mesh_{name} gauge\nsardonyx_mesh_{name} {n}");
    }
    text
}
