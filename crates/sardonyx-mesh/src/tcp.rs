//! Sockets.

pub mod tls;

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};

use crate::address::Address;

/// How many connections the kernel may keep until they are accepted.
const BACKLOG: u32 = 1_024;

/// Opens the port that others dial. The address must be one of this machine's.
pub(crate) async fn listen(at: &Address) -> io::Result<TcpListener> {
    let say = |why: io::Error| io::Error::new(why.kind(), format!("cannot listen on {at}: {why}"));
    let place = resolve(at).await.map_err(say)?;
    let socket = if place.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A node that restarts takes its port back at once.
    socket.set_reuseaddr(true)?;
    socket.bind(place).map_err(say)?;
    socket.listen(BACKLOG).map_err(say)
}

pub(crate) async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, String)> {
    let (stream, from) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, from.to_string()))
}

pub(crate) async fn dial(to: &Address) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(resolve(to).await?).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn resolve(address: &Address) -> io::Result<SocketAddr> {
    // Numbers need no resolver, and no thread that waits for one.
    if let Ok(ip) = address.host().parse() {
        return Ok(SocketAddr::new(ip, address.port()));
    }
    let mut found = lookup_host((address.host(), address.port())).await?;
    let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("{address} has no address"));
    found.next().ok_or_else(unknown)
}
