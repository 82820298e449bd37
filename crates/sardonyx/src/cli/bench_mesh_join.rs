//! Coming and going: how soon a member is in, missed, out, and in again; and what a large cluster
//! costs while nothing happens.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use sardonyx_mesh::{Mesh, Profile, Status};

use super::{
    Failure,
    bench_mesh::{Plan, Row, until},
    bench_mesh_nodes::{Between, Nodes, Sync, VOTERS},
};

/// G5: a follower ends at once; when do all others call it unreachable, and when is it out?
pub(super) async fn detection(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let timers = Profile::Test.timers();
    let mut nodes = Nodes::new(5, 3, Between::Sockets, Sync::Yes)?;
    nodes.start_all().await?;
    let (mut missed, mut out) = (Vec::new(), Vec::new());
    for _ in 0..plan.runs {
        until("somebody leads", &nodes, |it| it.leader().is_some()).await?;
        let Some(leader) = nodes.leader() else { continue };
        let gone = (leader + 1) % 5;
        let address = nodes.addresses[gone].clone();
        let begun = Instant::now();
        nodes.crash(gone).await;
        let status = |it: &Mesh| {
            let view = it.members();
            view.members.iter().find(|row| row.node.address == address).map(|row| row.status)
        };
        until("it is missed", &nodes, |it| {
            it.living().all(|it| !matches!(status(it), Some(Status::Active | Status::Joining)))
        })
        .await?;
        missed.push(begun.elapsed());
        until("it is out", &nodes, |it| it.living().all(|it| status(it).is_none())).await?;
        out.push(begun.elapsed());
        nodes.start(gone).await?;
        until("all agree", &nodes, Nodes::is_agreed).await?;
    }
    nodes.stop().await;
    let rtt = Duration::from_millis(1);
    let (late, later) =
        (timers.heartbeat_timeout * 11 / 10 + rtt * 2, timers.ttl_timeout * 21 / 20 + rtt * 2);
    Ok(vec![
        Row::times("G5", "a follower ends, unreachable for all", missed, None, Some(late)),
        Row::times("G5", "a follower ends, removed for all", out, None, Some(later)),
    ])
}

/// G9: a follower ends and starts again; a follower is cut off for a while.
pub(super) async fn rejoin(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let timers = Profile::Test.timers();
    let mut nodes = Nodes::new(5, 3, Between::Sockets, Sync::Yes)?;
    nodes.start_all().await?;
    let mut restarted = Vec::new();
    for _ in 0..plan.runs {
        until("somebody leads", &nodes, |it| it.leader().is_some()).await?;
        let Some(leader) = nodes.leader() else { continue };
        let again = (leader + 1) % 5;
        nodes.crash(again).await;
        nodes.start(again).await?;
        let node = nodes.node(again)?.node().clone();
        let active = until("active again", &nodes, |it| {
            it.living().all(|it| {
                let view = it.members();
                view.members.iter().any(|row| row.node == node && row.status == Status::Active)
            })
        });
        restarted.push(active.await?);
        until("all agree", &nodes, Nodes::is_agreed).await?;
    }
    nodes.stop().await;
    let mut nodes = Nodes::new(5, 3, Between::Pipes, Sync::No)?;
    nodes.start_all().await?;
    let mut mended = Vec::new();
    for _ in 0..plan.runs {
        until("somebody leads", &nodes, |it| it.leader().is_some()).await?;
        let Some(leader) = nodes.leader() else { continue };
        let alone = (leader + 1) % 5;
        let others: Vec<usize> = (0..5).filter(|it| *it != alone).collect();
        nodes.part(&[alone], &others);
        tokio::time::sleep(timers.ttl_timeout * 3 / 2).await;
        nodes.hub.heal();
        mended.push(until("all agree", &nodes, Nodes::is_agreed).await?);
    }
    nodes.stop().await;
    let (soon, beat) =
        (Duration::from_millis(200), timers.heartbeat_interval + Duration::from_millis(2));
    Ok(vec![
        Row::times("G9", "end and restart, active for all", restarted, None, Some(soon)),
        Row::times("G9", "cut off for 1.5 ttl and mended, active", mended, None, Some(beat)),
    ])
}

