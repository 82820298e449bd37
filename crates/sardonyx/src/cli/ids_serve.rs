//! `sardonyx ids serve`: HTTP beside the RESP and raw ports of the ids crate.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

use axum::{
    Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use clap::Args;
use sardonyx_ids::{
    Config, Ids, NoIds, Range,
    lease::Terms,
    service::{Protocol, REQUEST_IDS_MAX, Service, serve},
};
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use super::{
    Failure,
    ids::{At, failure, is_loopback, layout_of},
    open_store,
};

/// Serve ids over HTTP, RESP and raw frames, until this process is stopped.
#[derive(Args)]
pub(super) struct Serve {
    #[command(flatten)]
    at: At,

    /// Where to listen for HTTP: GET /v1/ids?count=N, /healthz, /metrics.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7450")]
    http: SocketAddr,

    /// Where to listen for Redis clients: NEXT, NEXT n, RANGE n.
    #[arg(long, value_name = "HOST:PORT")]
    resp: Option<SocketAddr>,

    /// Where to listen for raw frames.
    #[arg(long, value_name = "HOST:PORT")]
    raw: Option<SocketAddr>,

    /// How many worker numbers to take; each makes up to 4,096,000 ids a second.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,

    /// What to call this process in the store.
    #[arg(long, value_name = "NAME", default_value = "")]
    name: String,

    /// Listen beyond loopback. There is no password: keep the network to those who may draw ids.
    #[arg(long)]
    public: bool,
}

impl Serve {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let addresses = [Some(self.http), self.resp, self.raw];
        if let Some(open) = addresses.iter().flatten().find(|it| !is_loopback(it) && !self.public) {
            return Err(Failure::input(format!("{open} is not loopback: add --public to mean it")));
        }
        let store = open_store(&self.at.store).await?;
        let terms = Terms { name: self.name.clone(), ..Terms::default() };
        let layout = layout_of(&store).await?;
        let config = Config { layout, terms, workers: self.workers.into(), ..Config::default() };
        let ids = Ids::start(&store, config).map_err(|why| failure(&NoIds::BadLayout(why)))?;
        let service = Arc::new(Service::new(Arc::new(ids)));
        let (stop, stopped) = watch::channel(false);
        let mut servers = tokio::task::JoinSet::new();
        for (address, protocol) in [(self.resp, Protocol::Resp), (self.raw, Protocol::Raw)] {
            if let Some(address) = address {
                let listener = listen(address).await?;
                servers.spawn(serve(Arc::clone(&service), listener, protocol, stopped.clone()));
            }
        }
        let listener = listen(self.http).await?;
        writeln!(io::stdout(), "listening on http://{}", listener.local_addr()?)?;
        let app = router(Arc::clone(&service));
        servers.spawn(async move {
            sardonyx::http::serve_router(listener, app, stopped).await;
            Ok(())
        });
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted?,
            _ = terminated.recv() => {}
        }
        stop.send_replace(true);
        while let Some(served) = servers.join_next().await {
            served.map_err(Failure::world)??;
        }
        let whole = Arc::into_inner(service).and_then(Service::into_ids);
        if let Some(ids) = whole {
            ids.leave().await;
        }
        Ok(())
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|why| Failure::world(format!("{address}: {why}")))
}

/// The HTTP side, for tests and benchmarks as well.
pub(super) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/ids", get(ids))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .with_state(service)
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default = "one")]
    count: u64,
}

fn one() -> u64 {
    1
}

async fn ids(
    State(service): State<Arc<Service>>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Response {
    if !(1..=REQUEST_IDS_MAX).contains(&asked.count) {
        let why = format!("count is between 1 and {REQUEST_IDS_MAX}\n");
        return (StatusCode::BAD_REQUEST, why).into_response();
    }
    let mut ranges = Vec::new();
    match service.take(asked.count, &mut ranges).await {
        Ok(()) => {}
        Err(why @ NoIds::RetryAfter(_)) => {
            let head = [(header::RETRY_AFTER, "1")];
            return (StatusCode::TOO_MANY_REQUESTS, head, format!("{why}\n")).into_response();
        }
        Err(why) => return (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
    let wants_text = headers.get(header::ACCEPT).is_some_and(|it| it.as_bytes() == b"text/plain");
    let mut body = String::with_capacity(asked.count as usize * 22 + 12);
    let kind = if wants_text { "text/plain" } else { "application/json" };
    if !wants_text {
        body.push_str("{\"ids\":[");
    }
    for (index, id) in ranges.iter().flat_map(Range::iter).enumerate() {
        // Writing to a string cannot fail. Ids are strings: a JSON number has 53 bits.
        let _ = match (wants_text, index) {
            (true, _) => writeln!(body, "{id}"),
            (false, 0) => write!(body, "\"{id}\""),
            (false, _) => write!(body, ",\"{id}\""),
        };
    }
    if !wants_text {
        body.push_str("]}");
    }
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

async fn health(State(service): State<Arc<Service>>) -> Response {
    match service.ids().status().iter().find(|it| it.worker.is_none()) {
        None => "ready\n".into_response(),
        Some(it) => {
            let why = it.problem.as_ref().map_or_else(String::new, ToString::to_string);
            (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
        }
    }
}

async fn metrics(State(service): State<Arc<Service>>) -> String {
    let counts = service.counts();
    let mut text = String::new();
    let mut counter = |name: &str, value: u64| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE sardonyx_ids_{name} counter\nsardonyx_ids_{name} {value}");
    };
    counter("handed_out_total", counts.ids.load(Ordering::Relaxed));
    counter("requests_total", counts.requests.load(Ordering::Relaxed));
    counter("refused_total", counts.refused.load(Ordering::Relaxed));
    counter("store_calls_total", service.ids().calls());
    let days_left = |now: u64| service.ids().layout().end().saturating_sub(now) / 86_400_000;
    for (index, it) in service.ids().status().iter().enumerate() {
        let number = it.worker.map_or(-1, i64::from);
        let _ = writeln!(
            text,
            "sardonyx_ids_worker_number{{slot=\"{index}\"}} {number}\n\
             sardonyx_ids_window_milliseconds{{slot=\"{index}\"}} {}\n\
             sardonyx_ids_clock_offset_milliseconds{{slot=\"{index}\"}} {}\n\
             sardonyx_ids_days_left{{slot=\"{index}\"}} {}",
            it.until.saturating_sub(it.now),
            it.offset,
            days_left(it.now),
        );
    }
    text
}
