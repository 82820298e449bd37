//! The plan, carried out: each fault by a task of its own, which also ends it.

use std::{
    fs, io,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use sardonyx_core::command::ConfigureCluster;
use sardonyx_store::Store;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    fault::Fault,
    place::{NODES, Place, STORES},
    plan::Plan,
    process::Process,
    world::World,
};

/// Carries out the plan from `begun` on. When it comes back, nothing goes wrong any more.
pub(crate) async fn storm(world: &Arc<World>, store: &Store, plan: &Plan, begun: Instant) {
    let mut doing = JoinSet::new();
    for step in &plan.steps {
        sleep_until(begun + ms(step.at_ms)).await;
        world.trace.note("fault", json!(step.fault));
        let (world, store, fault) = (Arc::clone(world), store.clone(), step.fault.clone());
        doing.spawn(async move {
            let (within, what) = (Arc::clone(&world), fault.clone());
            let done = alone(async move { carry_out(&within, &store, &what).await }).await;
            if let Err(why) = done {
                world.trace.note("fault-failed", json!({"fault": fault, "why": why.to_string()}));
            }
        });
    }
    sleep_until(begun + ms(plan.storm_ms)).await;
    while doing.join_next().await.is_some() {}
}

/// A task of its own, so that a panic is an error like any other: the tools that cut lines panic where
/// they fail, and what was not done must not be taken for done.
async fn alone(doing: impl Future<Output = io::Result<()>> + Send + 'static) -> io::Result<()> {
    let mut task = JoinSet::new();
    task.spawn(doing);
    task.join_next().await.map_or(Ok(()), |done| done.map_err(io::Error::other)?)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

async fn carry_out(world: &Arc<World>, store: &Store, fault: &Fault) -> io::Result<()> {
    match fault {
        Fault::Kill { nodes, down_ms } => {
            let nodes: Vec<_> = nodes.iter().map(|node| &world.nodes[*node]).collect();
            down(world, &nodes, *down_ms).await?;
        }
        Fault::Pause { node, for_ms } => pause(world, &world.nodes[*node], *for_ms).await,
        Fault::DrawerKilled { drawer, down_ms } => {
            down(world, &[&world.drawers[*drawer]], *down_ms).await?;
        }
        Fault::DrawerPaused { drawer, for_ms } => {
            pause(world, &world.drawers[*drawer], *for_ms).await;
        }
        Fault::ClockStep { drawer, by_ms } => step_clock(world, *drawer, *by_ms)?,
        Fault::Isolate { .. }
        | Fault::Split { .. }
        | Fault::Bridge { .. }
        | Fault::OneWay { .. }
        | Fault::NoStore { .. }
        | Fault::DeafToStore { .. }
        | Fault::NoQueues { .. }
        | Fault::DrawerCut { .. } => cut(world, fault).await,
        Fault::StoreKilled { down_ms } => store_killed(world, *down_ms).await?,
        Fault::StorePaused { for_ms } => store_paused(world, *for_ms).await,
        Fault::QueuesKilled { down_ms } => {
            let server = world.nats.as_ref().or(world.host.as_ref());
            if let Some(server) = server {
                down(world, &[server], *down_ms).await?;
            }
        }
        Fault::DiskFull { node, for_ms } => disk_full(world, *node, *for_ms).await?,
        Fault::Gc => gc(world).await?,
        Fault::GcLagging { node, for_ms } => gc_lagging(world, *node, *for_ms).await?,
        Fault::GcBooting { node } => {
            let one = [&world.nodes[*node]];
            let (booted, trimmed) = tokio::join!(down(world, &one, 0), gc(world));
            booted.and(trimmed)?;
        }
        Fault::GcKilled { after_ms } => gc_killed(world, *after_ms).await?,
        Fault::Reset { node } => {
            world.site.reset(Place::Node(*node))?;
            world.trace.note("reset", json!({"who": Place::Node(*node).to_string()}));
        }
        Fault::ThinLine { node, kbit, for_ms } => {
            thin_line(world, Place::Node(*node), *kbit, *for_ms).await?;
        }
        Fault::Flicker { node, dark_ms, well_ms, for_ms } => {
            flicker(world, Place::Node(*node), (ms(*dark_ms), ms(*well_ms)), ms(*for_ms)).await;
        }
        Fault::StoreLost { down_ms } => store_lost(world, *down_ms).await?,
        Fault::Reschedule { scheduler } => {
            let settings =
                ConfigureCluster { job_scheduler: Some(*scheduler), ..Default::default() };
            store.append(&settings.into()).await.map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// kill -9 of all of them, and up again after a while.
async fn down(world: &World, processes: &[&Process], down_ms: u64) -> io::Result<()> {
    let mut lanes = Vec::new();
    for process in processes {
        // In the order of the places, so that nobody waits for whoever waits for it.
        lanes.push(process.lane().await);
    }
    processes.iter().for_each(|process| process.kill(&world.trace));
    sleep(ms(down_ms)).await;
    processes.iter().try_for_each(|process| process.start(&world.trace))
}

async fn pause(world: &World, process: &Process, for_ms: u64) {
    process.pause(&world.trace);
    sleep(ms(for_ms)).await;
    process.resume(&world.trace);
}

/// By how much a clock is wrong stands in a file that its owner reads again and again.
fn step_clock(world: &World, drawer: usize, by_ms: i64) -> io::Result<()> {
    let path = world.paths.of(&format!("{}.clock", Place::Drawer(drawer)));
    let is: i64 = fs::read_to_string(&path).unwrap_or_default().trim().parse().unwrap_or(0);
    // Renamed, because half a number is another number.
    let next = path.with_extension("next");
    fs::write(&next, (is + by_ms).to_string())?;
    fs::rename(&next, &path)
}

/// Which directions a fault cuts, and for how long.
fn directions(world: &World, fault: &Fault) -> (Vec<(Place, Place)>, u64) {
    let both = |a: Place, b: Place| [(a, b), (b, a)];
    let across = |left: &[Place], right: &[Place]| -> Vec<(Place, Place)> {
        left.iter().flat_map(|a| right.iter().flat_map(move |b| both(*a, *b))).collect()
    };
    let nodes = |nodes: &[usize]| nodes.iter().map(|it| Place::Node(*it)).collect::<Vec<_>>();
    let others =
        |some: &[Place]| Place::nodes().filter(|it| !some.contains(it)).collect::<Vec<_>>();
    let (stores, queues) = (world.store_places(), [world.queues_at]);
    match fault {
        Fault::Isolate { nodes: some, for_ms } => {
            let some = nodes(some);
            let mut rest = others(&some);
            rest.extend(stores.iter().chain(&queues));
            rest.sort_unstable();
            rest.dedup();
            (across(&some, &rest), *for_ms)
        }
        Fault::Split { nodes: some, for_ms } => {
            let some = nodes(some);
            (across(&some, &others(&some)), *for_ms)
        }
        Fault::Bridge { middle, for_ms } => {
            let around: Vec<_> = (1..NODES).map(|it| Place::Node((middle + it) % NODES)).collect();
            let (left, right) = around.split_at(around.len() / 2);
            (across(left, right), *for_ms)
        }
        Fault::OneWay { from, to, for_ms } => {
            (vec![(Place::Node(*from), Place::Node(*to))], *for_ms)
        }
        Fault::NoStore { node, for_ms } => (across(&[Place::Node(*node)], &stores), *for_ms),
        Fault::DeafToStore { node, for_ms } => {
            (stores.iter().map(|store| (*store, Place::Node(*node))).collect(), *for_ms)
        }
        Fault::NoQueues { node, for_ms } => (across(&[Place::Node(*node)], &queues), *for_ms),
        Fault::DrawerCut { drawer, for_ms } => {
            (across(&[Place::Drawer(*drawer)], &stores), *for_ms)
        }
        Fault::Kill { .. }
        | Fault::Pause { .. }
        | Fault::StoreKilled { .. }
        | Fault::StorePaused { .. }
        | Fault::QueuesKilled { .. }
        | Fault::DiskFull { .. }
        | Fault::ClockStep { .. }
        | Fault::DrawerKilled { .. }
        | Fault::DrawerPaused { .. }
        | Fault::Gc
        | Fault::GcLagging { .. }
        | Fault::GcBooting { .. }
        | Fault::GcKilled { .. }
        | Fault::Reset { .. }
        | Fault::ThinLine { .. }
        | Fault::Flicker { .. }
        | Fault::StoreLost { .. }
        | Fault::Reschedule { .. } => (Vec::new(), 0),
    }
}

async fn cut(world: &World, fault: &Fault) {
    let (directions, for_ms) = directions(world, fault);
    directions.iter().for_each(|(from, to)| world.site.cut(*from, *to));
    sleep(ms(for_ms)).await;
    directions.iter().for_each(|(from, to)| world.site.mend(*from, *to));
    world.trace.note("mended", json!(fault));
}

async fn store_killed(world: &World, down_ms: u64) -> io::Result<()> {
    let _lane = world.store_lane.lock().await;
    if let (false, Some(host)) = (world.has_store_servers, &world.host) {
        return down(world, &[host], down_ms).await;
    }
    let leader = world.stores.leader().await.unwrap_or(0);
    let who = Place::Store(leader).to_string();
    world.stores.kill(leader);
    world.trace.note("killed", json!({"who": who}));
    sleep(ms(down_ms)).await;
    world.stores.restart(leader).await;
    world.trace.note("started", json!({"who": who}));
    Ok(())
}

/// All servers of the store but one.
async fn store_lost(world: &World, down_ms: u64) -> io::Result<()> {
    let _lane = world.store_lane.lock().await;
    if let (false, Some(host)) = (world.has_store_servers, &world.host) {
        return down(world, &[host], down_ms).await;
    }
    let leader = world.stores.leader().await.unwrap_or(0);
    // The leader is among the lost, and one who voted for it.
    let lost = [leader, (leader + 1) % STORES];
    for server in lost {
        world.stores.kill(server);
        world.trace.note("killed", json!({"who": Place::Store(server).to_string()}));
    }
    sleep(ms(down_ms)).await;
    // At once: one alone would wait for the other before it says that it is up.
    tokio::join!(world.stores.restart(lost[0]), world.stores.restart(lost[1]));
    for server in lost {
        world.trace.note("started", json!({"who": Place::Store(server).to_string()}));
    }
    Ok(())
}

async fn store_paused(world: &World, for_ms: u64) {
    let _lane = world.store_lane.lock().await;
    if let (false, Some(host)) = (world.has_store_servers, &world.host) {
        return pause(world, host, for_ms).await;
    }
    let leader = world.stores.leader().await.unwrap_or(0);
    let who = Place::Store(leader).to_string();
    world.trace.note("stopped", json!({"who": who}));
    world.stores.pause(leader);
    sleep(ms(for_ms)).await;
    world.stores.resume(leader);
    world.trace.note("continued", json!({"who": who}));
}

/// Fills a disk, makes room again, and starts whoever gave up.
async fn disk_full(world: &World, node: usize, for_ms: u64) -> io::Result<()> {
    let process = world.host.as_ref().unwrap_or(&world.nodes[node]);
    let filler = world.paths.data(process.place()).join("filler");
    let filling = filler.clone();
    let filled = tokio::task::spawn_blocking(move || fill(&filling)).await;
    world.trace.note("disk-full", json!({"who": process.place().to_string()}));
    sleep(ms(for_ms)).await;
    fs::remove_file(&filler)?;
    world.trace.note("disk-free", json!({"who": process.place().to_string()}));
    filled.map_err(io::Error::other)?
}

/// Writes until there is no room.
fn fill(path: &std::path::Path) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    let block = vec![0_u8; 1 << 16];
    for size in [block.len(), 512, 1] {
        loop {
            match io::Write::write_all(&mut file, &block[..size]) {
                Ok(()) => {}
                Err(why) if why.kind() == io::ErrorKind::StorageFull => break,
                Err(why) => return Err(why),
            }
        }
    }
    Ok(())
}

fn gc_command(world: &World) -> Command {
    world.ask(&["gc", "--store", &world.store_url, "--json"])
}

async fn gc(world: &Arc<World>) -> io::Result<()> {
    let output = world.answer(gc_command(world)).await?;
    let (code, said) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
    world.trace.note("gc", json!({"code": code, "said": said}));
    trimmed(code, &said)
}

/// Where there is nothing to trim, or somebody else has just done it, the command ends well.
fn trimmed(code: Option<i32>, said: &str) -> io::Result<()> {
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::other(format!("gc ended with {code}: {}", said.trim()))),
        None => Err(io::Error::other("a signal ended gc")),
    }
}

/// What a node that stands still has not read yet is trimmed before it goes on.
async fn gc_lagging(world: &Arc<World>, node: usize, for_ms: u64) -> io::Result<()> {
    let process = &world.nodes[node];
    process.pause(&world.trace);
    // Others say something first, so that there is something to miss.
    sleep(ms(for_ms)).await;
    let trimmed = gc(world).await;
    process.resume(&world.trace);
    trimmed
}

/// Somebody begins to trim and is killed on the way; who comes after it must cope with what is left.
async fn gc_killed(world: &Arc<World>, after_ms: u64) -> io::Result<()> {
    let mut command = gc_command(world);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    sleep(ms(after_ms)).await;
    let was_over = child.try_wait()?.is_some();
    child.kill()?;
    child.wait()?;
    world.trace.note("gc-killed", json!({"was-over": was_over}));
    Ok(())
}

async fn thin_line(world: &World, place: Place, kbit: u64, for_ms: u64) -> io::Result<()> {
    world.site.thin(place, kbit)?;
    world.trace.note("thin", json!({"who": place.to_string(), "kbit": kbit}));
    sleep(ms(for_ms)).await;
    world.trace.note("wide", json!({"who": place.to_string()}));
    world.site.widen(place)
}

/// Dark and well in turn; well in the end.
async fn flicker(world: &World, place: Place, each: (Duration, Duration), all: Duration) {
    let (dark, well) = each;
    let (begun, mut n) = (Instant::now(), 0);
    while begun.elapsed() < all {
        world.site.unplug(place);
        sleep(dark).await;
        world.site.plug(place);
        sleep(well).await;
        n += 1;
    }
    world.trace.note("flickered", json!({"who": place.to_string(), "times": n}));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_on_the_way_is_an_error() {
        let why = |done: io::Result<()>| done.map_err(|why| why.to_string()).err();
        assert_eq!(why(alone(async { Ok(()) }).await), None);
        let failed = alone(async { Err(io::Error::other("no")) }).await;
        assert_eq!(why(failed), Some("no".to_owned()));
        let panicked = why(alone(async { panic!("no such device") }).await);
        assert!(panicked.is_some_and(|it| it.contains("no such device")));
    }

    #[test]
    fn a_gc_that_does_not_end_well_was_none() {
        assert!(trimmed(Some(0), "").is_ok());
        assert!(trimmed(None, "").is_err());
        let why = trimmed(Some(1), "sardonyx: no store\n").map_err(|why| why.to_string());
        assert_eq!(why, Err("gc ended with 1: sardonyx: no store".to_owned()));
    }
}
