//! Which cluster a command is about, and saying something to it.

use std::io::{self, Write};

use clap::Args;
use sardonyx_core::Command;
use sardonyx_peer::{Client, Said};
use sardonyx_store::{Location, Store};
use serde_json::json;

use super::{Failure, open_existing};

/// Where a cluster is if nobody says otherwise.
const STORE: &str = "embedded:sardonyx-data";

/// Which cluster.
#[derive(Args)]
pub(super) struct At {
    /// The store: embedded:DIR, sardonyx://HOST:PORT, etcd://HOST:2379/NAME,
    /// zookeeper://HOST:2181/NAME
    #[arg(long, value_name = "URL", default_value = STORE)]
    store: String,

    /// The cluster's name, where one store has several: instead of /NAME in the URL, or a
    /// directory below DIR
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
}

impl At {
    /// The URL with the cluster's name in its place.
    pub(super) fn url(&self) -> Result<String, Failure> {
        match &self.cluster {
            Some(name) => with_name(&self.store, name),
            None => Ok(self.store.clone()),
        }
    }

    /// The cluster's name, for those who are not its store: that of the URL if it has one.
    pub(super) fn name(&self) -> Result<String, Failure> {
        const NAMELESS: &str = "sardonyx";
        let url = self.url()?;
        // What is asked for behind the question mark may have slashes too.
        let bare = url.split('?').next().unwrap_or_default();
        let path = bare.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let named = path.map(|(_, path)| path).filter(|it| !it.is_empty());
        Ok(self.cluster.as_deref().or(named).unwrap_or(NAMELESS).to_owned())
    }

    /// Opens the store to look into it.
    pub(super) async fn open(&self) -> Result<Store, Failure> {
        open_existing(&self.url()?).await
    }
}

fn with_name(url: &str, name: &str) -> Result<String, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(is_plain) || matches!(name, "." | "..") {
        let forms = "a name has letters, digits, dots, dashes and underscores";
        return Err(Failure::input(format!("--cluster {name:?}: {forms}")));
    }
    if let Some(dir) = url.strip_prefix("embedded:") {
        return Ok(format!("embedded:{}/{name}", dir.trim_end_matches('/')));
    }
    let is_named = url.starts_with("etcd://") || url.starts_with("zookeeper://");
    if !is_named {
        let why = "this store has one cluster: leave --cluster out";
        return Err(Failure::input(format!("--cluster {name}: {why}")));
    }
    let (rest, options) = url.split_once('?').map_or((url, None), |(a, b)| (a, Some(b)));
    let hosts = rest.find("://").map_or(0, |at| at + 3);
    let named = match rest[hosts..].split_once('/') {
        None => format!("{rest}/{name}"),
        Some((_, "")) => format!("{rest}{name}"),
        Some((_, there)) if there == name => rest.to_owned(),
        Some((_, there)) => {
            let why = format!("the URL names the cluster {there:?}: leave one of the two out");
            return Err(Failure::input(format!("--cluster {name}: {why}")));
        }
    };
    let url = options.map_or(named.clone(), |options| format!("{named}?{options}"));
    Location::parse(&url)?;
    Ok(url)
}

/// Says `command`, waits until it is played, and prints what became of it.
pub(super) async fn say(
    client: &mut Client,
    command: &Command,
    what: &str,
    json: bool,
) -> Result<(), Failure> {
    let Said { position, outcome } = client.say(command).await?;
    let rejected = outcome.as_ref().and_then(|outcome| outcome.as_ref().err());
    let why = rejected.map(ToString::to_string);
    let mut out = io::stdout().lock();
    if json {
        let applied = outcome.as_ref().map(Result::is_ok);
        let line = json!({
            "id": position, "fn": command.name(), "what": what, "applied": applied,
            "rejected": why,
        });
        writeln!(out, "{line}")?;
    }
    match (why, outcome.is_some()) {
        (Some(why), _) => Err(Failure::input(format!("rejected at entry {position}: {why}"))),
        (None, true) if !json => Ok(writeln!(out, "{what}: applied at entry {position}")?),
        (None, false) if !json => Ok(writeln!(
            out,
            "{what}: appended at entry {position}, but the log was trimmed before it was read \
             here; look with `sardonyx jobs`"
        )?),
        (None, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_the_name_that_its_url_has() {
        let name = |store: &str, cluster: Option<&str>| {
            At { store: store.into(), cluster: cluster.map(str::to_owned) }.name().map_err(|_| ())
        };
        assert_eq!(name("embedded:data", None), Ok("sardonyx".into()));
        assert_eq!(name("embedded:data", Some("prod")), Ok("prod".into()));
        assert_eq!(name("sardonyx://127.0.0.1:7440?token-file=/a/b", None), Ok("sardonyx".into()));
        assert_eq!(name("etcd://a:1,b:2/prod?user=u", None), Ok("prod".into()));
        assert_eq!(name("etcd://a:1", Some("prod")), Ok("prod".into()));
    }

    #[test]
    fn a_name_finds_its_place_in_every_url() {
        let named = |url: &str| with_name(url, "prod").map_err(|_| ());
        assert_eq!(named("embedded:data/"), Ok("embedded:data/prod".into()));
        assert_eq!(named("etcd://a:1,b:2"), Ok("etcd://a:1,b:2/prod".into()));
        assert_eq!(named("etcd://a:1/"), Ok("etcd://a:1/prod".into()));
        assert_eq!(named("etcd://a:1/prod"), Ok("etcd://a:1/prod".into()));
        assert_eq!(named("zookeeper://a:1?user=u"), Ok("zookeeper://a:1/prod?user=u".into()));
        assert_eq!(named("etcd://a:1/test"), Err(()));
        assert_eq!(named("sardonyx://a:1"), Err(()));
        assert_eq!(with_name("embedded:data", "..").map_err(|_| ()), Err(()));
    }
}
