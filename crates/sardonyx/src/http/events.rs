//! Streams of events: what changes, as it does.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::StatusCode,
    response::{
        IntoResponse as _, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{broadcast, mpsc};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};

use super::{Site, asked::Asked, cluster::JobCounts, past::raw, refusal::Refusal, view::Head};

/// How many streams of events may be open at once.
pub const STREAMS_MAX: usize = 256;

/// How many events wait for a slow listener before whoever makes them waits as well.
const WAITING_MAX: usize = 64;

/// Changes that follow each other closer than this are told as one.
const TOGETHER: Duration = Duration::from_millis(100);

/// How long a stream is silent at most.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The longest that somebody can ask a stream to last; left out, it has no end.
pub const STREAM_SECONDS_MAX: u64 = 3_600;

/// How often rates are told.
const RATES_EVERY: Duration = Duration::from_secs(1);

/// How long a stream is to last. Whoever cannot hang up in the middle asks for an end.
pub(super) fn lasts(seconds: Option<u64>) -> Result<Option<Duration>, Refusal> {
    match seconds {
        Some(n) if !(1..=STREAM_SECONDS_MAX).contains(&n) => Err(Refusal::bad(
            format!("seconds={n} is out of bounds"),
            format!("write 1 to {STREAM_SECONDS_MAX}, or leave it out for a stream without end"),
        )),
        within => Ok(within.map(Duration::from_secs)),
    }
}

/// Opens a stream, if there is room for one, and has `work` feed it until nobody listens, or for as
/// long as was asked for.
pub(super) fn stream<F>(
    site: &Site,
    lasts: Option<Duration>,
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
    let over = async move {
        match lasts {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            () = over => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
        drop(place);
    });
    let events = ReceiverStream::new(events).map(Ok::<_, Infallible>);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsAsked {
    seconds: Option<u64>,
}

pub(crate) async fn events(
    State(site): State<Site>,
    Asked(asked): Asked<EventsAsked>,
) -> Result<Response, Refusal> {
    let lasts = lasts(asked.seconds)?;
    let news = site.news().listen();
    stream(&site.clone(), lasts, move |sender| pass_on(site, news, sender))
}

/// What happens, told once and heard by everybody who listens.
#[derive(Debug)]
pub(crate) struct News(broadcast::Sender<Told>);

/// A kind of event, and its data.
type Told = (&'static str, Arc<str>);

impl Default for News {
    fn default() -> News {
        News(broadcast::channel(WAITING_MAX).0)
    }
}

impl News {
    fn listen(&self) -> broadcast::Receiver<Told> {
        self.0.subscribe()
    }
}

/// Tells every change, and rates in between, for as long as the server runs. What a change is gets
/// computed once, however many listen, and not at all when nobody does.
pub(super) async fn tell(site: Site) {
    let mut stopped = site.stopped();
    tokio::select! {
        () = tell_on(&site) => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}

async fn tell_on(site: &Site) {
    let mut watch = site.view().watch();
    let mut last = watch.borrow_and_update().clone();
    let mut rates = tokio::time::interval(RATES_EVERY);
    loop {
        let told = tokio::select! {
            changed = watch.changed() => {
                if changed.is_err() {
                    return;
                }
                tokio::time::sleep(TOGETHER).await;
                let head = watch.borrow_and_update().clone();
                let before = std::mem::replace(&mut last, head);
                match site.news().0.receiver_count() {
                    0 => continue,
                    _ => ("change", change(&before, &last)),
                }
            }
            _ = rates.tick() => match site.news().0.receiver_count() {
                0 => continue,
                _ => ("rates", speed(site, &last).await),
            },
        };
        // Whoever listened may have gone meanwhile.
        let _ = site.news().0.send((told.0, told.1.into()));
    }
}

fn change(before: &Head, now: &Head) -> String {
    let diff = sardonyx_core::diff(&before.replica, &now.replica);
    let diff = raw(serde_json::to_string(&diff).unwrap_or_default());
    let (from, to) = (before.position.map(|it| it.0), now.position.map(|it| it.0));
    let first = now.first.map(|it| it.0);
    json!({ "from": from, "to": to, "first": first, "diff": diff }).to_string()
}

async fn speed(site: &Site, now: &Head) -> String {
    let (figures, sources) = site.figures().now().await;
    let total = figures.total();
    json!({
        "in-per-second": total.in_per_second, "out-per-second": total.out_per_second,
        "history": total.history, "sources": sources,
        "jobs": JobCounts::of(&now.replica), "peers": now.replica.n_peers(),
    })
    .to_string()
}

/// Says where it begins, then what is told. Whoever was too slow begins again.
async fn pass_on(site: Site, mut news: broadcast::Receiver<Told>, sender: mpsc::Sender<Event>) {
    let mut told = begin(&site);
    loop {
        let event = Event::default().event(told.0).data(&*told.1);
        if sender.send(event).await.is_err() {
            return;
        }
        told = tokio::select! {
            heard = news.recv() => match heard {
                Ok(told) => told,
                Err(broadcast::error::RecvError::Lagged(_)) => begin(&site),
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = sender.closed() => return,
        };
    }
}

fn begin(site: &Site) -> Told {
    let position = site.view().head().position.map(|it| it.0);
    ("begin", json!({ "position": position }).to_string().into())
}
