//! A run: start everybody, let things go wrong, let it calm down, and collect what the judge needs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sardonyx_core::{
    JobId, Position, Replica, command::ConfigureCluster, replica::job::JobOutcome, wire,
};
use sardonyx_store::{Store, suite::servers::Network};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{
    draw,
    fault::Fault,
    gauge::{self, Gauge},
    judge::{
        Finding, end, growth, ids, log,
        outputs::compare,
        tokens::{self, Sighting},
        traffic::{self, Traffic},
    },
    load::{Job, Shape, last_counts, lines_of},
    options::{Options, StoreKind},
    place::{PEERS, Place},
    plan::Plan,
    report::Verdict,
    sandbox,
    servers::Port,
    storm::storm,
    stream::{self, Stream},
    trace,
    watch::{Pollers, Record, look_after},
    world::{Paths, TRIM_AFTER, World},
};

/// How long everybody has to come together at first.
const START_MAX: Duration = Duration::from_secs(120);

/// How many outcomes of old jobs the cluster remembers on an ordinary day: as many as it may after a few
/// minutes. With the usual ten thousand it would grow for hours, as it should, and hide who grows for
/// ever.
const OUTCOMES_MAX: u32 = 100;

/// Runs it, in a network of its own if this process is in a sandbox.
pub fn run(options: &Options, dir: &Path) -> Result<Verdict, String> {
    let has_sandbox = sandbox::is_inside();
    let plan = options.plan(has_sandbox);
    let written = serde_json::to_string_pretty(&plan).map_err(|why| why.to_string())?;
    fs::write(dir.join("plan.json"), written).map_err(at(dir))?;
    let program = program(options)?;
    let paths = Paths { dir: dir.to_owned(), program };
    if !has_sandbox {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|why| why.to_string())?;
        return runtime.block_on(stoppable(options, &plan, paths, None));
    }
    sandbox::prepare().map_err(|why| format!("the sandbox: {why}"))?;
    let network = Network::make(Place::COUNT).ok_or("network namespaces need root")?;
    let verdict = Mutex::new(Err("the run did not end".to_owned()));
    network.run(|| async {
        let ran = stoppable(options, &plan, paths, Some(Arc::clone(&network))).await;
        *verdict.lock().unwrap_or_else(PoisonError::into_inner) = ran;
    });
    verdict.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn at<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> String {
    let path = path.display().to_string();
    move |why| format!("{path}: {why}")
}

/// The program under test.
fn program(options: &Options) -> Result<PathBuf, String> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.join("sardonyx"));
    let program = options.program.clone().or_else(beside).unwrap_or_else(|| "sardonyx".into());
    let found = program.canonicalize();
    found.map_err(|why| {
        let program = program.display();
        format!("{program}: {why}; build it with `cargo build -p sardonyx`, or give --program")
    })
}

/// The run, unless somebody interrupts it; what it started ends either way.
async fn stoppable(
    options: &Options,
    plan: &Plan,
    paths: Paths,
    network: Option<Arc<Network>>,
) -> Result<Verdict, String> {
    tokio::select! {
        ran = whole(options, plan, paths, network) => ran,
        _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
    }
}

