//! Dead and cut off leaders: how long until another may act, and that no two ever may.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sardonyx_mesh::{Mesh, Profile};

use super::{
    Failure,
    bench_mesh::{Plan, Row, until},
    bench_mesh_nodes::{Between, Nodes, Sync},
};

/// G3 and G4: five nodes, the leader ends at once.
pub(super) async fn failover(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let ttl = Profile::Test.timers().ttl_timeout;
    let mut rows = Vec::new();
    for (sync, name, election) in
        [(Sync::No, "without sync", [10, 50]), (Sync::Yes, "with sync", [20, 300])]
    {
        let mut nodes = Nodes::new(5, 3, Between::Sockets, sync)?;
        nodes.start_all().await?;
        let (mut failovers, mut elections) = (Vec::new(), Vec::new());
        for _ in 0..plan.runs {
            let leader = leader_of(&nodes).await?;
            let died = Instant::now();
            nodes.crash(leader).await;
            // The last survivor to give up its leader begins the election as far as G3 counts.
            let mut given_up = died;
            let next = loop {
                let views: Vec<_> = nodes.living().map(|it| it.members()).collect();
                if views.iter().any(|it| it.leader.is_none()) && given_up == died {
                    given_up = Instant::now();
                }
                if let Some(next) = nodes.leader().filter(|it| nodes.follows(*it)) {
                    break next;
                }
                if died.elapsed() > Duration::from_secs(30) {
                    return Err(Failure::world("no leader within 30 s"));
                }
                tokio::time::sleep(Duration::from_micros(300)).await;
            };
            let _ = next;
            failovers.push(died.elapsed());
            elections.push(given_up.elapsed());
            nodes.start(leader).await?;
            until("all agree again", &nodes, Nodes::is_agreed).await?;
        }
        let [p50, p99] = election.map(Duration::from_millis);
        let what = format!("election {name}, from the first that gave up its leader");
        rows.push(Row::times("G3", &what, elections, Some(p50), Some(p99)));
        let what = format!("leader ends, another is followed by all, {name}");
        let most = ttl * 11 / 10 + p99;
        rows.push(Row::times("G4", &what, failovers, None, Some(most)));
        nodes.stop().await;
    }
    Ok(rows)
}

/// G4: the lead is handed over.
pub(super) async fn handover(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut nodes = Nodes::new(5, 3, Between::Sockets, Sync::Yes)?;
    nodes.start_all().await?;
    let mut times = Vec::new();
    for _ in 0..plan.runs {
        let leader = leader_of(&nodes).await?;
        let to = (leader + 1) % 5;
        let heir = nodes.addresses[to].clone();
        let begun = Instant::now();
        nodes.node(leader)?.transfer_leadership(heir).await.map_err(Failure::world)?;
        until("somebody else leads", &nodes, |it| {
            it.leader().is_some_and(|now| now != leader && it.follows(now))
        })
        .await?;
        times.push(begun.elapsed());
        until("all agree", &nodes, Nodes::is_agreed).await?;
    }
    nodes.stop().await;
    let [p50, p99] = [20, 300].map(Duration::from_millis);
    Ok(vec![Row::times("G4", "handover on purpose, with sync", times, Some(p50), Some(p99))])
}

/// Looks at all tokens all the time, on a thread of its own.
struct Auditor {
    stop: Arc<AtomicBool>,
    overlaps: Arc<AtomicU64>,
    looks: Arc<AtomicU64>,
}

