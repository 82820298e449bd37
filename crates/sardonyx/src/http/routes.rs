//! Every endpoint, with who may use it and what it says of itself.
//!
//! One table makes the router, the rules of access and the description of the API, so that none of
//! them can know an endpoint that the others do not.

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    http::{HeaderName, HeaderValue, StatusCode},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get, post},
};
use serde_json::Value;
use tracing::Instrument as _;
use utoipa::{PartialSchema, ToSchema};

use super::{
    Site,
    access::Role,
    assets, cluster,
    cluster::PEERS_PAGE_MAX,
    events::{self, STREAM_SECONDS_MAX},
    guard::{ANSWER_HEADERS, Rule, guard},
    health, jobs,
    jobs::{JOBS_PAGE_MAX, WAIT_MAX},
    jobs_write, log,
    log::LOG_PAGE_MAX,
    login, metrics, openapi, operate, past,
    refusal::Refusal,
};

/// How many bytes the body of a request may have: a job.
pub const BODY_BYTES_MAX: usize = 256 << 10;

/// Which method an endpoint answers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Get,
    Post,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Post => "post",
        }
    }
}

/// Something in a path or a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// `integer`, `string` or `boolean`.
    pub(crate) kind: &'static str,
    pub(crate) about: &'static str,
    pub(crate) is_required: bool,
    /// The least and the largest number.
    pub(crate) bounds: Option<(u64, u64)>,
}

impl Parameter {
    const fn new(name: &'static str, kind: &'static str, about: &'static str) -> Parameter {
        Parameter { name, kind, about, is_required: false, bounds: None }
    }

    const fn within(self, least: u64, most: u64) -> Parameter {
        Parameter { bounds: Some((least, most)), ..self }
    }

    const fn required(self) -> Parameter {
        Parameter { is_required: true, ..self }
    }
}

/// The shape of a body: its name, its schema, and those that it refers to.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) name: String,
    pub(crate) schemas: Vec<(String, Value)>,
}

impl Shape {
    /// That of a type which is sent.
    pub(crate) fn of<T: ToSchema + PartialSchema>() -> Shape {
        let mut nested = Vec::new();
        T::schemas(&mut nested);
        nested.push((T::name().into_owned(), T::schema()));
        let value = |schema| serde_json::to_value(schema).unwrap_or_default();
        let schemas = nested.into_iter().map(|(name, schema)| (name, value(schema)));
        Shape { name: T::name().into_owned(), schemas: schemas.collect() }
    }
}

/// What comes back when all is well.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Json(Shape),
    /// Of this media type.
    Text(&'static str),
}

/// What may be sent.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    /// A job, in TOML or JSON.
    Job,
    Json(Shape),
}

/// An endpoint.
pub(crate) struct Route {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) rule: Rule,
    pub(crate) about: &'static str,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) sent: Option<Sent>,
    pub(crate) answer: Answer,
    /// What else it may say, beyond what any endpoint may.
    pub(crate) refusals: &'static [u16],
    handler: MethodRouter<Site>,
}

/// Everything that is served.
pub(crate) fn table() -> Vec<Route> {
    let mut all = outside();
    all.extend(about_jobs());
    all.extend(to_jobs());
    all.extend(about_the_cluster());
    all.extend(about_nodes());
    all.extend(about_the_past());
    all
}

const READ: Rule = Rule::Role(Role::Read);
const SUBMIT: Rule = Rule::Role(Role::Submit);
const ADMIN: Rule = Rule::Role(Role::Admin);

const JOB: Parameter = Parameter::new("job", "string", "The job's id.");

/// Where one begins to follow the log.
const FOLLOW_FROM: Parameter =
    Parameter::new("from", "integer", "Begin at this position; left out, with the next entry.");

/// When a stream ends.
const LASTS: Parameter = Parameter::new(
    "seconds",
    "integer",
    "End the stream after so long, 1 to 3600; left out, it goes on.",
)
.within(1, STREAM_SECONDS_MAX);

/// How many things a page may have.
const fn limit(about: &'static str, most: usize) -> Parameter {
    Parameter::new("limit", "integer", about).within(1, most as u64)
}

fn reads(
    path: &'static str,
    rule: Rule,
    about: &'static str,
    answer: Answer,
    handler: MethodRouter<Site>,
) -> Route {
    let (parameters, sent, refusals): (_, _, &[_]) = (Vec::new(), None, &[]);
    Route { verb: Verb::Get, path, rule, about, parameters, sent, answer, refusals, handler }
}

fn writes(
    path: &'static str,
    rule: Rule,
    about: &'static str,
    answer: Answer,
    handler: MethodRouter<Site>,
) -> Route {
    Route { verb: Verb::Post, ..reads(path, rule, about, answer, handler) }
}