async fn whole(
    options: &Options,
    plan: &Plan,
    paths: Paths,
    network: Option<Arc<Network>>,
) -> Result<Verdict, String> {
    let dir = paths.dir.clone();
    let fills_disks = plan.steps.iter().any(|step| matches!(step.fault, Fault::DiskFull { .. }));
    let world = World::make(options, paths, network, fills_disks).await.map_err(at(&dir))?;
    let world = Arc::new(world);
    say(&format!(
        "seed {}: {} faults; everything is in {}",
        plan.seed,
        plan.steps.len(),
        dir.display()
    ));
    let store = begin(&world).await?;
    if options.soak {
        let settings = ConfigureCluster { outcomes_max: Some(OUTCOMES_MAX), ..Default::default() };
        store.append(&settings.into()).await.map_err(|why| why.to_string())?;
    }
    let record = Record::default();
    let (log_path, followed) = (dir.join("log.jsonl"), record.clone());
    let log_store = store.clone();
    let mut background = tokio::task::JoinSet::new();
    background.spawn(async move { said(followed.follow(log_store, &log_path).await) });
    background.spawn(look_after(Arc::clone(&world)));
    let gauge = Gauge::default();
    if options.soak {
        let (gauge, path) = (gauge.clone(), dir.join("sizes.jsonl"));
        let (world, record, store) = (Arc::clone(&world), record.clone(), store.clone());
        background.spawn(async move { said(gauge.look(world, record, store, &path).await) });
    }
    let pollers = Pollers::start(&world).map_err(at(&dir))?;
    until(START_MAX, "one ring at first", || ring(&world, &record).is_empty()).await?;
    say("one ring; the storm begins");

    let drawn_before = n_drawn(&world)?;
    let stream = Stream::new(plan.seed, &dir).map_err(at(&dir))?;
    let begun = Instant::now();
    let writing = stream.clone();
    let rate = options.rate;
    background.spawn(async move { said(writing.write(rate).await) });
    let storm_end = begun + Duration::from_millis(plan.storm_ms);
    let jobs = submit_all(&world, &record, options, &stream, storm_end);
    let ((), jobs) = tokio::join!(storm(&world, &store, plan, begun), jobs);
    let jobs = jobs?;
    let seconds = begun.elapsed().as_secs_f64();
    let n_due = stream.n_written();
    let n_ids = n_drawn(&world)? - drawn_before;
    stream.slow_down();
    world.trace.note("calm", json!({}));
    say(&format!("{} jobs; now it calms down", jobs.len()));

    let grown = gauge.seen();
    let late = calm(options, &world, &record, &jobs, &stream, n_due).await;
    let mesh = one_mesh(options, &world, &pollers).await;
    world.trace.note("calm-over", json!({"late": late}));
    let sightings = pollers.stop();
    let seen = Seen { seconds, jobs, stream, n_due, n_ids, late, mesh, sightings };
    let mut verdict = judge(options, plan, &world, &store, seen).await?;
    if options.soak {
        verdict.findings.extend(judge_growth(&grown, seconds));
    }
    drop(background);
    Ok(verdict)
}

/// Starts everybody who is not started yet, and opens the store.
async fn begin(world: &World) -> Result<Store, String> {
    let start = |process: &crate::process::Process| {
        process.start(&world.trace).map_err(|why| format!("{}: {why}", process.place()))
    };
    world.host.iter().chain(&world.nats).try_for_each(start)?;
    // Servers of ours are waited for: those who use them may give up.
    let store = loop {
        let opened = Store::open(&world.store_url, sardonyx_store::Options::default()).await;
        match opened {
            Ok(store) => break store,
            Err(why) if why.is_transient() => sleep(Duration::from_millis(200)).await,
            Err(why) => return Err(format!("{}: {why}", world.store_url)),
        }
    };
    sleep(Duration::from_secs(1)).await;
    world.nodes.iter().chain(&world.drawers).try_for_each(start)?;
    Ok(store)
}

fn say(text: &str) {
    eprintln!("sardonyx-fire: {text}");
}

fn said(done: io::Result<()>) {
    if let Err(why) = done {
        say(&why.to_string());
    }
}

