//! Queues under test: how to reach them.

use std::any::Any;

use super::nats::NatsServers;
use crate::Queues;

/// Queues under test.
pub struct Arena {
    url: String,
    /// Queues in this process are opened once; their handles are clones.
    shared: Option<Queues>,
    n_moved: usize,
    /// Directories and servers that live as long as the arena.
    _keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Arena {
    /// In this process.
    pub async fn memory() -> Arena {
        Arena::in_process("memory:".into(), Vec::new()).await
    }

    /// In a directory.
    pub async fn embedded() -> Arena {
        let dir = temp_dir();
        let url = format!("embedded:{}", dir.path().display());
        Arena::in_process(url, vec![Box::new(dir)]).await
    }

    /// In a directory, served by this process and reached by others.
    pub async fn remote() -> Arena {
        let dir = temp_dir();
        let url = format!("embedded:{}", dir.path().display());
        let served = Queues::open(&url).await.expect("the queues open");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = crate::remote::serve(&served, listener, None).await.expect("a server");
        let url = format!("sardonyx://{}", server.address());
        let keep: Vec<Box<dyn Any + Send + Sync>> = vec![Box::new(server), Box::new(dir)];
        Arena { url, shared: None, n_moved: 10_000, _keep: keep }
    }

    /// On NATS servers of its own, on loopback.
    pub async fn nats(n_servers: usize) -> Arena {
        let servers = NatsServers::start(n_servers).await;
        let url = servers.url("suite");
        let keep: Vec<Box<dyn Any + Send + Sync>> = vec![Box::new(servers)];
        Arena { url, shared: None, n_moved: 1_000, _keep: keep }
    }

    async fn in_process(url: String, keep: Vec<Box<dyn Any + Send + Sync>>) -> Arena {
        let shared = Some(Queues::open(&url).await.expect("the queues open"));
        Arena { url, shared, n_moved: 10_000, _keep: keep }
    }

    /// Another handle: another client where there is a server, a clone where there is none.
    pub async fn open(&self) -> Queues {
        match &self.shared {
            Some(queues) => queues.clone(),
            None => Queues::open(&self.url).await.expect("the queues open"),
        }
    }

    /// How many messages the workers move: ten thousand, or fewer where each commit is slow.
    pub fn n_moved(&self) -> usize {
        self.n_moved
    }

    /// By which others reach them.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// A directory that is gone after the test.
pub(super) fn temp_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("sardonyx-").tempdir().expect("a temporary directory")
}
