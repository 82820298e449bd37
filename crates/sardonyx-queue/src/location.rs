//! Which queues, and where: one URL.
//!
//! Secrets come from the URL or from a file that it names; nothing here ever shows one.

use std::{fmt, path::PathBuf};

/// Why queues could not be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// What was asked for cannot be: this says what to write or to mend.
    NotConfigured(String),
    /// They cannot be reached now; try again later.
    Unavailable(String),
    /// They are damaged: this names the file and the place. Nothing was changed; restore a copy.
    Corrupt(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotConfigured(why) => f.write_str(why),
            OpenError::Unavailable(why) => write!(f, "the queues cannot be reached: {why}"),
            OpenError::Corrupt(why) => write!(f, "the queues are damaged: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What a URL names.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Location {
    Memory,
    Embedded(PathBuf),
    Remote(Served),
    Nats(Servers),
}

/// The queues of another process.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) address: String,
    pub(crate) token: Option<String>,
}

/// NATS servers, what the queues are called there, and how to get in.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Servers {
    /// `host:port`, at least one.
    pub(crate) hosts: Vec<String>,
    pub(crate) name: String,
    pub(crate) user: Option<(String, String)>,
    pub(crate) token: Option<String>,
    /// On how many servers everything is kept; as many as there are, up to three, if it is not said.
    pub(crate) n_replicas: Option<usize>,
}

const FORMS: &str =
    "write memory:, embedded:DIR, sardonyx://HOST:PORT or nats://HOST:4222,HOST:4222/NAME";

impl Location {
    pub(crate) fn parse(url: &str) -> Result<Location, OpenError> {
        let (scheme, rest) = url
            .split_once(':')
            .ok_or_else(|| wrong(url, &format!("it does not say what kind of queues; {FORMS}")))?;
        match (scheme, rest.strip_prefix("//")) {
            ("memory", None) if rest.is_empty() => Ok(Location::Memory),
            ("memory", _) => Err(wrong(url, "memory: takes nothing behind the colon")),
            ("embedded", None) if !rest.is_empty() => Ok(Location::Embedded(rest.into())),
            ("embedded", _) => Err(wrong(url, "write embedded:DIR")),
            ("sardonyx", Some(rest)) => {
                let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
                if address.contains('@') {
                    let why = "there are no users here: write sardonyx://HOST:PORT?token-file=FILE";
                    return Err(wrong(url, why));
                }
                let [token] = options_of(url, options, ["token-file"])?;
                let token = token.map(|file| secret("token-file", file)).transpose()?;
                Ok(Location::Remote(Served { address: checked_host(url, address)?, token }))
            }
            ("nats", Some(rest)) => Ok(Location::Nats(Servers::parse(url, rest)?)),
            ("sardonyx" | "nats", None) => {
                Err(wrong(url, &format!("// is missing behind {scheme}:")))
            }
            _ => Err(wrong(url, &format!("there are no queues {scheme:?}; {FORMS}"))),
        }
    }
}

impl Servers {
    fn parse(url: &str, rest: &str) -> Result<Servers, OpenError> {
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let known = ["password-file", "token-file", "replicas"];
        let [password, token, n_replicas] = options_of(url, options, known)?;
        let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let hosts = hosts.split(',').map(|host| checked_host(url, host));
        let hosts = hosts.collect::<Result<_, _>>()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            let why = "a name of up to 64 letters, digits, dashes and underscores stands behind the \
                       servers: …/NAME";
            return Err(wrong(url, why));
        }
        let user = match (user, password) {
            (None, None) => None,
            (None, Some(_)) => return Err(wrong(url, "password-file needs a user: USER@HOST")),
            (Some(user), Some(file)) => Some((user.to_owned(), secret("password-file", file)?)),
            (Some(user), None) => match user.split_once(':') {
                Some((user, password)) => Some((user.to_owned(), password.to_owned())),
                None => {
                    return Err(wrong(url, "a user needs password-file=FILE, or USER:PASSWORD@"));
                }
            },
        };
        let token = token.map(|file| secret("token-file", file)).transpose()?;
        let n_replicas = match n_replicas.map(str::parse) {
            None => None,
            Some(Ok(n @ (1 | 3 | 5))) => Some(n),
            Some(_) => return Err(wrong(url, "replicas is 1, 3 or 5")),
        };
        Ok(Servers { hosts, name: name.to_owned(), user, token, n_replicas })
    }
}

/// The values of the known options.
fn options_of<'a, const N: usize>(
    url: &str,
    options: &'a str,
    known: [&str; N],
) -> Result<[Option<&'a str>; N], OpenError> {
    let mut values = [None; N];
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| wrong(url, "options are written ?key=value&key=value"))?;
        let index = known.iter().position(|known| *known == key).ok_or_else(|| {
            wrong(url, &format!("there is no option {key:?}; the options are {}", known.join(", ")))
        })?;
        values[index] = Some(value);
    }
    Ok(values)
}

fn secret(key: &str, file: &str) -> Result<String, OpenError> {
    let read = std::fs::read_to_string(file);
    let secret = read.map_err(|why| OpenError::NotConfigured(format!("{key} {file}: {why}")))?;
    Ok(secret.trim_end_matches(['\r', '\n']).to_owned())
}

fn checked_host(url: &str, host: &str) -> Result<String, OpenError> {
    let port = host.rsplit_once(':').and_then(|(name, port)| {
        port.parse::<u16>().ok().filter(|port| *port != 0 && !name.is_empty())
    });
    match port {
        Some(_) => Ok(host.to_owned()),
        None => Err(wrong(url, &format!("{host:?} is not HOST:PORT"))),
    }
}

/// A complaint about a URL, without the secrets that may be in it or in its options.
fn wrong(url: &str, why: &str) -> OpenError {
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
    OpenError::NotConfigured(format!("{shown}{options} does not name queues: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(url: &str) -> String {
        let Err(OpenError::NotConfigured(why)) = Location::parse(url) else { panic!("{url}") };
        why
    }

    #[test]
    fn a_wrong_url_says_what_to_write() {
        for (url, advice) in [
            ("", "write memory:, embedded:DIR"),
            ("queues", "write memory:, embedded:DIR"),
            ("kafka://h:1/x", "nats://HOST:4222,HOST:4222/NAME"),
            ("memory:x", "nothing behind the colon"),
            ("embedded:", "write embedded:DIR"),
            ("embedded://x", "write embedded:DIR"),
            ("sardonyx:h:1", "// is missing"),
            ("sardonyx://h", "is not HOST:PORT"),
            ("sardonyx://h:0", "is not HOST:PORT"),
            ("sardonyx://h:1?tokenfile=x", "the options are token-file"),
            ("sardonyx://h:1?token-file", "?key=value"),
            ("sardonyx://h:1?token-file=/nowhere/at/all", "/nowhere/at/all"),
            ("nats://h:1", "…/NAME"),
            ("nats://h:1/a.b", "…/NAME"),
            ("nats://h:1,k/x", "is not HOST:PORT"),
            ("nats://u@h:1/x", "password-file=FILE"),
            ("nats://h:1/x?replicas=2", "replicas is 1, 3 or 5"),
        ] {
            let why = complaint(url);
            assert!(why.contains(advice), "{url}: {why}");
        }
    }

    #[test]
    fn a_complaint_shows_no_secret() {
        let why = complaint("sardonyx://u:pw1@h:1");
        assert!(why.contains("token-file") && !why.contains("pw1"), "{why}");
        let why = complaint("nats://u:pw1@h:1/x?password=pw2");
        assert!(!why.contains("pw1") && !why.contains("pw2"), "{why}");
    }
}
