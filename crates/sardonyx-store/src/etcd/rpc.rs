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
    Code, Request, Status, Streaming,
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
        let call = async {
            grpc.ready().await.map_err(|why| Status::unavailable(why.to_string()))?;
            let path = PathAndQuery::from_static(path);
            grpc.unary(self.request(message), path, ProstCodec::<Q, A>::default()).await
        };
        let answer = tokio::time::timeout(CALL_PATIENCE, call).await;
        let slow = |_| Err(Status::unavailable("no answer for a long time"));
        match answer.unwrap_or_else(slow) {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(self.judge(index, &status)),
        }
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
        let call = async {
            grpc.ready().await.map_err(|why| Status::unavailable(why.to_string()))?;
            let path = PathAndQuery::from_static(path);
            grpc.streaming(self.request(messages), path, ProstCodec::<Q, A>::default()).await
        };
        let answer = tokio::time::timeout(CALL_PATIENCE, call).await;
        let slow = |_| Err(Status::unavailable("no answer for a long time"));
        match answer.unwrap_or_else(slow) {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(self.judge(index, &status)),
        }
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
        let codec = ProstCodec::<AuthenticateRequest, AuthenticateResponse>::default();
        let call = async {
            grpc.ready().await.map_err(|why| Status::unavailable(why.to_string()))?;
            grpc.unary(Request::new(message), PathAndQuery::from_static(AUTHENTICATE), codec).await
        };
        let answer = tokio::time::timeout(CALL_PATIENCE, call).await;
        let slow = |_| Err(Status::unavailable("no answer for a long time"));
        let answer = answer.unwrap_or_else(slow).map_err(|status| self.judge(index, &status))?;
        let token = MetadataValue::try_from(answer.into_inner().token);
        let unusable = |_| Error::NotConfigured("etcd gave a token that cannot be sent".into());
        *lock(&self.token) = Some(token.map_err(unusable)?);
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not known is worth a retry")]
    /// What the caller is to do, and whether the next call goes to another server.
    fn judge(&self, index: usize, status: &Status) -> Error {
        let why = status.message();
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

fn tls(servers: &Servers) -> Result<Option<ClientTlsConfig>> {
    if !servers.tls {
        return Ok(None);
    }
    let read = |path: &std::path::PathBuf| {
        let unreadable = |why| Error::NotConfigured(format!("{}: {why}", path.display()));
        std::fs::read(path).map_err(unreadable)
    };
    let mut tls = ClientTlsConfig::new();
    if let Some(ca) = &servers.ca {
        tls = tls.ca_certificate(Certificate::from_pem(read(ca)?));
    }
    if let Some((cert, key)) = &servers.identity {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(Some(tls))
}
