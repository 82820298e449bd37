//! Who wants which events.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use super::{
    envelope::Raw,
    queue::{self, Receiver, Sender},
};
use crate::wire::limits::{EVENT_QUEUE_BYTES_MAX, EVENT_QUEUE_MAX};

/// All receivers at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    of_kind: BTreeMap<String, Vec<Sender<Raw>>>,
    any: Vec<Sender<Raw>>,
}

impl Wanted {
    /// Hands an event to everybody who wants its kind, and waits until each has room. False if
    /// nobody wants it; then it is handed back.
    pub(crate) async fn deliver(&self, raw: Raw) -> Result<(), Raw> {
        let of_kind = self.of_kind.get(&*raw.kind).map(Vec::as_slice).unwrap_or_default();
        let mut takers = of_kind.iter().chain(&self.any).filter(|it| !it.is_closed());
        let Some(first) = takers.next() else { return Err(raw) };
        let bytes = raw.body.len() + raw.kind.len();
        for other in takers {
            // Gone since: it wants nothing any more.
            let _ = other.send(raw.copy(), bytes).await;
        }
        let _ = first.send(raw, bytes).await;
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Receivers {
    wanted: RwLock<Arc<Wanted>>,
}

impl Receivers {
    /// A new receiver, for one kind or for all.
    pub(crate) fn add(&self, kind: Option<&str>) -> Receiver<Raw> {
        let (sender, receiver) = queue::queue(EVENT_QUEUE_MAX, EVENT_QUEUE_BYTES_MAX);
        let mut held = self.wanted.write().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = Wanted::clone(&held);
        match kind {
            Some(kind) => wanted.of_kind.entry(kind.to_owned()).or_default().push(sender),
            None => wanted.any.push(sender),
        }
        // Those that were dropped are forgotten here: there is no better moment.
        wanted.any.retain(|it| !it.is_closed());
        wanted.of_kind.retain(|_, of| {
            of.retain(|it| !it.is_closed());
            !of.is_empty()
        });
        *held = Arc::new(wanted);
        receiver
    }

    /// Who wants what, now.
    pub(crate) fn now(&self) -> Arc<Wanted> {
        Arc::clone(&self.wanted.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// No events will come any more.
    pub(crate) fn end(&self) {
        *self.wanted.write().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{
        address::{Address, Incarnation, NodeId},
        claim::Version,
    };

    fn raw(kind: &str, body: &'static [u8]) -> Raw {
        let address = Address::new("a", 1).unwrap();
        let from = Arc::new(NodeId { address, incarnation: Incarnation(1) });
        let (kind, body) = (kind.into(), Bytes::from_static(body));
        Raw { from, name: "".into(), version: Version(1), kind, body, reply: None }
    }

    fn kinds(receiver: &mut Receiver<Raw>) -> Vec<String> {
        std::iter::from_fn(|| receiver.try_recv()).map(|it| it.kind.to_string()).collect()
    }

    /// The receiver of a kind gets that kind whatever is in it, and the one for all gets all.
    #[tokio::test]
    async fn receivers_get_their_kind_and_nothing_else() {
        let receivers = Receivers::default();
        let (mut any, mut lists) = (receivers.add(None), receivers.add(Some("list")));
        let mut lists_too = receivers.add(Some("list"));
        for event in [raw("list", b"\x01\x02"), raw("int", b"\x07"), raw("list", b"\x01\x01a")] {
            assert!(receivers.now().deliver(event).await.is_ok());
        }
        assert_eq!(kinds(&mut any), ["list", "int", "list"]);
        assert_eq!(kinds(&mut lists), ["list", "list"]);
        assert_eq!(kinds(&mut lists_too), ["list", "list"]);
        drop(any);
        assert!(receivers.now().deliver(raw("int", b"")).await.is_err(), "nobody wants it");
        drop((lists, lists_too));
        let _again = receivers.add(Some("text"));
        assert!(receivers.now().of_kind.keys().eq(["text"]), "the dead are forgotten");
    }
}