/// G6 and G11: many members, of which five vote.
pub(super) async fn large(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let n = plan.members;
    let mut rows = Vec::new();
    let mut cold = Vec::new();
    for _ in 0..plan.runs.min(5) {
        let mut nodes = Nodes::new(n, 3, Between::Sockets, Sync::No)?;
        let begun = Instant::now();
        for index in 0..n {
            nodes.start(index).await?;
        }
        until("all are in", &nodes, Nodes::is_agreed).await?;
        cold.push(begun.elapsed());
        nodes.stop().await;
    }
    let what = format!("cold start of {n} members, {VOTERS} vote");
    rows.push(Row::times("G6", &what, cold, None, Some(Duration::from_secs(3))));
    let mut nodes =
        Nodes::new(n, 3, Between::Sockets, Sync::No)?.with_heartbeat(Duration::from_millis(300));
    nodes.start_all().await?;
    let mut joins = Vec::new();
    for _ in 0..plan.runs {
        let address = nodes.addresses[n - 1].clone();
        if let Ok(last) = nodes.node(n - 1) {
            // Its goodbye may be unanswered; then it is missed instead.
            let _ = last.leave().await;
        }
        nodes.nodes[n - 1] = None;
        until("it is out", &nodes, |it| {
            it.living().all(|it| it.members().members.iter().all(|row| row.node.address != address))
        })
        .await?;
        let begun = Instant::now();
        nodes.start(n - 1).await?;
        until("it is in", &nodes, Nodes::is_agreed).await?;
        joins.push(begun.elapsed());
    }
    let [p50, p99] = [50, 300].map(Duration::from_millis);
    let what = format!("the last of {n} members, start to active for all");
    rows.push(Row::times("G6", &what, joins, Some(p50), Some(p99)));
    rows.extend(traffic(plan, &nodes).await?);
    nodes.stop().await;
    Ok(rows)
}

/// G11: what is said while nothing happens.
async fn traffic(plan: &Plan, nodes: &Nodes) -> Result<Vec<Row>, Failure> {
    let leader = nodes.leader().ok_or_else(|| Failure::world("nobody leads"))?;
    let read = |it: &Mesh| {
        let counts = it.counts();
        [&counts.control_sent, &counts.control_sent_bytes, &counts.control_received]
            .map(|it| it.load(Ordering::Relaxed))
    };
    let before: Vec<_> = nodes.living().map(|it| read(it)).collect();
    let begun = Instant::now();
    tokio::time::sleep(plan.time.max(Duration::from_secs(5))).await;
    let seconds = begun.elapsed().as_secs_f64();
    let spent: Vec<[f64; 3]> = nodes
        .living()
        .zip(before)
        .map(|(it, before)| {
            let now = read(it);
            std::array::from_fn(|at| (now[at] - before[at]) as f64 / seconds)
        })
        .collect();
    let n = spent.len() as f64;
    let all: f64 = spent.iter().map(|it| it[1]).sum();
    let sent: f64 = spent.iter().map(|it| it[0]).sum();
    let followers = (0..spent.len()).filter(|it| *it != leader).map(|it| spent[it]);
    let most = followers.clone().map(|it| it[1]).fold(0.0, f64::max);
    let messages = followers.map(|it| it[0] + it[2]).sum::<f64>() / (n - 1.0) * 0.3;
    let kb = |bytes: f64| format!("{:.2} kB/s", bytes / 1e3);
    let leaders = spent.get(leader).map_or(0.0, |it| it[1]);
    Ok(vec![
        Row::number(
            "G11",
            "messages a heartbeat of a follower, both ways",
            format!("{messages:.2}"),
            "2",
            Some(messages < 2.5),
        ),
        Row::number(
            "G11",
            "bytes of the busiest follower",
            kb(most),
            "≤ 1 kB/s",
            Some(most <= 1e3),
        ),
        Row::number("G11", "bytes of the leader", kb(leaders), "≤ 100 kB/s", Some(leaders <= 1e5)),
        Row::number("G11", "bytes of the whole cluster", kb(all), "≤ 200 kB/s", Some(all <= 2e5)),
        Row::number(
            "G11",
            "bytes of a message on average, framed",
            format!("{:.0}", all / sent.max(1.0)),
            "keep-alive ≤ 64, ack ≤ 48",
            None,
        ),
    ])
}