fn json<T: ToSchema>() -> Answer {
    Answer::Json(Shape::of::<T>())
}

/// What is not about the cluster: the page, its health, its description.
fn outside() -> Vec<Route> {
    let text = Answer::Text("text/plain");
    let page = Answer::Text("text/html");
    vec![
        reads("/", Rule::Page, "The dashboard.", page, get(assets::index)),
        Route {
            parameters: vec![Parameter::new("file", "string", "Its name.")],
            refusals: &[404],
            ..reads(
                "/assets/{file}",
                Rule::Page,
                "A part of the dashboard.",
                Answer::Text("*/*"),
                get(assets::file),
            )
        },
        Route {
            refusals: &[503],
            ..reads(
                "/healthz",
                Rule::Anyone,
                "Whether this process can go on.",
                text.clone(),
                get(health::healthy),
            )
        },
        Route {
            refusals: &[503],
            ..reads(
                "/readyz",
                Rule::Anyone,
                "Whether it has read the log and can answer.",
                text.clone(),
                get(health::ready),
            )
        },
        reads("/metrics", READ, "Numbers for Prometheus.", text, get(metrics::metrics)),
        reads(
            "/v1/openapi.json",
            Rule::Page,
            "This description.",
            json::<openapi::Document>(),
            get(openapi::document),
        ),
        Route {
            sent: Some(Sent::Json(Shape::of::<login::Shown>())),
            refusals: &[401],
            ..writes(
                "/v1/login",
                Rule::Page,
                "Trade a token for a cookie, as the dashboard does.",
                json::<login::LoggedIn>(),
                post(login::login),
            )
        },
        writes(
            "/v1/logout",
            Rule::Page,
            "Forget the cookie.",
            json::<login::LoggedOut>(),
            post(login::logout),
        ),
    ]
}

fn about_jobs() -> Vec<Route> {
    vec![
        Route {
            parameters: vec![
                Parameter::new("after", "string", "Only those behind the job of this id."),
                limit("How many, 1 to 1000; 1000 if left out.", JOBS_PAGE_MAX),
                Parameter::new("newest", "boolean", "The newest first."),
            ],
            refusals: &[404],
            ..reads(
                "/v1/jobs",
                READ,
                "All jobs, the oldest first.",
                json::<jobs::Jobs>(),
                get(jobs::list),
            )
        },
        Route {
            parameters: vec![JOB],
            refusals: &[404],
            ..reads(
                "/v1/jobs/{job}",
                READ,
                "One job: its tasks, their peers, rates, queues and errors, and why it waits.",
                json::<jobs::JobShown>(),
                get(jobs::one),
            )
        },
        Route {
            parameters: vec![
                JOB,
                Parameter::new(
                    "seconds",
                    "integer",
                    "How long to wait for its end, at most 60; 30 if left out.",
                )
                .within(0, WAIT_MAX.as_secs()),
            ],
            refusals: &[404],
            ..reads(
                "/v1/jobs/{job}/wait",
                READ,
                "Wait until a job is over, or for a while.",
                json::<jobs::JobLine>(),
                get(jobs::wait),
            )
        },
    ]
}

fn to_jobs() -> Vec<Route> {
    vec![
        Route {
            parameters: vec![
                Parameter::new(
                    "id",
                    "string",
                    "The id to give it; left out, its name and a few random letters. \
                            Submitting one id twice runs the job once.",
                ),
                Parameter::new(
                    "check",
                    "boolean",
                    "Say what is wrong with it, and submit nothing.",
                ),
                Parameter::new(
                    "any-names",
                    "boolean",
                    "Take functions and plugins that this node does not have.",
                ),
            ],
            sent: Some(Sent::Job),
            refusals: &[409, 422, 503],
            ..writes(
                "/v1/jobs",
                SUBMIT,
                "Check a job whole and submit it.",
                json::<jobs_write::Submitted>(),
                post(jobs_write::submit),
            )
        },
        Route {
            parameters: vec![JOB],
            sent: Some(Sent::Json(Shape::of::<jobs_write::Reason>())),
            refusals: &[404, 409, 503],
            ..writes(
                "/v1/jobs/{job}/kill",
                SUBMIT,
                "End a job and free its peers.",
                json::<jobs_write::Appended>(),
                post(jobs_write::kill),
            )
        },
    ]
}