impl Auditor {
    fn new(nodes: Vec<Arc<Mesh>>) -> Auditor {
        let auditor =
            Auditor { stop: Arc::default(), overlaps: Arc::default(), looks: Arc::default() };
        let (stop, overlaps, looks) =
            (Arc::clone(&auditor.stop), Arc::clone(&auditor.overlaps), Arc::clone(&auditor.looks));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                looks.fetch_add(1, Ordering::Relaxed);
                if let Some(first) = nodes.iter().find(|it| it.fencing_token().is_some()) {
                    let mut others = nodes.iter().filter(|it| !Arc::ptr_eq(it, first));
                    // Two at one moment only if the first still has its own after the second.
                    if others.any(|it| it.fencing_token().is_some())
                        && first.fencing_token().is_some()
                    {
                        overlaps.fetch_add(1, Ordering::Relaxed);
                    }
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        auditor
    }
}

/// G2 and G7: the leader is cut off with one other, the rest elects, the line is mended.
pub(super) async fn isolation(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let timers = Profile::Test.timers();
    let mut nodes = Nodes::new(5, 3, Between::Pipes, Sync::No)?;
    nodes.start_all().await?;
    let auditor = Auditor::new(nodes.living().cloned().collect());
    let (mut elected, mut merged) = (Vec::new(), Vec::new());
    for _ in 0..plan.runs {
        let old = leader_of(&nodes).await?;
        let minority = [old, (old + 1) % 5];
        let majority: Vec<usize> = (0..5).filter(|it| !minority.contains(it)).collect();
        let begun = Instant::now();
        nodes.part(&minority, &majority);
        until("a new leader", &nodes, |it| it.leader().is_some_and(|now| majority.contains(&now)))
            .await?;
        elected.push(begun.elapsed());
        nodes.hub.heal();
        let healed = until("one cluster again", &nodes, Nodes::is_agreed).await?;
        merged.push(healed);
    }
    auditor.stop.store(true, Ordering::Relaxed);
    let (overlaps, looks) =
        (auditor.overlaps.load(Ordering::Relaxed), auditor.looks.load(Ordering::Relaxed));
    nodes.stop().await;
    let what = format!("moments with two tokens in {} isolations, {looks} looks", plan.runs);
    let merge = timers.heartbeat_interval * 3 + Duration::from_secs(1);
    let most = timers.ttl_timeout * 11 / 10 + Duration::from_millis(50);
    Ok(vec![
        Row::number("G2", &what, overlaps.to_string(), "0", Some(overlaps == 0)),
        Row::times("G4", "leader cut off, the majority has another", elected, None, Some(most)),
        Row::times("G7", "line mended, one leader and equal tables", merged, None, Some(merge)),
    ])
}

/// G7: all seeds start at the same moment.
pub(super) async fn seeds_at_once(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let timers = Profile::Test.timers();
    let mut times = Vec::new();
    for _ in 0..plan.runs {
        let mut nodes = Nodes::new(5, 5, Between::Sockets, Sync::Yes)?;
        let begun = Instant::now();
        let starts: Vec<_> =
            (0..5).map(|index| tokio::spawn(Mesh::start(nodes.options(index)))).collect();
        for (index, start) in starts.into_iter().enumerate() {
            let mesh = start.await.map_err(Failure::world)?.map_err(Failure::world)?;
            nodes.nodes[index] = Some(Arc::new(mesh));
        }
        until("one cluster", &nodes, Nodes::is_agreed).await?;
        times.push(begun.elapsed());
        nodes.stop().await;
    }
    let most = timers.heartbeat_interval * 3 + Duration::from_secs(1);
    Ok(vec![Row::times("G7", "five seeds at once, one cluster", times, None, Some(most))])
}

/// G10: lines cut so that nobody is alone and yet not everybody reaches everybody.
pub(super) async fn partial(plan: &Plan) -> Result<Vec<Row>, Failure> {
    // An election timeout is the silence after which a follower asks for votes.
    let most = Profile::Test.timers().ttl_timeout * 4;
    type Keep = fn(usize, usize, usize) -> bool;
    // With the leader in place 0: which pairs still reach each other.
    let shapes: [(&str, Keep); 4] = [
        ("bridge: the old leader reaches one voter, which reaches all", |a, b, _| {
            (a, b) == (0, 1) || a > 0
        }),
        ("quorum loss: all reach one member and nobody else", |a, b, _| a == 1 || b == 1),
        ("constrained: the leader is gone, one reaches all others", |a, b, _| {
            a > 0 && (a == 1 || b == 1)
        }),
        ("chained: each reaches its neighbours", |a, b, _| b == a + 1),
    ];
    let mut rows = Vec::new();
    for (what, keep) in shapes {
        let mut nodes = Nodes::new(5, 3, Between::Pipes, Sync::No)?;
        nodes.start_all().await?;
        let mut times = Vec::new();
        for _ in 0..plan.runs {
            let old = leader_of(&nodes).await?;
            let order: Vec<usize> = (0..5).map(|it| (old + it) % 5).collect();
            for a in 0..5 {
                for b in a + 1..5 {
                    if !keep(a, b, 5) {
                        nodes.part(&[order[a]], &[order[b]]);
                    }
                }
            }
            let begun = Instant::now();
            // A leader that keeps a quorum may stay; one that lost it loses its token first.
            tokio::time::sleep(Profile::Test.timers().ttl_timeout).await;
            until(what, &nodes, |it| it.leader().is_some()).await?;
            times.push(begun.elapsed());
            nodes.hub.heal();
            until("all agree again", &nodes, Nodes::is_agreed).await?;
        }
        nodes.stop().await;
        rows.push(Row::times("G10", what, times, None, Some(most)));
    }
    Ok(rows)
}

async fn leader_of(nodes: &Nodes) -> Result<usize, Failure> {
    until("somebody leads", nodes, |it| it.leader().is_some()).await?;
    nodes.leader().ok_or_else(|| Failure::world("the leader lost its lease just now"))
}
