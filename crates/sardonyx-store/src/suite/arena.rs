//! A store under test: how to reach it, and how to disturb it.

use std::{any::Any, path::Path, pin::Pin, sync::Arc, time::Duration};

use super::servers::{Ensemble, EtcdCluster, Kind, RemoteServer, ZooKeeperEnsemble};
use crate::{Options, Store};

type Disturb = Box<dyn Fn(u32) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A store under test.
pub struct Arena {
    url: String,
    /// In-process stores are opened once; their handles are clones.
    shared: Option<Store>,
    session_timeout: Duration,
    disturb: Option<Disturb>,
    /// Directories and servers that live as long as the arena.
    _keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("url", &self.url).finish_non_exhaustive()
    }
}

/// How the suite's stores are opened: patient enough for a server to be restarted.
pub(super) const OPTIONS: Options = Options { patience: super::SOON };

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

    async fn in_process(url: String, keep: Vec<Box<dyn Any + Send + Sync>>) -> Arena {
        let shared = Some(Store::open(&url, OPTIONS).await.expect("the store opens"));
        let session_timeout = Duration::from_secs(1);
        Arena { url, shared, session_timeout, disturb: None, _keep: keep }
    }

    /// Served by another store; disturbed by restarting that.
    pub async fn remote() -> Arena {
        let dir = temp_dir();
        let server = Arc::new(RemoteServer::start(dir.path()).await);
        let url = server.url();
        let disturbed = Arc::clone(&server);
        let restart = move |_| -> Pin<Box<dyn Future<Output = ()> + Send>> {
            let server = Arc::clone(&disturbed);
            Box::pin(async move { server.restart().await })
        };
        Arena {
            url,
            shared: None,
            session_timeout: Duration::from_secs(1),
            disturb: Some(Box::new(restart)),
            _keep: vec![Box::new(server), Box::new(dir)],
        }
    }

    /// On etcd; disturbed by killing its leader, and by cutting it off, in turn.
    pub async fn etcd(n_nodes: usize) -> Arena {
        Arena::on(EtcdCluster::start(n_nodes).await)
    }

    /// On ZooKeeper; disturbed by killing its leader, and by cutting it off, in turn.
    pub async fn zookeeper(n_nodes: usize) -> Arena {
        Arena::on(ZooKeeperEnsemble::start(n_nodes).await)
    }

    /// On servers that run already.
    pub fn on<K: Kind>(servers: Ensemble<K>) -> Arena {
        let servers = Arc::new(servers);
        let url = servers.url("suite");
        let disturbed = Arc::clone(&servers);
        let disturb = move |round| -> Pin<Box<dyn Future<Output = ()> + Send>> {
            let servers = Arc::clone(&disturbed);
            Box::pin(async move { servers.disturb(round).await })
        };
        Arena {
            url,
            shared: None,
            // etcd counts in seconds and grants no less than two.
            session_timeout: Duration::from_secs(2),
            disturb: Some(Box::new(disturb)),
            _keep: vec![Box::new(servers)],
        }
    }

    /// The same store, reached by another URL.
    pub fn with_url(self, url: String) -> Arena {
        Arena { url, ..self }
    }

    /// Another handle: another client where there is a server, a clone where there is none.
    pub async fn open(&self) -> Store {
        match &self.shared {
            Some(store) => store.clone(),
            None => Store::open(&self.url, OPTIONS).await.expect("the store opens"),
        }
    }

    /// The URL for other processes; `None` when there is only this one.
    pub fn url_for_others(&self) -> Option<&str> {
        self.shared.is_none().then_some(&self.url)
    }

    /// A session timeout that the store grants.
    pub fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    /// Cuts everybody off for a moment; false when there is nothing to cut.
    pub async fn disturb(&self, round: u32) -> bool {
        if let Some(disturb) = &self.disturb {
            disturb(round).await;
        }
        self.disturb.is_some()
    }
}

/// A directory that is gone after the test.
pub(super) fn temp_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("sardonyx-").tempdir().expect("a temporary directory")
}

/// The file a server's output goes to.
pub(super) fn log_file(dir: &Path, name: &str) -> std::fs::File {
    let path = dir.join(format!("{name}.log"));
    std::fs::File::options().create(true).append(true).open(path).expect("a log file")
}
