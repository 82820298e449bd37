//! `sardonyx dashboard`: looks at a cluster without being part of it.

use std::{
    io::{self, Write as _},
    sync::Arc,
};

use clap::Args;
use sardonyx::{Registry, http::About};
use sardonyx_peer::Figures;
use serde_json::json;

use super::{Failure, cluster::At, start::label, start_events::shown, start_http::Http, stopped};

/// Serve the HTTP API and the dashboard of a cluster, without a node.
#[derive(Args)]
#[command(after_help = "\
It reads the store and takes part in nothing. What only nodes know, how deep queues are, their own
dashboards show: sardonyx start --http HOST:PORT.

Example:
  sardonyx dashboard --store etcd://10.0.0.1:2379/prod --http 127.0.0.1:7400")]
pub(crate) struct Dashboard {
    #[command(flatten)]
    at: At,

    #[command(flatten)]
    http: Http,

    /// Print where it is as one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Dashboard {
    pub(crate) fn run(self) -> Result<(), Failure> {
        super::block_on(async {
            let store = self.at.open().await?;
            let about = About {
                store: store.clone(),
                cluster: shown(&self.at.url()?),
                label: label(),
                registry: Registry::built_in(),
                figures: Figures::of(Default::default()),
                queues: None,
                mesh: None,
                nodes: Arc::default(),
            };
            let server = self.http.serve_at(about, self.http.address_or_usual()).await?;
            let url = server.url();
            match self.json {
                true => writeln!(io::stdout(), "{}", json!({"event": "http", "url": url}))?,
                false => writeln!(io::stdout(), "dashboard and API at {url}")?,
            }
            stopped().await?;
            server.stop().await;
            store.close().await;
            Ok(())
        })
    }
}
