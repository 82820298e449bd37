//! The input and the output `nats`: messages of a JetStream stream.
//!
//! ```toml
//! [catalog.read]
//! type = "input"
//! plugin = "nats"
//! url = "nats://127.0.0.1:4222/ORDERS"      # the servers, and the stream
//! subject = "orders.*"                      # left out: all of the stream
//! follow = true                             # left out: what is there when the job begins
//! user = "orders"
//! password = "secret:env:NATS"              # or token; looked up by the node that runs the task
//! ```
//!
//! **Reading is exactly once**: the position is the sequence of the last message, kept with the
//! transaction; the server keeps nothing about us, and messages stay in the stream. **Writing is exactly
//! once** as long as the stream keeps messages (see [`output`]).

pub(super) mod input;
pub(super) mod output;

use std::{
    future::Future,
    sync::{LazyLock, mpsc},
    time::Duration,
};

use async_nats::jetstream::{
    self,
    consumer::{Consumer, DeliverPolicy, pull},
    stream::Stream,
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    Terms,
    secret::{Reference, has_password},
};

/// How long servers may be away before a job is ended over it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait before the next try.
const AGAIN: Duration = Duration::from_millis(500);

/// All connections of a process share a thread: plugins are called on threads that may block and have
/// no runtime.
static RUNTIME: LazyLock<Result<Runtime, String>> = LazyLock::new(|| {
    let built =
        Builder::new_multi_thread().worker_threads(1).thread_name("nats").enable_all().build();
    built.map_err(|why| format!("a thread for NATS: {why}"))
});

fn runtime() -> Result<&'static Runtime, String> {
    RUNTIME.as_ref().map_err(Clone::clone)
}

/// Has something done on that thread, and waits for it.
fn wait<T: Send + 'static>(
    work: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    let (sender, answer) = mpsc::channel();
    runtime()?.spawn(async move { sender.send(work.await) });
    answer.recv().map_err(|_| "NATS: what was asked for panicked")?
}

/// Which stream of which servers.
#[derive(Clone)]
struct Place {
    url: String,
    subject: Option<String>,
    login: Login,
}

/// How we get in.
#[derive(Clone, Default)]
struct Login {
    user: Option<(String, Reference)>,
    token: Option<Reference>,
}

impl Login {
    fn read(terms: &Terms) -> Result<Login, String> {
        let (user, password) = (terms.text("user")?, terms.secret("password")?);
        let user = match (user, password) {
            (Some(user), Some(password)) => Some((user.to_owned(), password)),
            (None, None) => None,
            (Some(_), None) => return Err("user needs password = \"secret:env:NAME\"".into()),
            (None, Some(_)) => return Err("password needs user = \"NAME\"".into()),
        };
        Ok(Login { user, token: terms.secret("token")? })
    }

    fn look_up(&self) -> Result<sardonyx_queue::NatsLogin, String> {
        let user = self.user.as_ref().map(|(user, password)| {
            let password = password.look_up()?;
            Ok::<_, String>((user.clone(), password.reveal().to_owned()))
        });
        let token = self.token.as_ref().map(Reference::look_up).transpose()?;
        Ok(sardonyx_queue::NatsLogin {
            user: user.transpose()?,
            token: token.map(|token| token.reveal().to_owned()),
        })
    }
}

/// A stream that was found.
struct Link {
    context: jetstream::Context,
    stream: Stream,
}

/// Why something on NATS failed.
enum Failed {
    /// It may be different next time.
    Now(String),
    /// It will not.
    ForGood(String),
}

impl Failed {
    fn why(self) -> String {
        match self {
            Failed::Now(why) | Failed::ForGood(why) => why,
        }
    }
}

impl Place {
    fn read(terms: &Terms) -> Result<Place, String> {
        let url = terms.text("url")?.ok_or(
            "it does not say where NATS is: write url = \"nats://127.0.0.1:4222/STREAM\" with the \
             name of the stream",
        )?;
        // A job stands in the log; and a file of the node that a job names could be sent anywhere.
        if has_password(url) || url.contains("-file=") || url.contains('@') {
            return Err("url has a user or a secret in it: leave them out there, and write user = \
                        \"NAME\" with password = \"secret:env:NAME\", or token = \"secret:file:PATH\""
                .into());
        }
        let (url, subject) = (url.to_owned(), terms.text("subject")?.map(str::to_owned));
        Ok(Place { url, subject, login: Login::read(terms)? })
    }

    /// Connects and finds the stream; one that is not there is made with `create`.
    async fn link(&self, create: Option<&str>) -> Result<Link, Failed> {
        use sardonyx_queue::OpenError;
        let login = self.login.look_up().map_err(Failed::ForGood)?;
        let (client, name) =
            sardonyx_queue::nats_client(&self.url, login).await.map_err(|why| match why {
                OpenError::Unavailable(why) => {
                    Failed::Now(format!("NATS cannot be reached: {why}"))
                }
                OpenError::NotConfigured(why) | OpenError::Corrupt(why) => Failed::ForGood(why),
            })?;
        let context = jetstream::new(client);
        let found = context.get_stream(&name).await;
        let stream = match (found, create) {
            (Ok(stream), _) => stream,
            (Err(why), create) if is_missing(&why) => {
                let Some(subject) = create else {
                    return Err(Failed::ForGood(format!(
                        "there is no stream {name} on these servers; make it there, or let an output \
                         make it with create = true"
                    )));
                };
                let config = jetstream::stream::Config {
                    name: name.clone(),
                    subjects: vec![subject.to_owned()],
                    ..Default::default()
                };
                let made = context.get_or_create_stream(config).await;
                made.map_err(|why| Failed::Now(format!("the stream {name}: {why}")))?
            }
            (Err(why), _) => return Err(Failed::Now(format!("the stream {name}: {why}"))),
        };
        Ok(Link { context, stream })
    }

    /// The same, until it works or patience is over.
    async fn link_in_time(&self, create: Option<&str>) -> Result<Link, String> {
        let begun = std::time::Instant::now();
        loop {
            match self.link(create).await {
                Ok(link) => return Ok(link),
                Err(Failed::Now(why)) if begun.elapsed() < PATIENCE => {
                    tracing::warn!("{why}");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(failed) => return Err(failed.why()),
            }
        }
    }
}

fn is_missing(why: &jetstream::context::GetStreamError) -> bool {
    use async_nats::jetstream::context::GetStreamErrorKind;
    matches!(why.kind(), GetStreamErrorKind::JetStream(error) if error.code() == 404)
}

impl Link {
    /// Messages from a sequence on, in their order. The server forgets about it when we go away.
    async fn from(
        &self,
        sequence: u64,
        subject: Option<&str>,
    ) -> Result<Consumer<pull::OrderedConfig>, String> {
        let config = pull::OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: sequence.max(1) },
            filter_subject: subject.unwrap_or_default().to_owned(),
            ..Default::default()
        };
        let made = self.stream.create_consumer(config).await;
        made.map_err(|why| format!("NATS: the stream cannot be read: {why}"))
    }
}

#[cfg(test)]
mod tests;
