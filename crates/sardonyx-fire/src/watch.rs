//! Who looks on: the log as it grows, tokens as they are held, processes that end by themselves.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sardonyx_core::{Entry, JobId, Position, Replica};
use sardonyx_store::{Delivery, Start, Store};
use serde_json::{Value, json};

use crate::{
    judge::{
        end::MeshView,
        log::{Line, Played},
        tokens::Sighting,
    },
    place::Place,
    servers::Port,
    world::World,
};

/// How often a node is asked whether it has a token.
const POLL_MS: &str = "25";
/// How often processes are looked after.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The log so far, played.
#[derive(Clone, Default)]
pub(crate) struct Record {
    played: Arc<Mutex<Played>>,
    /// Of all entries, in order.
    positions: Arc<Mutex<Vec<Position>>>,
}

impl Record {
    fn with<T>(&self, look: impl FnOnce(&mut Played) -> T) -> T {
        look(&mut self.played.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The cluster, as far as the log was read.
    pub(crate) fn replica(&self) -> Replica {
        self.with(|played| played.replica.clone())
    }

    /// Whether the cluster knows the job, or knew it.
    pub(crate) fn knows(&self, job: &JobId) -> bool {
        self.with(|it| it.replica.job(job).is_some() || it.outcome(job).is_some())
    }

    /// Whether the job is over.
    pub(crate) fn is_over(&self, job: &JobId) -> bool {
        self.with(|played| played.outcome(job).is_some())
    }

    /// How many entries there are behind a position.
    pub(crate) fn n_after(&self, origin: Option<Position>) -> u64 {
        let positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        let n_before = positions.partition_point(|at| Some(*at) <= origin);
        (positions.len() - n_before) as u64
    }

    /// Follows the log for ever, and writes down all of it.
    pub(crate) async fn follow(self, store: Store, path: &Path) -> io::Result<()> {
        let mut file = File::create(path)?;
        let mut start = Start::Origin;
        loop {
            let mut subscription = store.subscribe(start.clone());
            let mut batch = Vec::new();
            loop {
                if let Err(why) = subscription.next_batch(&mut batch).await {
                    eprintln!("sardonyx-fire: reading the log: {why}; once more");
                    break;
                }
                let lines: Vec<_> = batch.drain(..).map(line).collect();
                for line in &lines {
                    writeln!(file, "{}", line.to_text())?;
                }
                let entries = lines.iter().filter_map(|line| match line {
                    Line::Entry(entry) => Some(entry.position),
                    Line::Unreadable(at, _) => Some(*at),
                    Line::Origin(..) => None,
                });
                let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
                positions.extend(entries);
                drop(positions);
                let at = self.with(|played| {
                    lines.iter().for_each(|line| played.play(line, &Default::default()));
                    played.position
                });
                start = Start::After(at, subscription.seen().clone());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

fn line(delivery: Delivery) -> Line {
    match delivery {
        Delivery::Origin(origin) => Line::Origin(origin.position, Box::new(origin.replica)),
        Delivery::Entry { position, command: Ok(command) } => {
            Line::Entry(Box::new(Entry { position, command }))
        }
        Delivery::Entry { position, command: Err(why) } => {
            Line::Unreadable(position, why.to_string())
        }
    }
}

/// Starts again whoever ended by itself, and says so. For ever.
pub(crate) async fn look_after(world: Arc<World>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        for process in world.processes() {
            if let Err(why) = process.look_after(&world.trace) {
                let who = process.place().to_string();
                world.trace.note("not-started", json!({"who": who, "why": why.to_string()}));
            }
        }
    }
}

/// Asks every node again and again what the mesh is to it, from beside it.
pub(crate) struct Pollers {
    children: Vec<Child>,
    seen: Arc<Mutex<Reports>>,
}

/// What nodes said of the mesh.
#[derive(Default)]
struct Reports {
    /// Every token that was seen.
    sightings: Vec<Sighting>,
    /// What each node said last, and when.
    last: BTreeMap<usize, (u64, MeshView)>,
}

impl Pollers {
    pub(crate) fn start(world: &World) -> io::Result<Pollers> {
        let (mut children, seen) = (Vec::new(), Arc::<Mutex<Reports>>::default());
        for (node, place) in Place::nodes().enumerate() {
            let at = format!("127.0.0.1:{}", world.site.port(place, Port::MeshHttp));
            let program = world.paths.program.display().to_string();
            let mut command = world.site.command(place, &program);
            command.args(["mesh", "status", "--json", "--every-ms", POLL_MS, "--http", &at]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn()?;
            let (out, seen) = (child.stdout.take(), Arc::clone(&seen));
            let reading = move || {
                for line in out.into_iter().flat_map(|it| BufReader::new(it).lines()) {
                    let Some(report) = line.ok().and_then(|it| serde_json::from_str(&it).ok())
                    else {
                        continue;
                    };
                    seen.lock().unwrap_or_else(PoisonError::into_inner).hear(node, &report);
                }
            };
            std::thread::spawn(reading);
            children.push(child);
        }
        Ok(Pollers { children, seen })
    }

    /// Stops asking; all that was seen.
    pub(crate) fn stop(mut self) -> Vec<Sighting> {
        self.end();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut seen.sightings)
    }

    /// What each node said last, if it said it after that moment.
    pub(crate) fn views(&self, since_micros: u64) -> BTreeMap<usize, MeshView> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = seen.last.iter().filter(|(_, (at, _))| *at > since_micros);
        recent.map(|(node, (_, view))| (*node, view.clone())).collect()
    }

    fn end(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Pollers {
    fn drop(&mut self) {
        self.end();
    }
}

impl Reports {
    fn hear(&mut self, node: usize, report: &Value) {
        let Some(at_micros) = report["now-micros"].as_u64() else { return };
        let token = &report["token"];
        if let Some(version) = token["version"].as_u64() {
            // The clock is read after the token, and on a busy machine that may be long after: nobody
            // says that it was still valid then.
            let at_micros =
                token["valid-until-micros"].as_u64().unwrap_or(at_micros).min(at_micros);
            self.sightings.push(Sighting { at_micros, node, version });
        }
        let leader = &report["leader"];
        let named = leader["address"].as_str().map(|it| format!("{it} {}", leader["version"]));
        let table = report["digest"].as_str().unwrap_or_default().to_owned();
        self.last.insert(node, (at_micros, MeshView { leader: named, table }));
    }
}
