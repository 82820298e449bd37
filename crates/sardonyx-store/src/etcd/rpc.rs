//! Calls to etcd: which server, with which token, for how long, and what an error means.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::uri::PathAndQuery;
use prost::Message;
use tokio_stream::Stream;
use tonic::{
    Code, Request, Response, Status, Streaming,
    client::Grpc,
    metadata::MetadataValue,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_prost::ProstCodec;

use super::proto::{AuthenticateRequest, AuthenticateResponse};
use crate::{
    error::{Error, Result},
    location::Servers,
    token::lock,
};

/// How long a call may take. Longer than an election, so that most calls outlive one.
const CALL_PATIENCE: Duration = Duration::from_secs(5);

/// How long connecting may take before the next server is tried.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// The largest answer: a page of entries, each as large as they come.
const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(crate) const PUT: &str = "/etcdserverpb.KV/Put";
pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(crate) const DELETE: &str = "/etcdserverpb.KV/DeleteRange";
pub(crate) const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(crate) const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(crate) const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
pub(crate) const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// Connections to every server, one of them in use. A call that fails moves on to the next.
#[derive(Debug)]
pub(crate) struct Rpc {
    hosts: String,
    channels: Vec<Channel>,
    current: AtomicUsize,
    login: Option<(String, String)>,
    token: Mutex<Option<MetadataValue<tonic::metadata::Ascii>>>,
}

impl Rpc {
    pub(crate) fn new(servers: &Servers) -> Result<Rpc> {
        let tls = tls(servers)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let channel = |host: &String| {
            let wrong = |why: &dyn std::fmt::Display| {
                Error::NotConfigured(format!("cannot connect to {host}: {why}"))
            };
            let endpoint = Endpoint::from_shared(format!("{scheme}://{host}"));
            let mut endpoint = endpoint
                .map_err(|why| wrong(&why))?
                .connect_timeout(CONNECT_PATIENCE)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(Duration::from_secs(5))
                .keep_alive_timeout(Duration::from_secs(3))
                .keep_alive_while_idle(true)
                .initial_stream_window_size(4 << 20)
                .initial_connection_window_size(16 << 20);
            if let Some(tls) = &tls {
                endpoint = endpoint.tls_config(tls.clone()).map_err(|why| wrong(&why))?;
            }
            Ok(endpoint.connect_lazy())
        };
        let channels = servers.hosts.iter().map(channel).collect::<Result<_>>()?;
        let secret = servers.secret.as_ref().map_or("", |secret| secret.reveal()).to_owned();
        let login = servers.user.clone().map(|user| (user, secret));
        let (hosts, current) = (servers.hosts.join(","), AtomicUsize::new(0));
        Ok(Rpc { hosts, channels, current, login, token: Mutex::default() })
    }

    /// Calls once. A failure that another server may not have makes the next call go there.
    pub(crate) async fn call<Q, A>(&self, path: &'static str, message: Q) -> Result<A>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.log_in().await?;
        let (index, mut grpc) = self.grpc();
        let request = self.request(message);
        let call = async {
            ready(&mut grpc).await?;
            grpc.unary(request, PathAndQuery::from_static(path), ProstCodec::default()).await
        };
        self.settle(index, call).await
    }

    /// Opens a stream both ways. It ends when the server does; whoever opened it opens another.
    pub(crate) async fn stream<Q, A>(
        &self,
        path: &'static str,
        messages: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.log_in().await?;
        let (index, mut grpc) = self.grpc();
        let request = self.request(messages);
        let call = async {
            ready(&mut grpc).await?;
            let codec = ProstCodec::<Q, A>::default();
            grpc.streaming(request, PathAndQuery::from_static(path), codec).await
        };
        self.settle(index, call).await
    }

    /// Bounds a call, and says what the caller is to do when it fails.
    async fn settle<A>(
        &self,
        index: usize,
        call: impl Future<Output = std::result::Result<Response<A>, Status>>,
    ) -> Result<A> {
        let slow = |_| Err(Status::unavailable("no answer for a long time"));
        let answer = tokio::time::timeout(CALL_PATIENCE, call).await.unwrap_or_else(slow);
        answer.map(Response::into_inner).map_err(|status| self.judge(index, &status))
    }

    /// What a stream's end means.
    pub(crate) fn judge_stream(&self, status: &Status) -> Error {
        self.judge(self.current.load(Ordering::Relaxed), status)
    }

    fn grpc(&self) -> (usize, Grpc<Channel>) {
        let index = self.current.load(Ordering::Relaxed);
        let channel = self.channels[index % self.channels.len()].clone();
        (index, Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX))
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &*lock(&self.token) {
            request.metadata_mut().insert("authorization", token.clone());
        }
        // A member that has lost its leader says so instead of waiting for one.
        let require = MetadataValue::from_static("true");
        request.metadata_mut().insert("hasleader", require);
        request
    }

    /// Gets a token if there is a user and no token yet.
    async fn log_in(&self) -> Result<()> {
        let Some((user, password)) = &self.login else { return Ok(()) };
        if lock(&self.token).is_some() {
            return Ok(());
        }
        let (index, mut grpc) = self.grpc();
        let message = AuthenticateRequest { name: user.clone(), password: password.clone() };
        let call = async {
            ready(&mut grpc).await?;
            let path = PathAndQuery::from_static(AUTHENTICATE);
            grpc.unary(Request::new(message), path, ProstCodec::default()).await
        };
        let answer: AuthenticateResponse = self.settle(index, call).await?;
        let token = MetadataValue::try_from(answer.token);
        let unusable = |_| Error::NotConfigured("etcd gave a token that cannot be sent".into());
        *lock(&self.token) = Some(token.map_err(unusable)?);
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not known is worth a retry")]
    /// What the caller is to do, and whether the next call goes to another server.
    fn judge(&self, index: usize, status: &Status) -> Error {
        let why = reason(status);
        match status.code() {
            Code::Unauthenticated => {
                *lock(&self.token) = None;
                Error::Unavailable(format!("etcd: {why}"))
            }
            Code::PermissionDenied => {
                Error::NotConfigured(format!("etcd: {why}: give the user a role for this name"))
            }
            Code::InvalidArgument if why.contains("authentication") || why.contains("user") => {
                Error::NotConfigured(format!("etcd: {why}: check the user and the password"))
            }
            Code::FailedPrecondition if why.contains("authentication is not enabled") => {
                Error::NotConfigured(format!("etcd: {why}: leave the user out of the URL"))
            }
            Code::NotFound if why.contains("lease not found") => {
                Error::SessionLost("etcd ended the lease".into())
            }
            Code::Unimplemented => {
                Error::NotConfigured(format!("etcd: {why}: version 3.4 or newer is needed"))
            }
            Code::ResourceExhausted if why.contains("database space exceeded") => {
                Error::Unavailable("etcd's disk quota is used up: compact and defragment it".into())
            }
            Code::OutOfRange => Error::Unavailable(format!("etcd: {why}")),
            // A handshake that failed; which certificate is at fault, nobody else can tell.
            Code::Unavailable | Code::Unknown if is_about_certificates(&why) => {
                let hosts = &self.hosts;
                let help = "check ca, cert and key in the URL";
                Error::NotConfigured(format!("etcd at {hosts}: {why}: {help}"))
            }
            _ => {
                let next = (index + 1) % self.channels.len();
                let order = Ordering::Relaxed;
                // Somebody else may have moved on already; then there is nothing to do.
                let _ = self.current.compare_exchange(index, next, order, order);
                Error::Unavailable(format!("etcd at {}: {why}", self.hosts))
            }
        }
    }
}

/// Waits until there is a connection.
async fn ready(grpc: &mut Grpc<Channel>) -> std::result::Result<(), Status> {
    grpc.ready().await.map_err(|why| Status::from_error(Box::new(why)))
}

fn is_about_certificates(why: &str) -> bool {
    why.to_lowercase().contains("certificate")
}

/// A status in one line: what it says, and what lies behind it if that says more.
fn reason(status: &Status) -> String {
    let mut why = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(behind) = source {
        let text = behind.to_string();
        if !why.contains(&text) {
            why = format!("{why}: {text}");
        }
        source = behind.source();
    }
    why
}

fn tls(servers: &Servers) -> Result<Option<ClientTlsConfig>> {
    if !servers.tls {
        return Ok(None);
    }
    let read = |path: &std::path::PathBuf| {
        let unreadable = |why| Error::NotConfigured(format!("{}: {why}", path.display()));
        std::fs::read(path).map_err(unreadable)
    };
    let Some(ca) = &servers.ca else {
        let why = "TLS to etcd needs ca=FILE: the certificate of whoever signed the servers'";
        return Err(Error::NotConfigured(why.into()));
    };
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?));
    if let Some((cert, key)) = &servers.identity {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(Some(tls))
}
