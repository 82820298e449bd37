//! Which store, and where: one URL.
//!
//! Secrets come from the URL or from a file that it names; nothing here ever shows one.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use crate::error::{Error, Result};

/// What a URL names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// In this process.
    Memory,
    /// In a directory of this machine.
    Embedded(PathBuf),
    /// In another process's directory.
    Remote(Servers),
    /// In etcd.
    Etcd(Servers),
    /// In ZooKeeper.
    ZooKeeper(Servers),
}

/// Servers, what to call the cluster there, and how to get in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Servers {
    /// `host:port`, at least one.
    pub hosts: Vec<String>,
    /// The cluster's name there; any number of clusters share one store. Empty for a remote store.
    pub name: String,
    /// Who we are.
    pub user: Option<String>,
    /// How we prove it: a password, or the token of a remote store.
    pub secret: Option<Secret>,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Whom to trust, as PEM; the system's own roots do not count.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key, as PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether trimming also compacts etcd, which forgets the past of everybody's keys there.
    pub compact: bool,
}

/// Something that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Secret {
        Secret(secret.into())
    }

    /// The secret itself, for the server only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

const FORMS: &str = "write memory:, embedded:DIR, sardonyx://HOST:PORT, \
    etcd://HOST:2379,HOST:2379/NAME or zookeeper://HOST:2181,HOST:2181/NAME";

impl Location {
    /// Reads a URL.
    pub fn parse(url: &str) -> Result<Location> {
        let (scheme, rest) = url
            .split_once(':')
            .ok_or_else(|| wrong(url, &format!("it does not say what kind of store; {FORMS}")))?;
        match (scheme, rest.strip_prefix("//")) {
            ("memory", None) if rest.is_empty() => Ok(Location::Memory),
            ("memory", _) => Err(wrong(url, "memory: takes nothing behind the colon")),
            ("embedded", None) if !rest.is_empty() => Ok(Location::Embedded(rest.into())),
            ("embedded", _) => Err(wrong(url, "write embedded:DIR")),
            ("sardonyx", Some(rest)) => {
                let servers = Servers::parse(url, rest, false)?;
                match (servers.hosts.len(), servers.name.is_empty()) {
                    (1, true) => Ok(Location::Remote(servers)),
                    _ => Err(wrong(url, "write sardonyx://HOST:PORT")),
                }
            }
            ("etcd", Some(rest)) => Ok(Location::Etcd(Servers::parse(url, rest, true)?)),
            ("zookeeper", Some(rest)) => Ok(Location::ZooKeeper(Servers::parse(url, rest, true)?)),
            ("sardonyx" | "etcd" | "zookeeper", None) => {
                Err(wrong(url, &format!("// is missing behind {scheme}:")))
            }
            _ => Err(wrong(url, &format!("there is no store {scheme:?}; {FORMS}"))),
        }
    }
}

impl Servers {
    fn parse(url: &str, rest: &str, is_named: bool) -> Result<Servers> {
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
        let (user_info, hosts) = match authority.rsplit_once('@') {
            Some((user_info, hosts)) => (Some(user_info), hosts),
            None => (None, authority),
        };
        let mut options = read_options(url, options)?;
        let (user, password) = match user_info.map(|it| it.split_once(':').unwrap_or((it, ""))) {
            Some((user, password)) => (Some(decode(url, user)?), Some(decode(url, password)?)),
            None => (options.remove("user"), None),
        };
        let mut secret = password.filter(|it| !it.is_empty()).map(Secret);
        for key in ["password-file", "token-file"] {
            if let Some(file) = options.remove(key) {
                secret = Some(read_secret(key, &file)?);
            }
        }
        let ca = options.remove("ca").map(PathBuf::from);
        let identity = match (options.remove("cert"), options.remove("key")) {
            (Some(cert), Some(key)) => Some((cert.into(), key.into())),
            (None, None) => None,
            _ => return Err(wrong(url, "cert=FILE and key=FILE go together")),
        };
        let tls = match options.remove("tls").as_deref() {
            Some("true") => true,
            None => ca.is_some() || identity.is_some(),
            Some("false") if ca.is_none() && identity.is_none() => false,
            Some(_) => return Err(wrong(url, "tls is true or false, and true with ca or cert")),
        };
        let compact = match options.remove("compact").as_deref() {
            None | Some("false") => false,
            Some("true") if url.starts_with("etcd:") => true,
            Some("true") => return Err(wrong(url, "compact=true is for etcd alone")),
            Some(_) => return Err(wrong(url, "compact is true or false")),
        };
        if let Some(key) = options.keys().next() {
            let known = "user, password-file, token-file, tls, ca, cert, key, compact";
            return Err(wrong(
                url,
                &format!("there is no option {key:?}; the options are {known}"),
            ));
        }
        let hosts = hosts.split(',').map(|host| checked_host(url, host)).collect::<Result<_>>()?;
        check_name(url, name, is_named)?;
        Ok(Servers { hosts, name: name.to_owned(), user, secret, tls, ca, identity, compact })
    }
}

fn read_options(url: &str, options: &str) -> Result<BTreeMap<String, String>> {
    let pairs = options.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| match pair.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), decode(url, value)?)),
        None => Err(wrong(url, "options are written ?key=value&key=value")),
    };
    pairs.map(pair).collect()
}

fn checked_host(url: &str, host: &str) -> Result<String> {
    let port = host.rsplit_once(':').and_then(|(name, port)| {
        port.parse::<u16>().ok().filter(|port| *port != 0 && !name.is_empty())
    });
    match port {
        Some(_) => Ok(host.to_owned()),
        None => Err(wrong(url, &format!("{host:?} is not HOST:PORT"))),
    }
}

/// The name becomes part of keys and paths, so it has no room for surprises.
fn check_name(url: &str, name: &str, is_named: bool) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if is_named && name.is_empty() {
        return Err(wrong(url, "the cluster's name is missing behind the servers: …/NAME"));
    }
    match name.chars().all(is_plain) && !matches!(name, "." | "..") && name.len() <= 64 {
        true => Ok(()),
        false => Err(wrong(url, "a name has up to 64 letters, digits, dots, dashes, underscores")),
    }
}

fn decode(url: &str, text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.ok_or_else(|| wrong(url, "% is followed by two hex digits"))?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong(url, "it is not UTF-8"))
}

fn read_secret(key: &str, file: &str) -> Result<Secret> {
    let read = std::fs::read_to_string(file);
    let secret = read.map_err(|why| Error::NotConfigured(format!("{key} {file}: {why}")))?;
    Ok(Secret(secret.trim_end_matches(['\r', '\n']).to_owned()))
}

/// A complaint about a URL, without the secrets that may be in it or in its options.
fn wrong(url: &str, why: &str) -> Error {
    let (url, options) = match url.split_once('?') {
        Some((url, _)) => (url, "?…"),
        None => (url, ""),
    };
    let shown = match (url.find("://"), url.rfind('@')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}://…{}", &url[..start], &url[end..])
        }
        _ => url.to_owned(),
    };
    Error::NotConfigured(format!("{shown}{options} does not name a store: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody may take an option for one that has a password.
    #[test]
    fn a_complaint_shows_no_value_of_an_option() {
        let why = Location::parse("etcd://u:pw1@h:1/x?password=pw2").unwrap_err().to_string();
        assert!(!why.contains("pw1") && !why.contains("pw2"), "{why}");
        assert!(why.starts_with("etcd://…@h:1/x?… does not name a store"), "{why}");
    }
}
