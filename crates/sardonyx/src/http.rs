//! The HTTP API and the dashboard.
//!
//! ```text
//!   log ──► View (plays it, remembers it) ──► endpoints ──► JSON, events, the dashboard
//!                                              ▲
//!   meters, queues, mesh of this node ─────────┘      every request ──► guard (one rule each)
//! ```
//!
//! [`serve`] is the way in. A server takes part in nothing: it reads the log by a subscription of
//! its own and appends what clients ask for. Which endpoints there are, who may use them and how
//! they are described stands in one table (`routes.rs`); requests are let through in one place
//! (`guard.rs`); every refusal has one form (`refusal.rs`).
//!
//! Not here: what is allowed of a job (`sardonyx_peer::job`), and what a cluster is.

mod access;
mod asked;
mod assets;
pub mod audit;
mod cluster;
mod events;
mod figures;
mod guard;
mod health;
mod jobs;
mod jobs_write;
mod log;
mod login;
mod metrics;
mod openapi;
mod operate;
mod past;
mod refusal;
mod routes;
mod server;
mod site;
mod timeline;
mod view;

pub use access::{Role, SESSION_MAX, SESSIONS_MAX, TOKEN_BYTES_MAX, TOKENS_MAX, Token, Tokens};
pub use asked::BODY_MAX;
pub use cluster::PEERS_PAGE_MAX;
pub use events::{STREAM_SECONDS_MAX, STREAMS_MAX};
pub use jobs::{JOBS_PAGE_MAX, WAIT_MAX};
pub use log::LOG_PAGE_MAX;
pub use refusal::{Fault, Refusal};
pub use routes::BODY_BYTES_MAX;
pub use server::{CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_MAX, Server, Tls, serve_router};
pub(crate) use site::Site;
pub use site::{About, Terms};
pub use timeline::{KEPT_MAX, PAST_MIB};

use tokio::net::TcpListener;

/// Serves the cluster that `about` names until the server is dropped or stopped. Whoever closes the
/// store afterwards stops it first: it holds the store open.
pub fn serve(listener: TcpListener, about: About, terms: Terms) -> Result<Server, String> {
    let address = listener.local_addr().map_err(|why| why.to_string())?;
    terms.check(address)?;
    let tls = terms.tls.clone();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let site = Site::new(about, terms, address, stopped);
    let mut server = Server::start(listener, tls, routes::router(&site), stop)?;
    server.spawn(events::tell(site));
    Ok(server)
}

/// The description of the API, as it is served.
pub fn openapi() -> serde_json::Value {
    openapi::describe()
}

#[cfg(test)]
mod tests;
