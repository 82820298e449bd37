//! Members of foca, which wants sockets and timers from us.

use std::{
    net::SocketAddr,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use foca::{AccumulatingRuntime, Config, PostcardCodec, Timer};
use tokio::{net::UdpSocket, sync::mpsc, task::JoinHandle};

use crate::{Member, SENT};

pub struct Foca {
    seen: Arc<AtomicUsize>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Member for Foca {
    async fn start(
        me: SocketAddr,
        seeds: &[SocketAddr],
        size: u32,
        every: Duration,
    ) -> anyhow::Result<Foca> {
        let socket = UdpSocket::bind(me).await?;
        let size = NonZeroU32::new(size).ok_or_else(|| anyhow::anyhow!("no members"))?;
        // What it recommends for a local network, where every second counts, at our pace.
        let mut config = Config::new_lan(size);
        let times = every.as_secs_f64() / config.probe_period.as_secs_f64();
        config.probe_rtt = config.probe_rtt.mul_f64(times);
        config.suspect_to_down_after = config.suspect_to_down_after.mul_f64(times);
        config.probe_period = every;
        for periodic in [
            &mut config.periodic_announce,
            &mut config.periodic_announce_to_down_members,
            &mut config.periodic_gossip,
        ] {
            if let Some(params) = periodic {
                params.frequency = params.frequency.mul_f64(times);
            }
        }
        let seen = Arc::new(AtomicUsize::new(1));
        let seeds = seeds.iter().copied().filter(|it| *it != me).collect();
        let task = tokio::spawn(run(socket, me, seeds, config, Arc::clone(&seen)));
        Ok(Foca { seen, task })
    }

    async fn sees(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }

    fn stop(self) {
        self.task.abort();
    }
}

async fn run(
    socket: UdpSocket,
    me: SocketAddr,
    seeds: Vec<SocketAddr>,
    config: Config,
    seen: Arc<AtomicUsize>,
) -> anyhow::Result<()> {
    let rng: rand::rngs::SmallRng = rand::make_rng();
    let mut foca = foca::Foca::new(me, config, rng, PostcardCodec);
    let mut todo = AccumulatingRuntime::new();
    let (rings, mut rung) = mpsc::unbounded_channel::<Timer<SocketAddr>>();
    for seed in seeds {
        foca.announce(seed, &mut todo)?;
    }
    let mut buffer = vec![0; 64 * 1024];
    loop {
        while let Some((to, bytes)) = todo.to_send() {
            // Whoever has stopped does not hear it; that is what is measured.
            let _ = socket.send_to(&bytes, to).await;
            SENT.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        while let Some((after, timer)) = todo.to_schedule() {
            let rings = rings.clone();
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                let _ = rings.send(timer);
            });
        }
        while todo.to_notify().is_some() {}
        seen.store(foca.iter_members().count() + 1, Ordering::Relaxed);
        tokio::select! {
            got = socket.recv_from(&mut buffer) => {
                if let Ok((n, _)) = got {
                    // A packet that makes no sense is dropped.
                    let _ = foca.handle_data(&buffer[..n], &mut todo);
                }
            }
            Some(timer) = rung.recv() => {
                let _ = foca.handle_timer(timer, &mut todo);
            }
        }
    }
}
