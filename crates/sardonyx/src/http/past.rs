//! The cluster as it was, and the difference of two of them.

use axum::{Json, extract::State};
use sardonyx_core::{Position, wire};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Site, asked::Asked, refusal::Refusal};

/// The cluster as a value.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplicaShown {
    /// The position of the last entry that is part of it.
    position: Option<u64>,
    /// The oldest position that can be asked for; none: from before the first entry.
    first: Option<u64>,
    /// The newest.
    last: Option<u64>,
    /// The cluster, as `sardonyx replica --json` prints it.
    #[schema(value_type = Object)]
    replica: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AtAsked {
    at: Option<u64>,
}

pub(crate) async fn replica(
    State(site): State<Site>,
    Asked(asked): Asked<AtAsked>,
) -> Result<Json<ReplicaShown>, Refusal> {
    let head = site.view().head();
    let (position, replica) = match asked.at {
        None => (head.position, head.replica),
        Some(at) => site.view().past(Position(at)).await?,
    };
    Ok(Json(ReplicaShown {
        position: position.map(|it| it.0),
        first: head.first.map(|it| it.0),
        last: head.position.map(|it| it.0),
        replica: raw(wire::replica_to_json(&replica)),
    }))
}

/// What changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DiffShown {
    /// The position before.
    from: u64,
    /// The position after.
    to: u64,
    /// What changed, as `sardonyx diff --json` prints it; what did not is left out.
    #[schema(value_type = Object)]
    diff: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiffAsked {
    from: u64,
    to: u64,
}

pub(crate) async fn diff(
    State(site): State<Site>,
    Asked(DiffAsked { from, to }): Asked<DiffAsked>,
) -> Result<Json<DiffShown>, Refusal> {
    let (_, old) = site.view().past(Position(from)).await?;
    let (_, new) = site.view().past(Position(to)).await?;
    let diff = sardonyx_core::diff(&old, &new);
    let diff = raw(serde_json::to_string(&diff).unwrap_or_default());
    Ok(Json(DiffShown { from, to, diff }))
}

/// JSON that is there already.
pub(super) fn raw(json: String) -> Box<RawValue> {
    RawValue::from_string(json).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
