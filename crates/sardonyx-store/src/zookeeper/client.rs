//! A ZooKeeper client that comes back: connecting, bounding calls, and what an error means.

use std::{sync::Arc, time::Duration};

use zookeeper_client::{Acls, Client, Connector, CreateMode, CreateOptions};

use crate::{
    error::{Error, Result},
    location::Servers,
};

/// The timeout of the session that everything but pulses and leases goes through.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a call may take. Longer than an election, so that most calls outlive one.
const CALL_PATIENCE: Duration = Duration::from_secs(5);

/// How to connect, and a client while there is one.
#[derive(Debug)]
pub(super) struct Zk {
    servers: Servers,
    client: tokio::sync::Mutex<Option<Client>>,
    acls: Acls<'static>,
}

impl Zk {
    pub(super) fn new(servers: &Servers) -> Arc<Zk> {
        let acls = match servers.user {
            Some(_) => Acls::creator_all(),
            None => Acls::anyone_all(),
        };
        Arc::new(Zk { servers: servers.clone(), client: tokio::sync::Mutex::default(), acls })
    }

    /// The client; a new one if the session of the last one ended.
    pub(super) async fn client(&self) -> Result<Client> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref().filter(|it| !it.state().is_terminated()) {
            return Ok(client.clone());
        }
        let connector = self.connector()?.with_session_timeout(SESSION_TIMEOUT);
        Ok(client.insert(self.connect(connector).await?).clone())
    }

    /// Connects once, and says at once when no server is there.
    pub(super) async fn connect(&self, connector: Connector) -> Result<Client> {
        let hosts = self.servers.hosts.join(",");
        let connector = connector.with_fail_eagerly();
        match tokio::time::timeout(CALL_PATIENCE, connector.connect(&hosts)).await {
            Ok(Err(zookeeper_client::Error::NoHosts)) | Err(_) => {
                Err(Error::Unavailable(format!("ZooKeeper at {hosts} cannot be reached")))
            }
            Ok(connected) => connected.map_err(|why| judge(&why)),
        }
    }

    pub(super) fn connector(&self) -> Result<Connector> {
        let mut connector = Client::connector();
        if let Some(user) = &self.servers.user {
            let secret = self.servers.secret.as_ref().map_or("", |secret| secret.reveal());
            connector = connector.with_auth("digest", format!("{user}:{secret}").as_bytes());
        }
        if self.servers.tls {
            // The client's TLS would bring a second cryptographic library into every build.
            let why =
                "zookeeper:// speaks no TLS; leave out tls, ca, cert and key, and use a tunnel";
            return Err(Error::NotConfigured(why.into()));
        }
        Ok(connector)
    }

    /// How nodes are made: open to all without a user, to the user alone with one.
    pub(super) fn options(&self, mode: CreateMode) -> CreateOptions<'static> {
        mode.with_acls(self.acls)
    }
}

/// Bounds a call and judges its error.
pub(super) async fn call<T, E>(
    request: impl Future<Output = std::result::Result<T, E>>,
) -> Result<T>
where
    zookeeper_client::Error: From<E>,
{
    raw(request).await?.map_err(|why| judge(&why))
}

/// Bounds a call and leaves its error to the caller.
pub(super) async fn raw<T, E>(
    request: impl Future<Output = std::result::Result<T, E>>,
) -> Result<std::result::Result<T, zookeeper_client::Error>>
where
    zookeeper_client::Error: From<E>,
{
    match tokio::time::timeout(CALL_PATIENCE, request).await {
        Ok(answer) => Ok(answer.map_err(Into::into)),
        Err(_) => Err(Error::Unavailable("ZooKeeper does not answer".into())),
    }
}

/// What the caller is to do. The session here is not that of a node: that one has its own client,
/// and what becomes of it is said by its [`Lease`](crate::Lease).
#[expect(clippy::wildcard_enum_match_arm, reason = "what is not known is worth a retry")]
pub(super) fn judge(why: &zookeeper_client::Error) -> Error {
    use zookeeper_client::Error as Zk;
    match why {
        Zk::NoAuth | Zk::AuthFailed | Zk::InvalidAcl => {
            Error::NotConfigured(format!("ZooKeeper: {why}: check the user and the password"))
        }
        Zk::BadArguments(_) => Error::NotConfigured(format!("ZooKeeper: {why}")),
        Zk::Unimplemented => {
            Error::NotConfigured(format!("ZooKeeper: {why}: version 3.6 or newer is needed"))
        }
        Zk::QuotaExceeded => Error::NotConfigured(format!("ZooKeeper: {why}: raise the quota")),
        _ => Error::Unavailable(format!("ZooKeeper: {why}")),
    }
}

/// A name as a node's: letters, digits, dashes and underscores stay, the rest is written in hex.
pub(super) fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    escaped
}

/// The name that was [escaped](escape); `None` if none was.
pub(super) fn unescape(node: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(node.len());
    let mut rest = node;
    while let Some(at) = rest.find('%') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        bytes.push(u8::from_str_radix(rest.get(at + 1..at + 3)?, 16).ok()?);
        rest = &rest[at + 3..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server says that lacks an operation.
    #[test]
    fn a_server_that_is_too_old_is_refused() {
        let why = judge(&zookeeper_client::Error::Unimplemented);
        assert!(!why.is_transient(), "trying again does not help");
        assert!(why.to_string().contains("version 3.6 or newer is needed"), "{why}");
    }

    #[test]
    fn names_read_as_they_were_written() {
        for name in ["", "plain-1_2", "a/b c", "ü%", "."] {
            assert_eq!(unescape(&escape(name)).as_deref(), Some(name));
        }
    }
}
