//! Ways to reach other nodes: real sockets, with or without TLS, or pipes inside one process.

use std::{io, pin::Pin};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    address::Address,
    memory::{self, Hub},
    tcp::{self, tls::Tls},
};

/// A connection in both directions.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

pub(crate) type Stream = Pin<Box<dyn Duplex>>;

/// How nodes reach each other.
#[derive(Clone, Debug)]
pub enum Network {
    /// Sockets.
    Tcp,
    /// Sockets with TLS 1.3 and certificates on both sides.
    Tls(Tls),
    /// Pipes between nodes of one process.
    Memory(Hub),
}

/// A connection before anybody greeted, and what is known of the other side by its certificate.
pub(crate) struct Met {
    pub(crate) stream: Stream,
    pub(crate) certificate: tcp::tls::Certificate,
}

pub(crate) enum Listener {
    Tcp(tokio::net::TcpListener),
    Tls(tokio::net::TcpListener, Tls),
    Memory(memory::Listener),
}

/// Somebody knocked; nothing was read yet.
pub(crate) enum Knock {
    Plain(Stream),
    Tls(Box<tokio::net::TcpStream>, Tls),
}

impl Network {
    pub(crate) async fn listen(&self, at: &Address) -> io::Result<Listener> {
        Ok(match self {
            Network::Tcp => Listener::Tcp(tcp::listen(at).await?),
            Network::Tls(tls) => Listener::Tls(tcp::listen(at).await?, tls.clone()),
            Network::Memory(hub) => Listener::Memory(hub.listen(at)?),
        })
    }

    pub(crate) async fn dial(&self, from: &Address, to: &Address) -> io::Result<Met> {
        match self {
            Network::Tcp => Ok(Met::plain(Box::pin(tcp::dial(to).await?))),
            Network::Tls(tls) => tls.connect(tcp::dial(to).await?, to).await,
            Network::Memory(hub) => Ok(Met::plain(Box::pin(hub.dial(from, to).await?))),
        }
    }
}

impl Met {
    fn plain(stream: Stream) -> Met {
        Met { stream, certificate: tcp::tls::Certificate::NotAsked }
    }
}

impl Listener {
    /// The next one who knocks, and from where, for the log.
    pub(crate) async fn accept(&mut self) -> io::Result<(Knock, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, from) = tcp::accept(listener).await?;
                Ok((Knock::Plain(Box::pin(stream)), from))
            }
            Listener::Tls(listener, tls) => {
                let (stream, from) = tcp::accept(listener).await?;
                Ok((Knock::Tls(Box::new(stream), tls.clone()), from))
            }
            Listener::Memory(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Knock::Plain(Box::pin(stream)), from))
            }
        }
    }
}

impl Knock {
    /// Lets it into the hall: with TLS, certificates are shown now.
    pub(crate) async fn open(self) -> io::Result<Met> {
        match self {
            Knock::Plain(stream) => Ok(Met::plain(stream)),
            Knock::Tls(stream, tls) => tls.accept(*stream).await,
        }
    }
}