async fn until(max: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > max {
            return Err(format!("not within {max:?}: {what}"));
        }
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// What keeps the cluster from being one ring of exactly the living.
fn ring(world: &World, record: &Record) -> Vec<String> {
    match living(world) {
        Ok(living) => end::ring(&record.replica(), &living),
        Err(why) => vec![why],
    }
}

/// The lives of nodes, and how many peers each has.
fn living(world: &World) -> Result<BTreeMap<String, usize>, String> {
    let mut living = BTreeMap::new();
    let host = world.host.iter().filter(|_| !world.has_store_servers);
    let all = world.nodes.iter().map(|node| (node, PEERS)).chain(host.map(|host| (host, 1)));
    for (process, n_peers) in all {
        let place = process.place();
        let life = world.life(place).filter(|_| process.runs());
        living.insert(life.ok_or_else(|| format!("{place} has not begun"))?, n_peers);
    }
    Ok(living)
}

/// Submits jobs as long as the storm lasts, so many at a time; all that were submitted. With a pace, each
/// has its time, and one that had to wait for others or for the store does not put off those after it.
async fn submit_all(
    world: &Arc<World>,
    record: &Record,
    options: &Options,
    stream: &Stream,
    end: Instant,
) -> Result<Vec<Job>, String> {
    let mut due = Instant::now();
    let dir = &world.paths.dir;
    let seconds = options.storm_ms() / 1_000;
    let mut jobs = vec![Job::stream(options.seed, options.rate, seconds.max(1))];
    submit(world, record, stream::ID, &stream.to_json()).await?;
    submit(world, record, &jobs[0].id, &jobs[0].to_json(dir)).await?;
    let mut live: Vec<JobId> = Vec::new();
    while Instant::now() < end {
        live.retain(|job| !record.is_over(job));
        if live.len() >= options.jobs || Instant::now() < due {
            sleep(Duration::from_millis(100)).await;
            continue;
        }
        due += options.between_jobs();
        let job = Job::batch(options.seed, jobs.len() as u64 - 1, options.rows);
        if let Some(text) = job.input_text() {
            fs::write(job.input(dir), text).map_err(at(dir))?;
        }
        submit(world, record, &job.id, &job.to_json(dir)).await?;
        live.push(job_id(&job.id)?);
        jobs.push(job);
    }
    Ok(jobs)
}

fn job_id(text: &str) -> Result<JobId, String> {
    JobId::new(text).map_err(|why| why.to_string())
}

/// How long a job is tried to be submitted.
const SUBMIT_MAX: Duration = Duration::from_secs(120);

/// Submits a job as a person would, again and again while the store does not play along.
async fn submit(world: &Arc<World>, record: &Record, id: &str, job: &Value) -> Result<(), String> {
    let file = world.paths.of("jobs").join(format!("{id}.json"));
    fs::write(&file, job.to_string()).map_err(at(&file))?;
    let (path, known, begun) = (file.display().to_string(), job_id(id)?, Instant::now());
    loop {
        let command =
            world.ask(&["submit", &path, "--id", id, "--store", &world.store_url, "--json"]);
        let output = world.answer(command).await.map_err(|why| why.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        world.trace.note("submit", json!({"job": id, "code": code, "said": said}));
        if code == Some(0) || record.knows(&known) {
            return Ok(());
        }
        if begun.elapsed() > SUBMIT_MAX {
            return Err(format!("{id} cannot be submitted: {said}"));
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Waits until all is well; what is not in time is said.
async fn calm(
    options: &Options,
    world: &Arc<World>,
    record: &Record,
    jobs: &[Job],
    stream: &Stream,
    n_due: u64,
) -> Vec<String> {
    let mut late = Vec::new();
    let begun = Instant::now();
    let max = Duration::from_secs(options.calm);
    for process in world.processes() {
        process.resume(&world.trace);
    }
    if until(max, "", || ring(world, record).is_empty()).await.is_err() {
        late.extend(ring(world, record));
    }
    say(&format!("one ring {:.1} s after the storm", begun.elapsed().as_secs_f64()));
    world.trace.note("one-ring", json!({"after-ms": begun.elapsed().as_millis() as u64}));
    let open = || -> Vec<_> {
        let is_open = |job: &&Job| job_id(&job.id).is_ok_and(|id| !record.is_over(&id));
        jobs.iter().filter(is_open).map(|job| job.id.clone()).collect()
    };
    let left = max.saturating_sub(begun.elapsed());
    if until(left, "", || open().is_empty()).await.is_err() {
        late.push(format!("not over in {max:?}: {}", open().join(", ")));
    }
    say(&format!("all jobs over {:.1} s after the storm", begun.elapsed().as_secs_f64()));
    world.trace.note("jobs-over", json!({"after-ms": begun.elapsed().as_millis() as u64}));
    let has_all = || {
        let found = stream.found().unwrap_or_default();
        found.len() as u64 >= n_due && compare("", &stream.wanted(n_due, &found), &found).is_empty()
    };
    let left = max.saturating_sub(begun.elapsed()).max(Duration::from_secs(20));
    let drained = until(left, "", has_all).await;
    if drained.is_err() {
        late.push(format!("the stream has not come through in {max:?}"));
    }
    let command = world.ask(&["kill", stream::ID, "--store", &world.store_url]);
    let is_killed = world.answer(command).await.is_ok_and(|it| it.status.success());
    world.trace.note("stream-killed", json!({"well": is_killed}));
    sleep(Duration::from_secs(2)).await;
    late
}

/// Waits until all nodes follow one leader with one table, and says how long that took.
async fn one_mesh(options: &Options, world: &World, pollers: &Pollers) -> Finding {
    let (begun, since) = (Instant::now(), trace::now_micros());
    let differ = || end::mesh(&pollers.views(since), Place::nodes().count());
    let max = Duration::from_secs(options.calm);
    let waited = until(max, "", || differ().is_empty()).await;
    let after = begun.elapsed();
    world.trace.note("one-mesh", json!({"after-ms": after.as_millis() as u64}));
    let broken = waited.map_or_else(|_| differ(), |()| Vec::new());
    let seen = format!("{:.1} s after all jobs were over", after.as_secs_f64());
    Finding::new("MB-9: one leader and one table of members, for all nodes", seen, broken)
}

/// How many ids have been written down so far.
fn n_drawn(world: &World) -> Result<u64, String> {
    Ok(drawn(world)?.iter().map(|(_, runs)| ids::n_in(runs)).sum())
}

/// What each process that draws ids has written down.
fn drawn(world: &World) -> Result<Vec<(String, Vec<ids::Run>)>, String> {
    let dir = world.paths.of("ids");
    let entries = fs::read_dir(&dir).map_err(at(&dir))?;
    let each = entries.map(|entry| {
        let path = entry.map_err(at(&dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, ids::runs(&fs::read(&path).map_err(at(&path))?)))
    });
    each.collect()
}

/// What a run leaves for its judge.
struct Seen {
    seconds: f64,
    jobs: Vec<Job>,
    stream: Stream,
    n_due: u64,
    /// How many ids were drawn in the storm.
    n_ids: u64,
    late: Vec<String>,
    mesh: Finding,
    sightings: Vec<Sighting>,
}

async fn judge(
    options: &Options,
    plan: &Plan,
    world: &Arc<World>,
    store: &Store,
    seen: Seen,
) -> Result<Verdict, String> {
    let dir = &world.paths.dir;
    let text = fs::read_to_string(dir.join("log.jsonl")).map_err(at(dir))?;
    let lines: Result<Vec<_>, _> = text.lines().map(log::Line::parse).collect();
    let lines = lines?;
    let origin = store.origin().await.map_err(|why| why.to_string())?;
    let last = lines.iter().rev().find_map(|line| match line {
        log::Line::Entry(entry) => Some(entry.position),
        log::Line::Origin(..) | log::Line::Unreadable(..) => None,
    });
    let wanted: BTreeSet<Position> = origin.iter().map(|it| it.position).chain(last).collect();
    let mut played = log::judge(&lines, &wanted);
    if let Some(origin) = &origin
        && played.at.get(&origin.position).is_some_and(|it| *it != origin.replica)
    {
        let why = format!("the origin at {} is another cluster than was played", origin.position);
        played.broken.push(why);
    }
    let traced = fs::read_to_string(dir.join("trace.jsonl")).map_err(at(dir))?;
    let traced = trace::read(&traced);
    let mut findings = vec![
        judge_log(&mut played),
        judge_outputs(dir, &seen)?,
        judge_jobs(&played, &seen)?,
        judge_ring(world, &played, last).await,
        judge_tokens(&seen, &traced),
    ];
    findings.push(seen.mesh);
    findings.push(judge_ids(options, world).await?);
    findings.push(judge_ends(options, dir, &traced)?);
    let traffic = Traffic {
        seconds: seen.seconds,
        kills: trace::kills(&traced),
        rows: seen.jobs.iter().map(|job| job.rows).sum::<u64>() + seen.n_due,
        ids: seen.n_ids,
    };
    let mut void = traffic::judge(&traffic, &options.least());
    void.extend(trace::vain(&traced));
    let n_batches = seen.jobs.iter().filter(|job| job.shape != Shape::Stream).count() as u64;
    void.extend(options.jobs_due().and_then(|n_due| traffic::judge_pace(n_batches, n_due)));
    Ok(Verdict {
        seed: plan.seed,
        kinds: plan.kinds.clone(),
        dir: dir.clone(),
        void,
        traffic,
        counts: trace::counts(&traced),
        findings,
    })
}

/// Who ended by itself, and who panicked and went on.
fn judge_ends(options: &Options, dir: &Path, traced: &[Value]) -> Result<Finding, String> {
    let exits = trace::exits(traced);
    let mut broken = end::exits(&exits, options.soak);
    let mut n_files = 0;
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let path = entry.map_err(at(dir))?.path();
        if path.extension().is_some_and(|it| it == "log") {
            let text = String::from_utf8_lossy(&fs::read(&path).map_err(at(&path))?).into_owned();
            let who = path.file_stem().unwrap_or_default().to_string_lossy();
            broken.extend(end::panics([(&*who, &*text)]));
            n_files += 1;
        }
    }
    let commands =
        traced.iter().filter_map(|it| Some((it["what"].as_str()?, it["said"].as_str()?)));
    broken.extend(end::panics(commands));
    broken.extend(trace::hung(traced));
    let seen = format!("{} by themselves; {n_files} files were read for panics", exits.len());
    Ok(Finding::new("how processes ended", seen, broken))
}

fn judge_log(played: &mut log::Played) -> Finding {
    let taken: Vec<_> = played.taken.iter().map(|(name, n)| format!("{n} {name}")).collect();
    let seen = format!(
        "{} entries, {} rejected, {} jumps over trimmed ones; {}",
        played.n_entries,
        played.n_rejected,
        played.n_jumps,
        taken.join(", ")
    );
    Finding::new("LR, AL: every law after every entry", seen, std::mem::take(&mut played.broken))
}

fn judge_outputs(dir: &Path, seen: &Seen) -> Result<Finding, String> {
    let (mut broken, mut n_lines, mut n_files) = (Vec::new(), 0, 0);
    for job in &seen.jobs {
        for (name, wanted) in job.wanted() {
            let path = job.output(dir, name);
            let mut found = lines_of(&fs::read_to_string(&path).unwrap_or_default());
            n_lines += found.len();
            n_files += 1;
            if job.shape == Shape::Stream {
                found = last_counts(&found).unwrap_or_else(|why| vec![why]);
            }
            broken.extend(compare(&format!("{} {name}", job.id), &wanted, &found));
        }
    }
    let found = seen.stream.found().map_err(at(dir))?;
    n_lines += found.len();
    broken.extend(compare(stream::ID, &seen.stream.wanted(seen.n_due, &found), &found));
    let what = format!("{n_lines} rows in {n_files} outputs and a stream");
    Ok(Finding::new("DP: nothing lost, nothing made up, nothing twice", what, broken))
}

fn judge_jobs(played: &log::Played, seen: &Seen) -> Result<Finding, String> {
    let mut ended = Vec::new();
    for job in &seen.jobs {
        let outcome = played.outcome(&job_id(&job.id)?);
        ended.push((job.id.clone(), outcome, JobOutcome::Completed));
    }
    let outcome = played.outcome(&job_id(stream::ID)?);
    ended.push((stream::ID.to_owned(), outcome, JobOutcome::Killed));
    let mut broken = end::jobs(&ended);
    broken.extend(seen.late.iter().cloned());
    Ok(Finding::new("DP-13: every job over in time", format!("{} jobs", ended.len()), broken))
}

/// One ring of the living, and every node has the cluster that the log comes to.
async fn judge_ring(world: &World, played: &log::Played, last: Option<Position>) -> Finding {
    let mut broken = match living(world) {
        Ok(living) => end::ring(&played.replica, &living),
        Err(why) => vec![why],
    };
    let mut said = Vec::new();
    if let Some(last) = last {
        for place in Place::nodes() {
            let at = world.site.host(place, Port::Http);
            let asked = timeout(Duration::from_secs(10), replica_at(&at, last)).await;
            let asked = asked.unwrap_or_else(|_| Err("no answer in ten seconds".into()));
            said.push((place.to_string(), asked));
        }
    }
    let wanted = last.and_then(|last| played.at.get(&last)).unwrap_or(&played.replica);
    broken.extend(end::agree(wanted, &said));
    let seen = format!("{} members; {} nodes compared", played.replica.n_peers(), said.len());
    Finding::new("LR-1, LR-10, LR-12: one ring of the living, one cluster", seen, broken)
}

/// A node's answer.
#[derive(Deserialize)]
struct Shown<'a> {
    position: Option<u64>,
    #[serde(borrow)]
    replica: &'a RawValue,
}

/// What a node says the cluster was at a position.
async fn replica_at(at: &str, position: Position) -> Result<Replica, String> {
    let text = async {
        let mut stream = TcpStream::connect(at).await?;
        let request = format!(
            "GET /v1/replica?at={position} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let text = text.await.map_err(|why| why.to_string())?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    // As it was sent: outcomes are in an order that a map would lose.
    let shown: Shown<'_> = serde_json::from_str(body).map_err(|why| format!("{why}: {text}"))?;
    if shown.position != Some(position.0) {
        return Err(format!("it is at {:?}, not at {position}", shown.position));
    }
    wire::replica_from_json(shown.replica.get()).map_err(|why| why.to_string())
}

fn judge_tokens(seen: &Seen, traced: &[Value]) -> Finding {
    let mut sightings = seen.sightings.clone();
    let n_left_out = tokens::leave_out(&mut sightings, &trace::stillnesses(traced));
    let (n_tokens, mut broken) = tokens::judge(&sightings);
    if n_tokens == 0 {
        broken.push("nobody was ever seen with a token".into());
    }
    let what = format!(
        "{n_tokens} tokens in {} sightings, {n_left_out} left out for pauses",
        sightings.len()
    );
    Finding::new("MB-2: never two valid tokens", what, broken)
}

/// How much of an ordinary day passes before anybody's size counts.
const WARM_PART: f64 = 0.25;

fn judge_growth(grown: &gauge::Seen, seconds: f64) -> [Finding; 2] {
    let (seen, broken) = growth::judge(&grown.sizes, seconds * WARM_PART);
    let of_processes = Finding::new("nobody grows who stays", seen, broken);
    let (seen, broken) = growth::judge_log(&grown.log, TRIM_AFTER as u64);
    [of_processes, Finding::new("the log is bounded", seen, broken)]
}

async fn judge_ids(options: &Options, world: &World) -> Result<Finding, String> {
    // Nobody draws any more while we read.
    world.drawers.iter().for_each(|drawer| drawer.kill(&world.trace));
    let drawn = drawn(world)?;
    let n_files = drawn.len();
    let mut broken: Vec<_> = drawn.iter().flat_map(|(name, runs)| ids::grows(name, runs)).collect();
    let mut all: Vec<_> = drawn.into_iter().flat_map(|(_, runs)| runs).collect();
    let (n_ids, twice) = ids::differ(&mut all);
    broken.extend(twice);
    let store = Store::open(&world.ids_url, sardonyx_store::Options::default()).await;
    let store = store.map_err(|why| why.to_string())?;
    let overview = sardonyx_ids::admin::overview(&store).await.map_err(|why| why.to_string())?;
    let marks: BTreeMap<u32, u64> =
        overview.numbers.iter().filter_map(|it| Some((it.number, it.until?))).collect();
    let layout = draw::layout(options.store != StoreKind::Embedded);
    let decode = |bits: u64| {
        let parts = sardonyx_ids::Id::from_bits(bits).map(|id| layout.decode(id));
        parts.map_or((u32::MAX, u64::MAX), |parts| (parts.worker, parts.time))
    };
    broken.extend(ids::below_marks(&all, decode, &marks));
    let what = format!("{n_ids} ids of {n_files} processes, {} numbers", marks.len());
    Ok(Finding::new("ID-1, ID-2, ID-4: no id twice, all below their marks", what, broken))
}
