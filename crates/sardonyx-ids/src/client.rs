//! A client of the raw service that asks ahead: most ids are there before they are wanted.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

use crate::layout::Id;

/// Ids from a service, in batches fetched ahead. Ids that nobody took when it is dropped are lost,
/// which costs nothing but numbers. Ids that were fetched a while ago carry the time of then.
#[derive(Debug)]
pub struct Client {
    batches: mpsc::Receiver<io::Result<Vec<Id>>>,
    batch: std::vec::IntoIter<Id>,
}

impl Client {
    /// Connects to the raw port of a service. `batch` ids are asked for at a time, and one batch
    /// is kept ready.
    pub async fn connect(address: &str, batch: u32) -> io::Result<Client> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, batches) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let fetched = fetch(&mut stream, batch.max(1)).await;
                let has_failed = fetched.is_err();
                if sender.send(fetched).await.is_err() || has_failed {
                    return;
                }
            }
        });
        Ok(Client { batches, batch: Vec::new().into_iter() })
    }

    /// The next id. An error is final: connect again.
    pub async fn next(&mut self) -> io::Result<Id> {
        loop {
            if let Some(id) = self.batch.next() {
                return Ok(id);
            }
            let closed = || io::Error::new(io::ErrorKind::NotConnected, "connect again");
            self.batch = self.batches.recv().await.ok_or_else(closed)??.into_iter();
        }
    }
}

/// How long a service that is not ready is given before it is asked again.
const NOT_READY: Duration = Duration::from_millis(200);

async fn fetch(stream: &mut TcpStream, batch: u32) -> io::Result<Vec<Id>> {
    loop {
        stream.write_all(&batch.to_le_bytes()).await?;
        let n = stream.read_u32_le().await?;
        if n == 0 {
            let after = match stream.read_u32_le().await? {
                u32::MAX => NOT_READY,
                millis => Duration::from_millis(millis.into()),
            };
            tokio::time::sleep(after).await;
            continue;
        }
        if n > batch {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more ids than were asked for"));
        }
        let mut ids = Vec::with_capacity(n as usize);
        for _ in 0..n {
            let bits = stream.read_u64_le().await?;
            let no_id = || io::Error::new(io::ErrorKind::InvalidData, "no id has a sign");
            ids.push(Id::from_bits(bits).ok_or_else(no_id)?);
        }
        return Ok(ids);
    }
}
