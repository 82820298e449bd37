//! What endpoints work with: one cluster, one node, and the terms on which they are served.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::http::StatusCode;
use sardonyx_mesh::Mesh;
use sardonyx_peer::Figures;
use sardonyx_queue::Queues;
use sardonyx_store::Store;
use sardonyx_task::Registry;
use tokio::sync::{Semaphore, watch};

use super::{
    access::Tokens,
    audit::Audit,
    events::{News, STREAMS_MAX},
    figures::ClusterFigures,
    guard::Rules,
    server::Tls,
    timeline::{Limits, PAST_MIB},
    view::View,
};

/// What is served.
#[derive(Clone)]
pub struct About {
    /// Where the cluster's log is.
    pub store: Store,
    /// What people call the cluster.
    pub cluster: String,
    /// What people call this node.
    pub label: String,
    /// What jobs can name here.
    pub registry: Registry,
    /// What goes through the tasks of this node.
    pub figures: Figures,
    /// The queues, if this node has any.
    pub queues: Option<Queues>,
    /// The mesh, if this node is in one.
    pub mesh: Option<Arc<Mesh>>,
    /// Which nodes there are, as this one knows them; set once it runs.
    pub nodes: Arc<OnceLock<sardonyx_peer::Nodes>>,
}

/// On which terms.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Who may do what; `None`: whoever can connect may do anything.
    pub tokens: Option<Tokens>,
    /// Without it, plain HTTP.
    pub tls: Option<Tls>,
    /// Other names by which browsers know this server.
    pub hosts: Vec<String>,
    /// Serve beyond loopback without tokens or TLS: somebody means it.
    pub is_insecure: bool,
    /// Where is written who changed what.
    pub audit: Option<Audit>,
    /// How many MiB the past of the cluster may take; what is older can no longer be shown.
    pub past_mib: u32,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            tokens: None,
            tls: None,
            hosts: Vec::new(),
            is_insecure: false,
            audit: None,
            past_mib: PAST_MIB,
        }
    }
}

impl Terms {
    /// Whether one may listen at `address` on these terms.
    pub fn check(&self, address: SocketAddr) -> Result<(), String> {
        if address.ip().is_loopback() || self.is_insecure {
            return Ok(());
        }
        let missing = match (&self.tls, &self.tokens) {
            (Some(_), Some(_)) => return Ok(()),
            (None, Some(_)) => "a certificate (--http-tls)",
            (Some(_), None) => "tokens (--http-tokens)",
            (None, None) => "a certificate (--http-tls) and tokens (--http-tokens)",
        };
        Err(format!(
            "{address} can be reached from other machines and needs {missing}; or listen on \
             127.0.0.1, or say --insecure"
        ))
    }
}

/// The state behind every endpoint. Clones are the same.
#[derive(Clone)]
pub(crate) struct Site(Arc<Inner>);

struct Inner {
    about: About,
    view: View,
    rules: Rules,
    audit: Option<Audit>,
    is_tls: bool,
    figures: ClusterFigures,
    counts: Counts,
    streams: Arc<Semaphore>,
    news: News,
    stopped: watch::Receiver<bool>,
}

/// What was answered so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    by_class: [AtomicU64; 5],
}

impl Counts {
    pub(crate) fn note(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.by_class[class].fetch_add(1, Relaxed);
    }

    /// How many answers there were of each class, from 1xx to 5xx.
    pub(crate) fn read(&self) -> [u64; 5] {
        std::array::from_fn(|class| self.by_class[class].load(Relaxed))
    }
}

impl Site {
    pub(super) fn new(
        about: About,
        terms: Terms,
        address: SocketAddr,
        stopped: watch::Receiver<bool>,
    ) -> Site {
        let view = View::open(&about.store, Limits::of_mib(terms.past_mib));
        let figures = ClusterFigures::new(&about.store, &about.figures);
        let mut hosts = terms.hosts;
        hosts.extend(Some(address.ip()).filter(|ip| !ip.is_unspecified()).map(shown));
        let rules = Rules { hosts, tokens: terms.tokens, sessions: Default::default() };
        Site(Arc::new(Inner {
            about,
            view,
            rules,
            audit: terms.audit,
            is_tls: terms.tls.is_some(),
            figures,
            counts: Counts::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            news: News::default(),
            stopped,
        }))
    }

    pub(crate) fn view(&self) -> &View {
        &self.0.view
    }

    pub(crate) fn about(&self) -> &About {
        &self.0.about
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.0.rules
    }

    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.0.audit.as_ref()
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.0.is_tls
    }

    /// What goes through the tasks of all nodes.
    pub(crate) fn figures(&self) -> &ClusterFigures {
        &self.0.figures
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.0.counts
    }

    pub(crate) fn streams(&self) -> &Arc<Semaphore> {
        &self.0.streams
    }

    pub(crate) fn news(&self) -> &News {
        &self.0.news
    }

    /// Becomes true, or goes away, when the server stops.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.0.stopped.clone()
    }

    /// How long a store or a queue may take to answer somebody who looks.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
}

/// An address as a Host header has it between its brackets.
fn shown(ip: IpAddr) -> String {
    ip.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_only_with_tls_and_tokens_or_on_purpose() {
        let token = super::super::access::Token::fresh().unwrap();
        let tokens = Tokens::parse(&token.line(super::super::Role::Read)).ok();
        let check = |address: &str, terms: &Terms| terms.check(address.parse().unwrap());
        let bare = Terms::default();
        for ours in ["127.0.0.1:0", "127.3.2.1:80", "[::1]:1"] {
            assert_eq!(check(ours, &bare), Ok(()));
        }
        for open in ["0.0.0.0:0", "[::]:1", "10.0.0.1:80", "192.168.1.1:1"] {
            let why = check(open, &bare).unwrap_err();
            assert!(why.contains("--http-tls") && why.contains("--http-tokens"), "{why}");
            let why = check(open, &Terms { tokens: tokens.clone(), ..bare.clone() }).unwrap_err();
            assert!(why.contains("--http-tls") && !why.contains("--http-tokens"), "{why}");
            assert_eq!(check(open, &Terms { is_insecure: true, ..bare.clone() }), Ok(()));
        }
    }
}
