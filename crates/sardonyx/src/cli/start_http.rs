//! The HTTP API and the dashboard beside a node.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use sardonyx::http::{self, Server, Terms, Tls, Tokens, audit::Audit};
use tokio::net::TcpListener;

use super::Failure;

/// Where a dashboard is if nobody says otherwise.
const USUAL_PORT: u16 = 7400;

/// Where and how to serve HTTP.
#[derive(Args)]
#[command(next_help_heading = "HTTP")]
pub(super) struct Http {
    /// Serve the HTTP API and the dashboard here
    #[arg(long = "http", value_name = "HOST:PORT")]
    address: Option<SocketAddr>,

    /// Who may do what: a role and a hash on each line, as `sardonyx token` prints them; needed
    /// beyond loopback
    #[arg(long = "http-tokens", value_name = "FILE", requires = "address")]
    tokens: Option<PathBuf>,

    /// A certificate with its chain, in PEM; needed beyond loopback
    #[arg(long = "http-tls", value_name = "FILE", requires = "address", requires = "key")]
    certificate: Option<PathBuf>,

    /// The certificate's key, in PEM
    #[arg(long = "http-tls-key", value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,

    /// Another name by which browsers know this server; may be repeated
    #[arg(long = "http-host", value_name = "NAME", requires = "address")]
    hosts: Vec<String>,

    /// Write down here who submitted, killed and collected what, and when; see `sardonyx audit`
    #[arg(long = "http-audit", value_name = "FILE", requires = "address")]
    audit: Option<PathBuf>,

    /// How many MiB of memory the past may take that the dashboard can go back to; the oldest goes
    /// first
    #[arg(long = "http-past", value_name = "MIB", default_value_t = http::PAST_MIB,
        value_parser = clap::value_parser!(u32).range(1..), requires = "address")]
    past_mib: u32,

    /// Serve HTTP beyond loopback without a certificate or tokens: whoever can connect may submit
    /// and kill jobs
    #[arg(long, requires = "address")]
    insecure: bool,
}

impl Http {
    /// Whether it can be served as it was asked for, before anything is begun.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.address {
            Some(address) => self.terms()?.check(address).map_err(Failure::input),
            None => Ok(()),
        }
    }

    /// Where it was asked for.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    fn terms(&self) -> Result<Terms, Failure> {
        let tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some(Tls::read(certificate, key)),
            _ => None,
        };
        Ok(Terms {
            tokens: self.tokens.as_deref().map(Tokens::read).transpose().map_err(Failure::input)?,
            tls: tls.transpose().map_err(Failure::input)?,
            hosts: self.hosts.clone(),
            is_insecure: self.insecure,
            audit: None,
            past_mib: self.past_mib,
        })
    }

    /// Serves, if it was asked for.
    pub(super) async fn serve(&self, about: http::About) -> Result<Option<Server>, Failure> {
        match self.address {
            Some(address) => self.serve_at(about, address).await.map(Some),
            None => Ok(None),
        }
    }

    /// The address that was given, or the usual one.
    pub(super) fn address_or_usual(&self) -> SocketAddr {
        self.address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], USUAL_PORT)))
    }

    /// Serves there.
    pub(super) async fn serve_at(
        &self,
        about: http::About,
        address: SocketAddr,
    ) -> Result<Server, Failure> {
        let mut terms = self.terms()?;
        terms.check(address).map_err(Failure::input)?;
        let audit = self.audit.as_ref().map(|path| Audit::open(path, &about.label));
        terms.audit = audit.transpose().map_err(Failure::world)?;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|why| Failure::world(format!("{address}: {why}")))?;
        http::serve(listener, about, terms).map_err(Failure::world)
    }
}
