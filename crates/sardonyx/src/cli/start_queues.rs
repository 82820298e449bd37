//! Which queues a node moves data through, and serving them to other processes beside its store.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use sardonyx::Queues;
use sardonyx_peer::Event;
use sardonyx_queue::{
    OpenError,
    remote::{self, Server},
};
use sardonyx_store::Location;
use tokio::net::TcpListener;

use super::{Failure, start_events::Printer};

/// The queues of a node, and those who use them from elsewhere.
pub(super) struct NodeQueues {
    pub(super) queues: Queues,
    server: Option<Server>,
}

/// What to do about queues that are not there.
const NAME_THEM: &str = "say with --queues URL where the queues are";

/// How long the queues of a served store are looked for: as long as the store itself.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often they are looked for.
const AGAIN: Duration = Duration::from_millis(500);

/// Opens the queues: those that were named, or those that belong to the store. A store in a directory
/// has them below it; a store that is served at a port has them at the next port, and a node without
/// them would kill every job whose tasks it is given, so it does not start. Other stores have none of
/// their own: tasks then only wait.
pub(super) async fn open(
    named: Option<&str>,
    store: &str,
    listener: Option<TcpListener>,
    token: Option<&Path>,
    printer: &mut Printer,
) -> Result<Option<NodeQueues>, Failure> {
    if let Some(url) = named {
        let queues = Queues::open(url).await?;
        return Ok(Some(NodeQueues { queues, server: None }));
    }
    match Location::parse(store)? {
        Location::Embedded(dir) => beside(&dir, listener, token).await.map(Some),
        Location::Remote(_) => {
            let url = next_port(store).ok_or_else(|| {
                Failure::input(format!("{store}: there is no port after it; {NAME_THEM}"))
            })?;
            let queues = patiently(&url, printer).await?;
            Ok(Some(NodeQueues { queues, server: None }))
        }
        Location::Memory => Ok(Some(NodeQueues { queues: Queues::memory(), server: None })),
        Location::Etcd(_) | Location::ZooKeeper(_) => Ok(None),
    }
}

/// Whoever serves them may still be starting. Says once for what it waits.
async fn patiently(url: &str, printer: &mut Printer) -> Result<Queues, Failure> {
    let begun = Instant::now();
    let mut has_said = false;
    loop {
        let why = match Queues::open(url).await {
            Ok(queues) => return Ok(queues),
            Err(OpenError::Unavailable(why)) => why,
            Err(other) => return Err(other.into()),
        };
        if begun.elapsed() >= PATIENCE {
            let why = format!("the queues of the store cannot be reached: {why}; {NAME_THEM}");
            return Err(Failure::world(why));
        }
        if !has_said {
            printer
                .note(Event::Waiting(format!("the queues of the store do not answer: {why}")))?;
            has_said = true;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The queues of a store in a directory, served to others if there is a listener.
pub(super) async fn beside(
    dir: &Path,
    listener: Option<TcpListener>,
    token: Option<&Path>,
) -> Result<NodeQueues, Failure> {
    let url = format!("embedded:{}", dir.join("queues").display());
    let queues = Queues::open(&url).await?;
    let token = token.map(|path| {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|why| Failure::input(format!("{}: {why}", path.display())))?;
        Ok::<_, Failure>(text.trim_end_matches(['\r', '\n']).to_owned())
    });
    let token = token.transpose()?;
    let server = match listener {
        None => None,
        Some(listener) => {
            Some(remote::serve(&queues, listener, token).await.map_err(Failure::input)?)
        }
    };
    Ok(NodeQueues { queues, server })
}

/// How often two ports beside each other are looked for when any will do.
const PAIRS_MAX: u32 = 32;

/// Listens for the store at `address`, and for the queues at the port after it.
pub(super) async fn listen(address: SocketAddr) -> Result<(TcpListener, TcpListener), Failure> {
    let mut why = None;
    for _ in 0..if address.port() == 0 { PAIRS_MAX } else { 1 } {
        let first = TcpListener::bind(address).await;
        let first = first.map_err(|why| Failure::world(format!("{address}: {why}")))?;
        let mut next = first.local_addr()?;
        let Some(port) = next.port().checked_add(1) else { continue };
        next.set_port(port);
        match TcpListener::bind(next).await {
            Ok(second) => return Ok((first, second)),
            Err(taken) => why = Some(format!("{next}, for the queues: {taken}")),
        }
    }
    Err(Failure::world(why.unwrap_or_else(|| format!("{address}: there is no port after it"))))
}

/// `sardonyx://HOST:PORT…` with the port after it.
fn next_port(url: &str) -> Option<String> {
    let rest = url.strip_prefix("sardonyx://")?;
    let (address, options) = rest.split_once('?').map_or((rest, None), |(a, o)| (a, Some(o)));
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse::<u16>().ok()?.checked_add(1)?;
    let options = options.map(|it| format!("?{it}")).unwrap_or_default();
    Some(format!("sardonyx://{host}:{port}{options}"))
}

impl NodeQueues {
    /// Hangs up on everybody, and lets go of the files.
    pub(super) async fn close(self) {
        if let Some(server) = self.server {
            server.stop().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_at_the_next_port() {
        let next = |url| next_port(url);
        assert_eq!(next("sardonyx://h:7440").as_deref(), Some("sardonyx://h:7441"));
        let with = next("sardonyx://[::1]:1?token-file=t");
        assert_eq!(with.as_deref(), Some("sardonyx://[::1]:2?token-file=t"));
        assert_eq!(next("sardonyx://h:65535"), None);
        assert_eq!(next("etcd://h:1"), None);
    }
}
