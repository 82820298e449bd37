//! The log: pages of it, and entries as they come.

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{Response, sse::Event},
};
use sardonyx_core::{Position, wire};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::{
    Site,
    asked::{Asked, limit},
    events,
    past::raw,
    refusal::Refusal,
    timeline::{Gone, Played, Window},
};

/// How many entries a page may have.
pub const LOG_PAGE_MAX: usize = 1_000;

/// How many entries a page has if nobody says how many.
const LOG_PAGE: usize = 100;

/// From how many bytes on a page is full, whatever was asked for: jobs are large.
const LOG_PAGE_BYTES: usize = 4 << 20;

/// A page of the log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page {
    /// The oldest position that can be asked for; none: from before the first entry.
    first: Option<u64>,
    /// The newest position.
    last: Option<u64>,
    /// Entries as `sardonyx log --json` prints them, with `applied`, and `rejected` if it was not.
    #[schema(value_type = Vec<Object>)]
    entries: Vec<Box<RawValue>>,
    /// The position of the first entry on this page: ask with `before` for those before it.
    begins: Option<u64>,
    /// Where the next page begins: ask with `from`. None: this is the end.
    next: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageAsked {
    from: Option<u64>,
    before: Option<u64>,
    limit: Option<u64>,
}

pub(crate) async fn page(
    State(site): State<Site>,
    Asked(asked): Asked<PageAsked>,
) -> Result<Json<Page>, Refusal> {
    let n = limit(asked.limit, LOG_PAGE, LOG_PAGE_MAX)? as u64;
    let (window, is_backwards) = site.view().look(|timeline| {
        let before = |position: u64| match position.checked_sub(1) {
            Some(last) => timeline.seq_after(Position(last)),
            None => 0,
        };
        let (floor, floor_position) = timeline.floor();
        let gone = |at: u64| floor_position.filter(|first| at <= first.0 && at != 0);
        if let Some(first) = asked.from.and_then(gone) {
            return Err(Gone { first: Position(first.0 + 1) });
        }
        Ok(match (asked.from, asked.before) {
            (Some(from), to) => {
                let from = before(from).max(floor);
                let end = to.map_or(u64::MAX, before);
                (timeline.window(from, from.saturating_add(n).min(end)), false)
            }
            (None, Some(to)) => {
                let to = before(to);
                (timeline.window(to.saturating_sub(n), to), true)
            }
            (None, None) => {
                let to = timeline.seq();
                (timeline.window(to.saturating_sub(n), to), true)
            }
        })
    })?;
    let read = site.view().play(window, move |window| collect(window, is_backwards)).await;
    let head = site.view().head();
    let next =
        read.last.map(|last| last.0 + 1).filter(|next| head.position >= Some(Position(*next)));
    Ok(Json(Page {
        first: head.first.map(|it| it.0),
        last: head.position.map(|it| it.0),
        begins: read.begins.map(|it| it.0),
        entries: read.entries,
        next,
    }))
}

#[derive(Default)]
struct Read {
    entries: Vec<Box<RawValue>>,
    begins: Option<Position>,
    last: Option<Position>,
}

/// The entries of a window, as many as fit: the first ones, or the last ones when one reads
/// backwards.
fn collect(window: Window, is_backwards: bool) -> Read {
    let (mut read, mut bytes) = (Vec::new(), 0);
    window.play(|played| {
        let json = as_json(&played);
        bytes += json.get().len();
        read.push((played.position, json));
        while bytes > LOG_PAGE_BYTES && is_backwards && read.len() > 1 {
            bytes -= read.remove(0).1.get().len();
        }
        is_backwards || bytes < LOG_PAGE_BYTES
    });
    let (begins, last) = (read.first().map(|it| it.0), read.last().map(|it| it.0));
    Read { entries: read.into_iter().map(|it| it.1).collect(), begins, last }
}

/// An entry as the log has it, and what became of it.
fn as_json(played: &Played) -> Box<RawValue> {
    let Some((entry, outcome)) = &played.entry else {
        return raw(format!(r#"{{"id":{},"unreadable":true,"applied":false}}"#, played.position));
    };
    let mut json = wire::entry_to_json(entry);
    json.pop();
    match outcome {
        Ok(()) => json.push_str(r#","applied":true}"#),
        Err(why) => {
            let why = serde_json::Value::from(why.to_string());
            json.push_str(&format!(r#","applied":false,"rejected":{why}}}"#));
        }
    }
    raw(json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FollowAsked {
    from: Option<u64>,
    seconds: Option<u64>,
}

pub(crate) async fn follow(
    State(site): State<Site>,
    Asked(asked): Asked<FollowAsked>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let lasts = events::lasts(asked.seconds)?;
    // A browser that comes back says where it was.
    let seen = headers.get("last-event-id").and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let from = seen.map(|seen| seen.saturating_add(1)).or(asked.from);
    let (mut next, floor) = site.view().look(|timeline| {
        let from = from.map(|from| match from.checked_sub(1) {
            Some(last) => timeline.seq_after(Position(last)),
            None => 0,
        });
        (from.unwrap_or(timeline.seq()), timeline.floor())
    });
    if let (Some(from), Some(first)) = (from, floor.1)
        && from <= first.0
        && from != 0
    {
        return Err(Gone { first: Position(first.0 + 1) }.into());
    }
    next = next.max(floor.0);
    events::stream(&site.clone(), lasts, move |sender| send_all(site, next, sender))
}

/// Sends entry after entry until nobody listens.
async fn send_all(site: Site, mut next: u64, sender: mpsc::Sender<Event>) {
    let mut head = site.view().watch();
    loop {
        let (floor, seq) = site.view().look(|it| (it.floor().0, it.seq()));
        if next < floor {
            // What was between is gone: whoever follows has to take the cluster as it is.
            next = floor;
            if sender.send(Event::default().event("origin").data("{}")).await.is_err() {
                return;
            }
        }
        if next >= seq {
            let news = head.wait_for(|head| head.seq > next);
            tokio::select! {
                waited = news => if waited.is_err() { return },
                () = sender.closed() => return,
            }
            continue;
        }
        let window = site.view().look(|it| it.window(next, next + LOG_PAGE as u64));
        let played = move |window: Window| {
            let mut all = Vec::new();
            window.play(|played| {
                all.push((played.seq, played.position, as_json(&played)));
                true
            });
            all
        };
        for (seq, position, json) in site.view().play(window, played).await {
            let event = Event::default().id(position.to_string()).event("entry").data(json.get());
            if sender.send(event).await.is_err() {
                return;
            }
            next = seq + 1;
        }
    }
}
