//! A served embedded store.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tokio::{net::TcpListener, sync::Mutex};

use crate::Serving;

/// A server for `sardonyx://`, in this process, that can be stopped and started again.
#[derive(Debug)]
pub struct RemoteServer {
    dir: PathBuf,
    address: SocketAddr,
    serving: Mutex<Option<Serving>>,
}

impl RemoteServer {
    /// Serves the store in `dir` on a free loopback port.
    pub async fn start(dir: &Path) -> RemoteServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let serving = Serving::start(dir, listener, None).await.expect("it serves");
        let address = serving.address();
        RemoteServer { dir: dir.to_owned(), address, serving: Mutex::new(Some(serving)) }
    }

    /// The URL of the store.
    pub fn url(&self) -> String {
        format!("sardonyx://{}", self.address)
    }

    /// Cuts every client off, closes the store, opens it and serves it again.
    pub async fn restart(&self) {
        let mut serving = self.serving.lock().await;
        if let Some(serving) = serving.take() {
            serving.stop().await;
        }
        let listener = TcpListener::bind(self.address).await.expect("the same port");
        *serving = Some(Serving::start(&self.dir, listener, None).await.expect("it serves"));
    }
}
