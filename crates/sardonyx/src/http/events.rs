//! Streams of events: what changes, as it does.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    http::StatusCode,
    response::{
        IntoResponse as _, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};

use super::{Site, cluster::JobCounts, past::raw, refusal::Refusal};

/// How many streams of events may be open at once.
pub const STREAMS_MAX: usize = 256;

/// How many events wait for a slow listener before whoever makes them waits as well.
const WAITING_MAX: usize = 64;

/// Changes that follow each other closer than this are told as one.
const TOGETHER: Duration = Duration::from_millis(100);

/// How long a stream is silent at most.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// How often rates are told.
const RATES_EVERY: Duration = Duration::from_secs(1);

/// Opens a stream, if there is room for one, and has `work` feed it until nobody listens.
pub(super) fn stream<F>(
    site: &Site,
    work: impl FnOnce(mpsc::Sender<Event>) -> F,
) -> Result<Response, Refusal>
where
    F: Future<Output = ()> + Send + 'static,
{
    let Ok(place) = site.streams().clone().try_acquire_owned() else {
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too-many-streams",
            format!("there are {STREAMS_MAX} streams of events already"),
            "close some, or try again later",
        ));
    };
    let (sender, events) = mpsc::channel(WAITING_MAX);
    let work = work(sender);
    let mut stopped = site.stopped();
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
        drop(place);
    });
    let events = ReceiverStream::new(events).map(Ok::<_, Infallible>);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

pub(crate) async fn events(State(site): State<Site>) -> Result<Response, Refusal> {
    stream(&site.clone(), move |sender| tell(site, sender))
}

/// Tells where it begins, then every change, and rates in between.
async fn tell(site: Site, sender: mpsc::Sender<Event>) {
    let mut watch = site.view().watch();
    let mut last = watch.borrow_and_update().clone();
    let mut rates = tokio::time::interval(RATES_EVERY);
    let begins = json!({"position": last.position.map(|it| it.0)});
    if sender.send(Event::default().event("begin").data(begins.to_string())).await.is_err() {
        return;
    }
    loop {
        let event = tokio::select! {
            changed = watch.changed() => {
                if changed.is_err() {
                    return;
                }
                tokio::time::sleep(TOGETHER).await;
                let head = watch.borrow_and_update().clone();
                let diff = sardonyx_core::diff(&last.replica, &head.replica);
                let diff = raw(serde_json::to_string(&diff).unwrap_or_default());
                let (from, to) = (last.position.map(|it| it.0), head.position.map(|it| it.0));
                let change = json!({
                    "from": from, "to": to, "first": head.first.map(|it| it.0), "diff": diff,
                });
                last = head;
                Event::default().event("change").data(change.to_string())
            }
            _ = rates.tick() => {
                let rate = site.rates().total();
                let jobs = JobCounts::of(&last.replica);
                let told = json!({
                    "in-per-second": rate.rows_in, "out-per-second": rate.rows_out,
                    "history": rate.history, "jobs": jobs, "peers": last.replica.n_peers(),
                });
                Event::default().event("rates").data(told.to_string())
            }
            () = sender.closed() => return,
        };
        if sender.send(event).await.is_err() {
            return;
        }
    }
}
