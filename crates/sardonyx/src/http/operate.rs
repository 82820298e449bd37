//! What operators do: collect what is over and trim the log.

use axum::{Json, extract::State};
use sardonyx_peer::Client;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Site, refusal::Refusal};

/// What was collected.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Collected {
    /// Where the log begins now; none: somebody else has just stored a later origin.
    origin: Option<u64>,
    /// How many ended jobs were collected.
    jobs: usize,
}

pub(crate) async fn gc(State(site): State<Site>) -> Result<Json<Collected>, Refusal> {
    // A reader of its own: an origin holds which appends had been read exactly there.
    let mut client = Client::open(&site.about().store).await?;
    let jobs = client.replica().jobs().filter(|job| !job.is_live()).count();
    let origin = client.gc().await?.map(|it| it.0);
    Ok(Json(Collected { origin, jobs }))
}
