//! Jobs, said: submitting and killing.

use axum::{Extension, Json, extract::State, http::StatusCode};
use sardonyx_core::{Command, JobId, command::KillJob};
use sardonyx_peer::job::{AnyNames, Complaint, Job, Language, Names, RegisteredNames};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Site,
    asked::{Asked, Body, InPath, wrong_kind},
    audit::Note,
    jobs::missing,
    refusal::Refusal,
    view::Said,
};

/// The longest reason for killing a job.
const REASON_BYTES_MAX: usize = 4 << 10;

/// A job that was taken, or only checked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Submitted {
    /// Its id; none if it was only checked.
    id: Option<String>,
    /// What its author calls it.
    name: String,
    /// Its tasks in topological order.
    tasks: Vec<String>,
    /// Where it stands in the log.
    position: Option<u64>,
    /// Whether it was applied; unknown if it was not read back in time: look at it then.
    applied: Option<bool>,
}

/// Something that was appended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Appended {
    /// Where it stands in the log.
    position: u64,
    /// Whether it was applied; unknown if it was not read back in time.
    applied: Option<bool>,
}

/// Why a job is killed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    /// For whoever reads the log.
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SubmitAsked {
    id: Option<String>,
    #[serde(default)]
    check: bool,
    #[serde(default)]
    any_names: bool,
}

pub(crate) async fn submit(
    State(site): State<Site>,
    Asked(asked): Asked<SubmitAsked>,
    note: Option<Extension<Note>>,
    body: Body,
) -> Result<Json<Submitted>, Refusal> {
    let language = match body.kind.as_deref() {
        Some("application/toml" | "text/toml" | "text/x-toml") => Language::Toml,
        Some("application/json") => Language::Json,
        other => return Err(wrong_kind(other, "application/toml or application/json")),
    };
    let text = std::str::from_utf8(&body.bytes);
    let text = text.map_err(|_| Refusal::bad("the job is no text", "send it in UTF-8"))?;
    let job = read(&site, text.to_owned(), language, asked.any_names).await?;
    let tasks = job.tasks().iter().map(ToString::to_string).collect();
    let name = job.name().to_owned();
    if asked.check {
        return Ok(Json(Submitted { id: None, name, tasks, position: None, applied: None }));
    }
    let id = match asked.id {
        Some(id) => id,
        None => format!("{name}-{}", sardonyx_peer::fresh_name()?),
    };
    let bad = |why| Refusal::bad(format!("this is no job id: {why}"), "give it another id");
    let id = JobId::new(&id).map_err(bad)?;
    if let Some(Extension(note)) = note {
        note.set(&id.to_string());
    }
    let appended = say(&site, &job.submit(id.clone()).into()).await?;
    let (position, applied) = (Some(appended.position), appended.applied);
    Ok(Json(Submitted { id: Some(id.to_string()), name, tasks, position, applied }))
}

/// Reads and checks a job. Checking may look at many keys: not where requests are waiting.
async fn read(
    site: &Site,
    text: String,
    language: Language,
    any_names: bool,
) -> Result<Job, Refusal> {
    let registered = RegisteredNames::new(site.about().registry.clone());
    let work = move || {
        let names: &dyn Names = if any_names { &AnyNames } else { &registered };
        Job::read(&text, language, names)
            .map_err(|complaints| on_one_line(&text, language, complaints))
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(read) => read.map_err(Refusal::faulty_job),
        Err(why) => {
            tracing::error!(%why, "a job could not be checked");
            let what = "the job could not be checked";
            let advice = "this is a fault of ours: please tell us, with the job";
            Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "faulty-job", what, advice))
        }
    }
}

/// `curl -d` takes the line ends out of a file, and what is left is no TOML.
fn on_one_line(text: &str, language: Language, mut complaints: Vec<Complaint>) -> Vec<Complaint> {
    let is_one_line = matches!(language, Language::Toml) && !text.contains('\n');
    if let Some(first) = complaints.first_mut().filter(|it| is_one_line && it.place.is_empty()) {
        let advice = "it came as a single line: send the file as it is, curl --data-binary @FILE";
        first.what = format!("{}; {advice}", first.what.trim_end());
    }
    complaints
}

pub(crate) async fn kill(
    State(site): State<Site>,
    InPath(job): InPath,
    body: Body,
) -> Result<Json<Appended>, Refusal> {
    let Reason { reason } = body.json()?;
    if reason.len() > REASON_BYTES_MAX {
        return Err(Refusal::too_large("a reason", REASON_BYTES_MAX));
    }
    let replica = site.view().head().replica;
    if replica.job(&job).is_none() && replica.outcome(&job).is_none() {
        return Err(missing(&job));
    }
    say(&site, &KillJob { job, reason }.into()).await.map(Json)
}

/// Appends a command, and says what became of it.
async fn say(site: &Site, command: &Command) -> Result<Appended, Refusal> {
    let Said { position, outcome } = site.view().say(command).await?;
    match outcome {
        Some(Err(why)) => Err(Refusal::rejected(position, why)),
        Some(Ok(())) => Ok(Appended { position: position.0, applied: Some(true) }),
        None => Ok(Appended { position: position.0, applied: None }),
    }
}
