//! Cut lines and dead leaders: no two may act, and the rest goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sardonyx_mesh::{Address, Mesh, Profile, Quality, Version};

use crate::cluster::{Cluster, Kind, eventually};

/// Looks at the tokens of all nodes all the time, on a thread of its own.
struct Auditor {
    stop: Arc<AtomicBool>,
    looks: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<Result<(), String>>,
}

impl Auditor {
    fn new(nodes: Vec<Arc<Mesh>>) -> Auditor {
        let (stop, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&looks));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                counted.fetch_add(1, Ordering::Relaxed);
                let Some(first) = nodes.iter().find(|it| it.fencing_token().is_some()) else {
                    continue;
                };
                for other in nodes.iter().filter(|it| !Arc::ptr_eq(it, first)) {
                    // Both at the same moment only if the first still has its own afterwards.
                    if let Some(theirs) = other.fencing_token()
                        && let Some(ours) = first.fencing_token()
                    {
                        return Err(format!("{ours:?} and {theirs:?} at the same time"));
                    }
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            Ok(())
        });
        Auditor { stop, looks, thread }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic").expect("one token at a time");
        assert!(self.looks.load(Ordering::Relaxed) > 100);
    }
}

/// Five nodes, the leader on the smaller side: the larger side elects within the promised time, no
/// two may act at the same moment, and when the line is mended there is one cluster again.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_cut_off_with_the_minority_loses_its_right_before_another_gets_it() {
    let timers = Profile::Test.timers();
    let mut cluster = Cluster::started(Kind::Memory, 5, 3).await;
    let old = cluster.leader(0);
    let minority = [old, (old + 1) % 5];
    let majority: Vec<usize> = (0..5).filter(|it| !minority.contains(it)).collect();
    // The auditor looks at the same nodes from another thread.
    let nodes: Vec<Arc<Mesh>> =
        cluster.nodes.iter_mut().map(|it| Arc::new(it.take().expect("it runs"))).collect();
    let auditor = Auditor::new(nodes.clone());
    for one in minority {
        for other in &majority {
            cluster.hub.cut_pair(cluster.address(one), cluster.address(*other));
        }
    }
    let begun = Instant::now();
    let elected = || majority.iter().any(|it| nodes[*it].fencing_token().is_some());
    eventually("a new leader", elected).await;
    let failover = begun.elapsed();
    assert_eq!(nodes[old].fencing_token(), None);
    let leader = nodes[old].leader();
    assert!(leader.is_none_or(|it| it.quality == Quality::Provisional));
    eventually("the minority is taken out", || nodes[majority[0]].members().members.len() == 3)
        .await;
    cluster.hub.heal();
    let begun = Instant::now();
    let is_one = || {
        let views: Vec<_> = nodes.iter().map(|it| it.members()).collect();
        views.iter().all(|it| {
            it.members.len() == 5 && it.digest == views[0].digest && it.leader == views[0].leader
        })
    };
    eventually("one cluster", is_one).await;
    println!("failover {failover:?}, healed {:?}", begun.elapsed());
    assert!(failover < timers.ttl_timeout * 3, "{failover:?}");
    assert_eq!(nodes[0].members().version, Version(2));
    auditor.end();
}

/// The leader's process ends; the others notice, elect, and take it out of the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_leader_is_replaced_by_the_next_version() {
    let mut cluster = Cluster::started(Kind::Tcp, 3, 1).await;
    let leader = cluster.leader(0);
    let begun = Instant::now();
    cluster.crash(leader).await;
    cluster.agree().await;
    println!("replaced and taken out after {:?}", begun.elapsed());
    let other = (leader + 1) % 3;
    assert_eq!(cluster.node(other).members().version, Version(2));
}

/// Seeds that nobody answers from: heartbeats keep their period.
#[tokio::test(flavor = "multi_thread")]
async fn dead_seeds_delay_nobody() {
    let mut cluster = Cluster::new(Kind::Memory, 3, 1);
    let dead: Vec<Address> =
        (1..=10).map(|it| format!("127.0.0.2:{it}").parse().expect("an address")).collect();
    for index in 0..3 {
        let mut options = cluster.options(index);
        // Nobody listens there, and at every second one nobody even says so.
        options.config.seeds.extend(dead.clone());
        for silent in dead.iter().step_by(2) {
            cluster.hub.cut_pair(&options.config.address, silent);
        }
        let mesh = Mesh::start(options).await.expect("it starts");
        cluster.nodes[index] = Some(mesh);
    }
    cluster.agree().await;
    let mut watch = cluster.node(0).watch();
    let calm = tokio::time::timeout(Duration::from_millis(1_500), watch.next()).await;
    assert!(calm.is_err(), "{calm:?}");
}
