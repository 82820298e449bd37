//! Sockets: connections are counted, slow ones are cut off, TLS where it is asked for.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use axum::Router;
use hyper::{
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use sardonyx_store::lobby::{Guest, Lobby};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

/// How many connections are served at once, beside those that have not asked for anything yet; others
/// wait for their answer.
pub const CONNECTIONS_MAX: usize = 1_024;

/// How long a connection may take to say what it wants: for its handshake, and for the head of each
/// request.
pub const HEAD_MAX: Duration = Duration::from_secs(5);

/// How many bytes the head of a request may have.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// How long requests that are under way may still take when the server stops.
const STOP_MAX: Duration = Duration::from_secs(2);

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller(pub(super) SocketAddr);

/// A certificate and its key.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads a certificate with its chain, and its key, both in PEM.
    pub fn read(certificate: &Path, key: &Path) -> Result<Tls, String> {
        let wrong = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(|all| all.collect::<Result<Vec<_>, _>>())
            .map_err(|why| wrong(certificate, &why))?;
        if chain.is_empty() {
            return Err(wrong(certificate, &"there is no certificate in it"));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|why| wrong(key, &why))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| why.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|why| wrong(key, &why))?;
        Ok(Tls(Arc::new(config).into()))
    }
}

/// A server that runs. Dropped, it stops at once; [`Server::stop`] waits for requests under way.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    is_tls: bool,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Server {
    pub(super) fn start(
        listener: TcpListener,
        tls: Option<Tls>,
        router: Router,
        stop: watch::Sender<bool>,
    ) -> Result<Server, String> {
        let address = listener.local_addr().map_err(|why| why.to_string())?;
        let stopped = stop.subscribe();
        let (is_tls, mut tasks) = (tls.is_some(), JoinSet::new());
        tasks.spawn(accept(listener, tls, router, stopped));
        Ok(Server { address, is_tls, stop, tasks })
    }

    /// Runs `work` until the server stops.
    pub(super) fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where a browser finds it, if it is on this machine.
    pub fn url(&self) -> String {
        let mut shown = self.address;
        if shown.ip().is_unspecified() {
            shown.set_ip(match shown {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("{}://{shown}/", if self.is_tls { "https" } else { "http" })
    }

    /// Takes no more connections, and lets go of the store once those under way are through.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let through = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(STOP_MAX, through).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

/// Serves a router over plain HTTP until it is told to stop, with the same limits.
pub async fn serve_router(listener: TcpListener, router: Router, stopped: watch::Receiver<bool>) {
    accept(listener, None, router, stopped).await;
}

async fn accept(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let (places, lobby) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Lobby::default());
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // An error means that the handle is gone.
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(why) => {
                // Out of descriptors, mostly: it passes when others hang up.
                tracing::warn!(%why, "a connection could not be taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (tls, router, stopped) = (tls.clone(), router.clone(), stopped.clone());
        let door = Door { from, guest: lobby.enter(), places: Arc::clone(&places) };
        connections.spawn(connection(stream, tls, router, stopped, door));
    }
    while connections.join_next().await.is_some() {}
}

/// What a connection passes when it asks for something.
struct Door {
    from: SocketAddr,
    guest: Guest,
    places: Arc<Semaphore>,
}

async fn connection(
    stream: TcpStream,
    tls: Option<Tls>,
    router: Router,
    stopped: watch::Receiver<bool>,
    mut door: Door,
) {
    // Events are small and should not wait for each other.
    let _ = stream.set_nodelay(true);
    let Some(Tls(acceptor)) = tls else { return speak(stream, router, stopped, door).await };
    let met = tokio::select! {
        met = timeout(HEAD_MAX, acceptor.accept(stream)) => met,
        () = door.guest.shown_out() => return,
    };
    match met {
        Ok(Ok(stream)) => speak(stream, router, stopped, door).await,
        Ok(Err(why)) => tracing::debug!(%why, "a handshake failed"),
        Err(_) => tracing::debug!("a handshake took too long"),
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    mut stopped: watch::Receiver<bool>,
    Door { from, mut guest, places }: Door,
) {
    let asked = Arc::new(Notify::new());
    let (asks, service) = (Arc::clone(&asked), TowerToHyperService::new(router));
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        asks.notify_one();
        request.extensions_mut().insert(Caller(from));
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // The first request of a connection takes it out of the crowd at the door.
    let has_asked = tokio::select! {
        // Whoever hangs up early knows why.
        _ = connection.as_mut() => return,
        () = guest.shown_out() => return,
        _ = stopped.wait_for(|stop| *stop) => false,
        () = asked.notified() => true,
    };
    if has_asked {
        let _place = tokio::select! {
            place = places.acquire() => place,
            () = guest.shown_out() => return,
        };
        drop(guest);
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopped.wait_for(|stop| *stop) => {}
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
