//! Jobs that are kept beneath roots: what is bad is refused in words, what is good works, and nobody
//! gets out by being quick.

use std::{
    ffi::OsString,
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use sardonyx_task::{Files, Registry, Terms, files::Refused};
use serde_json::{Value, json};

use super::{at, names, read};

/// What lies outside, and must never be seen.
pub(super) const SECRET: &str = "n\n424242\n";

/// A root with good files and bad ones, and what lies beside it.
pub(super) struct World {
    outer: tempfile::TempDir,
    pub(super) root: PathBuf,
    registry: Registry,
}

/// The names in the root that are no plain files, or lead to what is none of the job's.
const BAD_FILES: &[&str] = &[
    "out.csv",
    "abs.csv",
    "chain.csv",
    "loop.csv",
    "environ.csv",
    "zero.csv",
    "self.csv",
    "fifo.csv",
    "socket.csv",
    "device.csv",
    "to-fifo.csv",
];

/// Directories that lead out.
const BAD_DIRECTORIES: &[&str] = &["up", "beside", "abs", "proc", "fd", "dev", "chain"];

impl World {
    pub(super) fn new() -> World {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir_all(root.join("sub/deep")).unwrap();
        fs::create_dir(outer.path().join("beside")).unwrap();
        fs::create_dir(outer.path().join("root-2")).unwrap();
        for outside in ["secret.csv", "beside/secret.csv", "root-2/secret.csv"] {
            fs::write(outer.path().join(outside), SECRET).unwrap();
        }
        for (name, n) in [("good.csv", 1), ("sub/good.csv", 2), ("sub/deep/good.csv", 3)] {
            fs::write(root.join(name), format!("n\n{n}\n")).unwrap();
        }
        let secret = outer.path().join("secret.csv");
        let link = |to: &dyn AsRef<Path>, from: &str| symlink(to, root.join(from)).unwrap();
        link(&"../secret.csv", "out.csv");
        link(&secret, "abs.csv");
        link(&"out.csv", "chain.csv");
        link(&"loop.csv", "loop.csv");
        link(&"/proc/self/environ", "environ.csv");
        link(&"/dev/zero", "zero.csv");
        link(&"/proc/self/exe", "self.csv");
        link(&"fifo.csv", "to-fifo.csv");
        link(&"..", "up");
        link(&"../beside", "beside");
        link(&outer.path().join("beside"), "abs");
        link(&"/proc/self", "proc");
        link(&"/proc/self/fd", "fd");
        link(&"/dev", "dev");
        link(&"beside", "chain");
        link(&"sub", "inside");
        let make = |name: &str, kind, device| {
            rustix::fs::mknodat(CWD, root.join(name), kind, Mode::RUSR | Mode::WUSR, device)
        };
        make("fifo.csv", FileType::Fifo, 0).unwrap();
        // Only root may make one; for others a link to one is as good.
        if make("device.csv", FileType::CharacterDevice, rustix::fs::makedev(1, 5)).is_err() {
            link(&"/dev/zero", "device.csv");
        }
        drop(UnixListener::bind(root.join("socket.csv")).unwrap());
        let mut registry = Registry::built_in();
        registry.files(Files::beneath(std::slice::from_ref(&root)).unwrap());
        World { outer, root, registry }
    }

    fn terms(keys: &Value) -> Terms {
        Terms::new("job", "task", keys)
    }

    /// The rows that a job would read.
    fn rows(&self, path: &str) -> Result<Vec<String>, String> {
        let keys = json!({"plugin": "file", "path": path, "format": "csv"});
        let input = self.registry.make_input(&World::terms(&keys))?;
        input.check()?;
        read(&*input)
    }

    /// Has a job write.
    fn write(&self, path: &str, checks: bool) -> Result<(), String> {
        let keys = json!({"plugin": "file", "path": path, "format": "csv"});
        let output = self.registry.make_output(&World::terms(&keys))?;
        if checks {
            output.check()?;
        }
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let mut writer = output.open("p")?;
        writer.write(&RecordBatch::try_from_iter([("n", column)]).unwrap())?;
        let mark = writer.prepare(true)?.ok_or("nothing was written")?;
        writer.committed()?;
        output.finish(&[("p".into(), mark)])
    }

    /// Everything outside of the root, with its bytes.
    pub(super) fn outside(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut left = vec![self.outer.path().to_owned()];
        while let Some(directory) = left.pop() {
            for name in names(&directory) {
                let path = directory.join(name);
                if path == self.root {
                    continue;
                }
                if path.is_dir() {
                    left.push(path.clone());
                    found.push((path, Vec::new()));
                } else {
                    found.push((path.clone(), fs::read(&path).unwrap()));
                }
            }
        }
        found.sort();
        found
    }

    /// Paths that no job may name.
    pub(super) fn bad_paths(&self) -> Vec<String> {
        let mut bad = Vec::new();
        for depth in 1..=16 {
            let up = "../".repeat(depth);
            bad.push(format!("{up}secret.csv"));
            bad.push(format!("./{up}secret.csv"));
            bad.push(format!("sub/../{up}secret.csv"));
            bad.push(format!("good.csv/{up}secret.csv"));
            bad.push(format!("{up}etc/passwd"));
        }
        for system in SYSTEM_FILES {
            bad.push((*system).to_owned());
            bad.push(format!("/{system}"));
            bad.push(format!("/.{system}"));
        }
        let root = self.root.to_str().unwrap();
        for rest in ["-2/secret.csv", "/../secret.csv", "/../root-2/secret.csv", "x/secret.csv"] {
            bad.push(format!("{root}{rest}"));
        }
        for rest in ["/../secret.csv", "/sub/../../secret.csv"] {
            bad.push(format!("{root}/.{rest}"));
        }
        for name in BAD_FILES {
            bad.push((*name).to_owned());
            bad.push(format!("./{name}"));
            bad.push(format!("{root}/{name}"));
        }
        for name in BAD_DIRECTORIES {
            for rest in ["secret.csv", "environ", "0", "zero", "root/maps"] {
                bad.push(format!("{name}/{rest}"));
            }
        }
        for code in CODES {
            for depth in 1..=4 {
                bad.push(format!("{}secret.csv", code.repeat(depth)));
            }
        }
        for zero in ["\0", "good.csv\0", "good.csv\0.csv", "sub/\0/good.csv", "\0/etc/passwd"] {
            bad.push(zero.to_owned());
        }
        for long in [256, 300, 1_000, 4_096, 100_000] {
            bad.push(format!("{}.csv", "a".repeat(long)));
            bad.push(format!("sub/{}/good.csv", "b".repeat(long)));
        }
        bad.push("s/".repeat(2_100) + "good.csv");
        bad
    }
}

const SYSTEM_FILES: &[&str] = &[
    "/etc/passwd",
    "/etc/shadow",
    "/etc/hostname",
    "/etc/ssl/openssl.cnf",
    "/home/somebody/.ssh/id_ed25519",
    "/proc/self/environ",
    "/proc/self/maps",
    "/proc/self/mem",
    "/proc/self/cmdline",
    "/proc/self/fd/0",
    "/proc/1/root/etc/passwd",
    "/proc/kcore",
    "/proc/sys/kernel/core_pattern",
    "/sys/kernel/uevent_helper",
    "/sys/class/net",
    "/dev/zero",
    "/dev/null",
    "/dev/full",
    "/dev/urandom",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/fd/0",
    "/dev/tty",
    "/dev/mem",
    "/dev/shm/x.csv",
    "/tmp/x.csv",
    "/var/run/docker.sock",
    "/",
];

/// Ways up that somebody else might decode.
const CODES: &[&str] = &[
    "%2e%2e/",
    "%2E%2E/",
    "%2e%2e%2f",
    "..%2f",
    ".%2e/",
    "%2e./",
    "%252e%252e%252f",
    "..%5c",
    "..\\",
    "%c0%ae%c0%ae/",
    "..%c0%af",
    "%u002e%u002e/",
    "%00/",
];

#[test]
fn three_hundred_bad_paths_are_refused_with_what_to_write() {
    let world = World::new();
    let (bad, before) = (world.bad_paths(), world.outside());
    assert!(bad.len() >= 300, "{} paths", bad.len());
    let files = Files::beneath(std::slice::from_ref(&world.root)).unwrap();
    for path in &bad {
        let why = files.open(path).err().unwrap_or_else(|| panic!("{path:?} was opened"));
        let refused = why.get_ref().and_then(|inner| inner.downcast_ref::<Refused>());
        assert!(refused.is_some(), "{path:?}: {why} ({:?})", why.kind());
        for tried in [world.rows(path).map(drop), world.write(path, true)] {
            let why = tried.expect_err(path);
            assert!(why.contains("write") || why.contains("take .gz"), "{path:?}: {why}");
            assert!(why.len() < 1_000 && !why.contains('\0'), "{path:?}: {why}");
        }
    }
    assert_eq!(world.outside(), before, "nothing outside was touched");
}

#[test]
fn what_is_beneath_the_root_works_as_it_does_without_one() {
    let world = World::new();
    let root = world.root.to_str().unwrap();
    for good in ["good.csv", "./good.csv", "sub//deep/./good.csv", "inside/good.csv"] {
        assert_eq!(world.rows(good).unwrap().len(), 1, "{good}");
        assert_eq!(world.rows(&format!("{root}/{good}")).unwrap().len(), 1, "{good}");
    }
    for (pattern, n) in [("*/good.csv", 2), ("**/good.csv", 3), ("sub", 1), ("good.*", 1)] {
        assert_eq!(world.rows(pattern).unwrap().len(), n, "{pattern}");
        assert_eq!(world.rows(&format!("{root}/{pattern}")).unwrap().len(), n, "{pattern}");
    }
    for path in ["new.csv", "sub/new.csv", "good.csv", "inside/over.csv"] {
        world.write(path, true).unwrap();
        assert_eq!(fs::read_to_string(world.root.join(path)).unwrap(), "n\n7\n");
    }
    let left: Vec<_> = names(&world.root).into_iter().filter(|it| it.contains("parts")).collect();
    assert_eq!(left, Vec::<String>::new());
    let why = world.rows("nowhere.csv").unwrap_err();
    assert!(why.contains("the first directory for jobs"), "{why}");
}

#[test]
fn patterns_and_directories_pass_over_what_leads_out() {
    let world = World::new();
    for pattern in ["*/secret.csv", "*/*/secret.csv", "**/secret.csv", "[u]p/secret.csv"] {
        let why = world.rows(pattern).unwrap_err();
        assert!(why.contains("there is no file"), "{pattern}: {why}");
    }
    // Links to files outside are among the names, and are not files of this root.
    let rows = world.rows("*.csv").unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(world.rows(".").unwrap().len(), 1);
    for pattern in ["../*", "up/*.csv", "/etc/*", "proc/*", "*/../../*.csv"] {
        let why = world.rows(pattern).unwrap_err();
        assert!(why.contains("write"), "{pattern}: {why}");
    }
}

#[test]
fn parts_are_not_staged_through_a_link() {
    let world = World::new();
    let before = world.outside();
    symlink("../beside", world.root.join("new.csv.parts")).unwrap();
    let why = world.write("new.csv", true).unwrap_err();
    assert!(why.contains("leads out"), "{why}");
    // A link at the very place is replaced, and nothing is written through it.
    world.write("out.csv", false).unwrap();
    assert!(fs::symlink_metadata(world.root.join("out.csv")).unwrap().is_file());
    assert_eq!(world.outside(), before);
}

#[test]
fn a_node_without_directories_for_jobs_has_no_files() {
    let world = World::new();
    let mut registry = Registry::built_in();
    registry.files(Files::beneath(&[]).unwrap());
    let keys = json!({"plugin": "file", "path": at(&world.root, "good.csv")});
    let why = registry.make_input(&World::terms(&keys)).err().unwrap();
    assert!(why.contains("--files-root DIR"), "{why}");
}

#[test]
fn a_root_must_be_a_directory_and_not_everything() {
    let world = World::new();
    for (root, advice) in [
        (world.root.join("nowhere"), "a directory that is there"),
        (world.root.join("good.csv"), "this is no directory"),
        ("/".into(), "name the directories"),
        (world.root.join("proc"), "the file system proc"),
    ] {
        let why = Files::beneath(&[root]).unwrap_err();
        assert!(why.contains(advice), "{why}");
    }
}

/// Swaps a directory for a link that leads out, as fast as it can, while `look` looks.
fn while_swapped(world: &World, mut look: impl FnMut()) {
    let is_over = AtomicBool::new(false);
    let (real, link) = (world.root.join("swap"), world.root.join("swapped"));
    fs::create_dir(&real).unwrap();
    fs::write(real.join("secret.csv"), "n\n5\n").unwrap();
    symlink("../beside", &link).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &real, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        look();
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn nobody_gets_out_by_being_quick() {
    let world = World::new();
    let before = world.outside();
    let files = Files::beneath(std::slice::from_ref(&world.root)).unwrap();
    let (mut n_good, mut n_refused, mut n_free) = (0, 0, 0);
    while_swapped(&world, || {
        for n in 0..3_000 {
            match world.rows("swap/secret.csv") {
                Ok(rows) => {
                    assert!(rows.iter().all(|row| !row.contains("424242")), "{rows:?}");
                    n_good += 1;
                }
                Err(_) => n_refused += 1,
            }
            let _ = world.write(&format!("swap/o{}.csv", n % 8), n % 2 == 0);
            // The same without roots does get out: so the swapping is quick enough to be tested by.
            let text = Files::any().open(world.root.join("swap/secret.csv"));
            n_free += usize::from(text.is_ok_and(|file| text_of(file) == SECRET));
            let _ = files.list("swap").map(|names: Vec<OsString>| {
                assert!(names.len() < 100);
            });
        }
    });
    assert!(n_good > 0 && n_refused > 0 && n_free > 0, "{n_good} {n_refused} {n_free}");
    assert_eq!(world.outside(), before, "nothing outside was touched");
}

fn text_of(mut file: fs::File) -> String {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut file, &mut text).unwrap();
    text
}
