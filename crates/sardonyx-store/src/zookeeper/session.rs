//! A session is a ZooKeeper session: a client of its own.
//!
//! The client is detached: dropping it ends the signs of life and not the session, as when the
//! process dies. Closing connects to the session once more, this time not detached, and drops
//! that.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use sardonyx_core::PeerId;
use tokio::sync::watch;
use zookeeper_client::{
    Client, CreateMode, Error as ZkError, SessionInfo, SessionState, StateWatcher,
};

use super::{
    client::{Zk, call, escape, judge, raw},
    items,
};
use crate::{
    backend::{Committed, Lease, Txn},
    error::{Error, Result},
    local::session_lost,
    token::lock,
};

pub(super) struct ZkLease {
    zk: Arc<Zk>,
    root: String,
    client: Mutex<Option<Client>>,
    session: SessionInfo,
    timeout: Duration,
    lost: watch::Receiver<bool>,
    watching: tokio::task::AbortHandle,
}

impl ZkLease {
    pub(super) async fn open(zk: Arc<Zk>, root: &str, timeout: Duration) -> Result<ZkLease> {
        let connector = zk.connector()?.with_session_timeout(timeout).with_detached();
        let client = zk.connect(connector).await?;
        let (session, timeout) = (client.session().clone(), client.session_timeout());
        let (lost, is_lost) = watch::channel(false);
        let states = client.state_watcher();
        let watching = tokio::spawn(async move {
            end_of_session(states, timeout).await;
            lost.send_replace(true);
        });
        Ok(ZkLease {
            zk,
            root: root.to_owned(),
            client: Mutex::new(Some(client)),
            session,
            timeout,
            lost: is_lost,
            watching: watching.abort_handle(),
        })
    }

    fn client(&self) -> Result<Client> {
        let client = lock(&self.client).clone().filter(|_| !*self.lost.borrow());
        client.filter(|client| !client.state().is_terminated()).ok_or_else(session_lost)
    }

    fn pulse_path(&self, peer: &PeerId) -> String {
        format!("{}/pulse/{}", self.root, escape(peer.as_str()))
    }
}

/// Returns when the session has ended, or may have: the client notices that it is cut off within
/// two fifths of the timeout, so after three more the servers may have given up on it.
async fn end_of_session(mut states: StateWatcher, timeout: Duration) {
    let mut state = states.peek_state();
    loop {
        let is_cut_off = state == SessionState::Disconnected;
        let patience = if is_cut_off { timeout * 3 / 5 } else { Duration::from_secs(3600) };
        if state.is_terminated() {
            return;
        }
        match tokio::time::timeout(patience, states.changed()).await {
            Ok(changed) => state = changed,
            Err(_) if is_cut_off => return,
            Err(_) => {}
        }
    }
}

impl Drop for ZkLease {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

#[async_trait]
impl Lease for ZkLease {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    async fn pulse(&self, peer: &PeerId) -> Result<()> {
        let (client, path) = (self.client()?, self.pulse_path(peer));
        let options = self.zk.options(CreateMode::Ephemeral);
        loop {
            match raw(client.create(&path, b"", &options)).await? {
                Ok(_) => return Ok(()),
                Err(ZkError::NodeExists) => {}
                Err(why) => return Err(judge_session(&why)),
            }
            // Ours, if an answer was lost. Otherwise another session's, which must not end ours.
            let stat = call(client.check_stat(&path)).await?;
            match stat {
                Some(stat) if stat.ephemeral_owner == self.session.id().0 => return Ok(()),
                Some(_) => match raw(client.delete(&path, None)).await? {
                    Ok(()) | Err(ZkError::NoNode) => {}
                    Err(why) => return Err(judge_session(&why)),
                },
                None => {}
            }
        }
    }

    async fn end_pulse(&self, peer: &PeerId) -> Result<()> {
        let (client, path) = (self.client()?, self.pulse_path(peer));
        match raw(client.delete(&path, None)).await? {
            Ok(()) | Err(ZkError::NoNode) => Ok(()),
            Err(why) => Err(judge_session(&why)),
        }
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        let client = self.client()?;
        let committed = items::commit(&client, &self.zk, &self.root, txn).await;
        // The client may have heard of the end only now.
        match client.state().is_terminated() {
            true => Err(session_lost()),
            false => committed,
        }
    }

    async fn close(&self) -> Result<()> {
        self.abandon();
        if *self.lost.borrow() {
            return Ok(());
        }
        let connector = self.zk.connector()?.with_session(self.session.clone());
        match self.zk.connect(connector.with_session_timeout(self.timeout)).await {
            // Dropping it closes the session.
            Ok(client) => drop(client),
            Err(Error::SessionLost(_)) => {}
            Err(why) => return Err(why),
        }
        Ok(())
    }

    fn abandon(&self) {
        self.watching.abort();
        drop(lock(&self.client).take());
    }
}

fn judge_session(why: &ZkError) -> Error {
    let has_ended =
        matches!(why, ZkError::SessionExpired | ZkError::ClientClosed | ZkError::SessionMoved);
    if has_ended { session_lost() } else { judge(why) }
}
