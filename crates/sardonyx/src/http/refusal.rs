//! The one form in which a request is refused: a code for programs, what is wrong, what to do.

use std::fmt::Display;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use sardonyx_core::Position;
use sardonyx_peer::job::Complaint;
use serde::Serialize;
use utoipa::ToSchema;

use super::timeline::Gone;

/// Why a request was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct Refusal {
    /// For programs: never changes, unlike the words.
    pub code: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    #[serde(rename = "do")]
    pub advice: String,
    /// Each fault of a job, with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    #[serde(skip)]
    status: StatusCode,
}

/// One thing that is wrong with a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct Fault {
    /// Where: `catalog.read.max-peers`; empty for the whole file.
    pub place: String,
    /// What is wrong there, and what to write instead.
    pub what: String,
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        what: impl Display,
        advice: impl Display,
    ) -> Refusal {
        let (what, advice) = (what.to_string(), advice.to_string());
        Refusal { code, what, advice, faults: Vec::new(), status }
    }

    /// The request says something that makes no sense.
    pub(crate) fn bad(what: impl Display, advice: impl Display) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "bad-request", what, advice)
    }

    /// There is no such thing.
    pub(crate) fn missing(what: impl Display, advice: impl Display) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "not-found", what, advice)
    }

    /// The cluster did not do it, and why.
    pub(crate) fn rejected(at: Position, why: impl Display) -> Refusal {
        let what = format!("rejected at entry {at}: {why}");
        Refusal::new(StatusCode::CONFLICT, "rejected", what, "nothing was changed")
    }

    /// A job that cannot run.
    pub(crate) fn faulty_job(complaints: Vec<Complaint>) -> Refusal {
        let n = complaints.len();
        let what = format!("the job has {n} {}", if n == 1 { "fault" } else { "faults" });
        let faults = complaints.into_iter().map(|it| Fault { place: it.place, what: it.what });
        Refusal {
            faults: faults.collect(),
            ..Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "faulty-job",
                what,
                "mend what stands in `faults` and submit it again; nothing was submitted",
            )
        }
    }

    /// Something is too large.
    pub(crate) fn too_large(what: &str, bytes_max: usize) -> Refusal {
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            format!("{what} has at most {bytes_max} bytes"),
            "send less",
        )
    }
}

impl From<Gone> for Refusal {
    fn from(gone: Gone) -> Refusal {
        let first = gone.first;
        Refusal::new(
            StatusCode::GONE,
            "gone",
            format!("what was before entry {first} is no longer known here"),
            format!("ask for {first} or later"),
        )
    }
}

/// What a person has to change is theirs; the rest passes.
impl From<sardonyx_store::Error> for Refusal {
    fn from(error: sardonyx_store::Error) -> Refusal {
        use sardonyx_store::Error;
        match error {
            Error::TooLarge { what, bytes_max, .. } => Refusal::too_large(what, bytes_max),
            Error::Unavailable(_) | Error::SessionLost(_) => Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                error,
                "try again in a moment; what was acknowledged is not lost",
            ),
            Error::Corrupt(_) | Error::NotConfigured(_) => Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "store",
                error,
                "look at the node's log; a person has to decide",
            ),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}
