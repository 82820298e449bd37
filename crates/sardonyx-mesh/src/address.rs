//! Who a member is: an address, and which life it lives there.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Where a member listens, as everybody else names it.
///
/// Addresses are ordered by host as text, then by port as a number. The larger one wins a conflict
/// of two leaders that are otherwise equal; the connection that the smaller one opened is kept.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    host: String,
    port: u16,
}

/// The longest host name, as in the DNS.
pub const HOST_BYTES_MAX: usize = 253;

/// A text that is no address, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadAddress(String);

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadAddress {}

impl Address {
    /// An address of a host and a port, checked.
    pub fn new(host: &str, port: u16) -> Result<Address, BadAddress> {
        let bad = |why: &str| Err(BadAddress(format!("{why}: write an address as host:port")));
        if host.is_empty() || host.chars().any(|it| it.is_whitespace() || it.is_control()) {
            return bad("the host is blank or has spaces");
        }
        if host.len() > HOST_BYTES_MAX {
            return bad("the host has more than 253 bytes");
        }
        if host.contains(['[', ']', '/', '@']) {
            return bad("the host has one of [ ] / @ in it");
        }
        if port == 0 {
            return bad("port 0 is nobody's: use 1 to 65535");
        }
        Ok(Address { host: host.to_owned(), port })
    }

    /// The host: a name, an IPv4 or an IPv6 address, the latter without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

// Traces are read by people.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Address, BadAddress> {
        let bad = || BadAddress(format!("{text:?} is no address: write host:port"));
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let port: u16 = port.parse().map_err(|_| {
            BadAddress(format!("{text:?} has no port from 1 to 65535: write host:port"))
        })?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(bad)?,
            None if host.contains(':') => {
                let hint = format!("{text:?} looks like IPv6: write [{host}]:{port}");
                return Err(BadAddress(hint));
            }
            None => host,
        };
        Address::new(host, port)
    }
}

impl TryFrom<String> for Address {
    type Error = BadAddress;

    fn try_from(text: String) -> Result<Address, BadAddress> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

/// One life of a member: larger than that of every earlier process at the same address.
///
/// The runtime makes it, from the last one that was kept and from the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// A process: an address and its incarnation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId {
    /// Where it listens.
    pub address: Address,
    /// Which life it lives there.
    pub incarnation: Incarnation,
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.address, self.incarnation.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in ["a:1", "127.0.0.1:16389", "[::1]:65535", "node-1.example.org:80"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_advice() {
        for text in ["", "a", "a:", ":1", "a:0", "a:65536", "a:-1", "::1:80", "[::1:80", "a b:1"] {
            let refused = text.parse::<Address>().unwrap_err().to_string();
            assert!(refused.contains("write"), "{text:?}: {refused}");
        }
        let long = "a".repeat(HOST_BYTES_MAX);
        assert!(Address::new(&long, 1).is_ok());
        assert!(Address::new(&format!("{long}a"), 1).is_err());
    }

    #[test]
    fn hosts_compare_as_text_and_ports_as_numbers() {
        let sorted = ["10.0.0.10:1", "10.0.0.9:1", "a:9", "a:10", "b:1"];
        let mut read: Vec<Address> = sorted.iter().map(|it| it.parse().unwrap()).collect();
        read.reverse();
        read.sort();
        assert_eq!(read.iter().map(ToString::to_string).collect::<Vec<_>>(), sorted);
    }
}
