//! The keys of a task, as they lie on the servers.
//!
//! What a transaction says is carried out behind its commit, by whoever comes, and somebody may come late:
//! one that stood still and goes on when others are ten transactions further. So a value lies behind the
//! number of the transaction that wrote it, and whoever is late finds a later number and leaves it. A key
//! that was taken away stays as an empty envelope for the same reason.
//!
//! Not so a key that is used once ([`ONCE`]): nobody will read what a late writer could bring back of it,
//! and of such keys a stream leaves thousands in an hour, each of which would keep a file of the servers.

use bytes::Bytes;

use super::{
    desk,
    servers::{Servers, Unwritten},
};
use crate::{
    session::Place,
    transaction::{Key, ONCE, Refused},
};

/// A value as it lies on the servers, behind the transaction that wrote it; `None` has been taken away.
pub(super) fn envelope(n: u64, value: Option<&Bytes>) -> Bytes {
    let mut envelope = n.to_le_bytes().to_vec();
    envelope.push(u8::from(value.is_some()));
    envelope.extend_from_slice(value.map_or(&[], |value| value));
    Bytes::from(envelope)
}

/// What is in an envelope; `None` if it is none of ours.
pub(super) fn opened(bytes: &Bytes) -> Option<(u64, Option<Bytes>)> {
    let (n, rest) = bytes.split_first_chunk::<8>()?;
    let value = rest.first().filter(|tag| **tag == 1).map(|_| bytes.slice(9..));
    Some((u64::from_le_bytes(*n), value))
}

/// A key's revision, its value, and the transaction that wrote it.
async fn look(servers: &Servers, subject: &str) -> Result<(u64, u64, Option<Bytes>), Refused> {
    let Some((revision, bytes)) = servers.read(subject).await? else { return Ok((0, 0, None)) };
    let strange = || Refused::Unavailable(format!("{subject} is not a key of ours"));
    let (n, value) = opened(&bytes).ok_or_else(strange)?;
    Ok((revision, n, value))
}

/// A key's revision and value.
pub(crate) async fn read(
    servers: &Servers,
    place: &Place,
    key: &str,
) -> Result<(u64, Option<Bytes>), Refused> {
    let (revision, _, value) = look(servers, &servers.names.key(place, key)?).await?;
    Ok((revision, value))
}

/// Writes a key, unless a later transaction has.
pub(super) async fn put(
    servers: &Servers,
    place: &Place,
    key: &Key,
    value: Option<Bytes>,
    n: u64,
) -> Result<(), Refused> {
    let subject = servers.names.key(place, key)?;
    let envelope = envelope(n, value.as_ref());
    loop {
        let (revision, written_by, _) = look(servers, &subject).await?;
        if written_by >= n {
            return Ok(());
        }
        if key.starts_with(ONCE) {
            match (&value, revision) {
                (None, 0) => return Ok(()),
                (None, _) => return servers.forget(revision).await,
                // It may have been taken away, and then nothing is left that says so.
                (Some(_), 0) if !desk::is_open(servers, place, n).await? => return Ok(()),
                (Some(_), _) => {}
            }
        }
        match servers.write(&subject, revision, envelope.clone()).await {
            Ok(_) => return Ok(()),
            Err(Unwritten::Changed) => {}
            Err(Unwritten::Unknown(why)) => return Err(Refused::Unavailable(why)),
        }
    }
}
