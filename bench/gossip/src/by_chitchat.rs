//! Members of chitchat, as its documentation sets them up.

use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};

use async_trait::async_trait;
use chitchat::{
    ChitchatConfig, ChitchatEnvelope, ChitchatHandle, ChitchatId, FailureDetectorConfig,
    ProtocolVersion, spawn_chitchat,
    transport::{RecvOutcome, SendOutcome, Socket, Transport, UdpTransport},
};

use crate::{Member, SENT};

pub struct Chitchat(ChitchatHandle);

impl Member for Chitchat {
    async fn start(
        me: SocketAddr,
        seeds: &[SocketAddr],
        _size: u32,
        every: Duration,
    ) -> anyhow::Result<Chitchat> {
        let config = ChitchatConfig {
            chitchat_id: ChitchatId::new(me.to_string(), 0, me),
            cluster_id: "bench".into(),
            gossip_interval: every,
            listen_addr: me,
            seed_nodes: seeds.iter().map(ToString::to_string).collect(),
            failure_detector_config: FailureDetectorConfig {
                initial_interval: every,
                ..FailureDetectorConfig::default()
            },
            marked_for_deletion_grace_period: Duration::from_secs(3600),
            catchup_callback: None,
            extra_liveness_predicate: None,
            protocol_version: ProtocolVersion::V1,
        };
        Ok(Chitchat(spawn_chitchat(config, Vec::new(), &Counted).await?))
    }

    async fn sees(&self) -> usize {
        self.0.with_chitchat(|it| it.live_nodes().count()).await
    }

    fn stop(self) {
        self.0.abort();
    }
}

/// UDP that counts.
struct Counted;

#[async_trait]
impl Transport for Counted {
    async fn open(&self, listen: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        Ok(Box::new(CountedSocket(UdpTransport.open(listen).await?)))
    }
}

struct CountedSocket(Box<dyn Socket>);

#[async_trait]
impl Socket for CountedSocket {
    fn local_addr(&self) -> anyhow::Result<SocketAddr> {
        self.0.local_addr()
    }

    async fn send(
        &mut self,
        to: SocketAddr,
        message: ChitchatEnvelope,
    ) -> anyhow::Result<SendOutcome> {
        let sent = self.0.send(to, message).await?;
        SENT.fetch_add(sent.num_bytes_sent as u64, Ordering::Relaxed);
        Ok(sent)
    }

    async fn recv(&mut self) -> anyhow::Result<RecvOutcome> {
        self.0.recv().await
    }
}