fn about_the_cluster() -> Vec<Route> {
    vec![
        reads(
            "/v1/overview",
            READ,
            "The cluster in a few numbers.",
            json::<cluster::Overview>(),
            get(cluster::overview),
        ),
        Route {
            parameters: vec![
                Parameter::new("skip", "integer", "Leave out so many, in join order."),
                limit("How many, 1 to 10000; 10000 if left out.", PEERS_PAGE_MAX),
            ],
            ..reads(
                "/v1/peers",
                READ,
                "The ring: who watches whom, and what they run.",
                json::<cluster::Peers>(),
                get(cluster::peers),
            )
        },
        Route {
            parameters: vec![LASTS],
            refusals: &[503],
            ..reads(
                "/v1/events",
                READ,
                "What changes, as it does: events `change` with a difference, `rates` every second.",
                Answer::Text("text/event-stream"),
                get(events::events),
            )
        },
    ]
}

/// What stands around the log: nodes, the mesh, worker numbers, and collecting.
fn about_nodes() -> Vec<Route> {
    vec![
        Route {
            refusals: &[503],
            ..reads(
                "/v1/nodes",
                READ,
                "The living nodes and how many of their peers are in.",
                json::<cluster::Nodes>(),
                get(cluster::nodes),
            )
        },
        Route {
            refusals: &[404],
            ..reads(
                "/v1/mesh",
                READ,
                "The mesh as this node sees it: members, leader, suspicions.",
                json::<cluster::MeshShown>(),
                get(cluster::mesh),
            )
        },
        Route {
            refusals: &[503],
            ..reads(
                "/v1/ids",
                READ,
                "The worker numbers by which ids are made, and who holds them.",
                json::<cluster::Workers>(),
                get(cluster::ids),
            )
        },
        Route {
            refusals: &[503],
            ..writes(
                "/v1/gc",
                ADMIN,
                "Forget ended jobs, store the cluster as it is, trim the log before it.",
                json::<operate::Collected>(),
                post(operate::gc),
            )
        },
    ]
}

fn about_the_past() -> Vec<Route> {
    vec![
        Route {
            parameters: vec![
                Parameter::new("from", "integer", "Begin at this position."),
                Parameter::new(
                    "before",
                    "integer",
                    "Only entries before this position; without `from`, the last of them.",
                ),
                limit("How many entries, 1 to 1000; 100 if left out.", LOG_PAGE_MAX),
            ],
            refusals: &[410],
            ..reads(
                "/v1/log",
                READ,
                "A page of the log, with what became of each entry.",
                json::<log::Page>(),
                get(log::page),
            )
        },
        Route {
            parameters: vec![FOLLOW_FROM, LASTS],
            refusals: &[410, 503],
            ..reads(
                "/v1/log/follow",
                READ,
                "Entries as they come, as events whose id is the position.",
                Answer::Text("text/event-stream"),
                get(log::follow),
            )
        },
        Route {
            parameters: vec![Parameter::new(
                "at",
                "integer",
                "A position: what the cluster was after the last entry up to it; left out, \
                        now.",
            )],
            refusals: &[410],
            ..reads(
                "/v1/replica",
                READ,
                "The cluster as a value, now or at a position.",
                json::<past::ReplicaShown>(),
                get(past::replica),
            )
        },
        Route {
            parameters: vec![
                Parameter::new("from", "integer", "The position before.").required(),
                Parameter::new("to", "integer", "The position after.").required(),
            ],
            refusals: &[410],
            ..reads(
                "/v1/diff",
                READ,
                "What changed in the cluster between two positions.",
                json::<past::DiffShown>(),
                get(past::diff),
            )
        },
    ]
}

/// The table as a router: each endpoint behind its rule.
pub(crate) fn router(site: &Site) -> Router {
    let mut router = Router::new();
    for route in table() {
        let rule = from_fn_with_state((site.clone(), route.rule), guard);
        // The fallback of a path for other methods comes with the first of its routes.
        let handler = route.handler.layer(rule);
        router = router.route(route.path, handler);
    }
    router
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(site.clone(), count))
        .layer(from_fn(dress))
        .with_state(site.clone())
}

async fn nothing() -> Refusal {
    Refusal::missing("there is nothing at this path", "GET /v1/openapi.json lists what there is")
}

async fn other_method() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "wrong-method",
        "this path does not answer to this method",
        "GET /v1/openapi.json says which it answers to",
    )
}

/// Every answer wears the same headers.
async fn dress(request: Request, next: Next) -> Response {
    let is_data = request.uri().path().starts_with("/v1/");
    let mut response = next.run(request).await.into_response();
    let headers = response.headers_mut();
    for (name, value) in ANSWER_HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if is_data {
        headers.insert("cache-control", HeaderValue::from_static("no-store"));
    }
    response
}

async fn count(
    axum::extract::State(site): axum::extract::State<Site>,
    request: Request,
    next: Next,
) -> Response {
    // The path without its query: that may have what is not for everybody.
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::info_span!("request", %method, path, status = tracing::field::Empty);
    let response = next.run(request).instrument(span.clone()).await;
    span.record("status", response.status().as_u16());
    site.counts().note(response.status());
    response
}
