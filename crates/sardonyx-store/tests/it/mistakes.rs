//! Mistakes: each gives one line that says what to do.

use std::{path::Path, time::Duration};

use sardonyx_store::{
    Error, Options, Store,
    suite::{
        labelled, run,
        servers::{is_root, not_checked},
    },
};

const IMPATIENT: Options = Options { patience: Duration::from_millis(300) };

async fn complaint(url: &str) -> String {
    match Store::open(url, IMPATIENT).await {
        Ok(_) => panic!("{url} opens"),
        Err(why) => why.to_string(),
    }
}

#[test]
fn a_wrong_url_is_explained() {
    run(async {
        for (url, help) in [
            ("here", "does not say what kind of store"),
            ("redis://127.0.0.1:6379/a", "there is no store \"redis\""),
            ("memory:x", "takes nothing"),
            ("embedded:", "write embedded:DIR"),
            ("etcd://127.0.0.1/a", "is not HOST:PORT"),
            ("etcd://127.0.0.1:2379", "name is missing"),
            ("etcd:127.0.0.1:2379/a", "// is missing"),
            ("zookeeper://127.0.0.1:2181/a b", "a name has"),
            ("etcd://127.0.0.1:2379/a?cert=x", "go together"),
            ("etcd://127.0.0.1:2379/a?colour=red", "there is no option \"colour\""),
            ("zookeeper://127.0.0.1:2181/a?tls=true", "speaks no TLS"),
            ("sardonyx://127.0.0.1:7440/a", "write sardonyx://HOST:PORT"),
            ("etcd://u@127.0.0.1:1/a?password-file=/nowhere/x", "/nowhere/x"),
        ] {
            let why = complaint(url).await;
            assert!(why.contains(help) && !why.contains('\n'), "{url}: {why}");
        }
        let why = complaint("etcd://me:hunter2@127.0.0.1/a").await;
        assert!(!why.contains("hunter2"), "{why}");
    });
}

#[test]
fn a_server_that_is_down_is_named() {
    run(async {
        for url in ["sardonyx://127.0.0.1:9", "etcd://127.0.0.1:9/a", "zookeeper://127.0.0.1:9/a"] {
            let opened = Store::open(url, IMPATIENT).await;
            assert!(matches!(opened, Err(Error::Unavailable(_))), "{url}: {opened:?}");
        }
    });
}

#[test]
fn a_directory_is_used_by_one_process_at_a_time() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("embedded:{}", dir.path().display());
        let first = Store::open(&url, IMPATIENT).await.unwrap();
        let why = complaint(&url).await;
        assert!(why.contains("in use by process") && why.contains("sardonyx://"), "{why}");
        drop(first);
    });
}

/// A small file system.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` if this is not root, which is then said aloud; a root that cannot mount is a failure.
    fn mount() -> Option<SmallDisk> {
        if !is_root() {
            not_checked("a small file system to fill needs root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"])
            .arg(dir.path())
            .output()
            .unwrap();
        assert!(mount.status.success(), "mount: {}", String::from_utf8_lossy(&mount.stderr));
        Some(SmallDisk(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let Some(disk) = SmallDisk::mount() else { return };
    run(async {
        let url = format!("embedded:{}", disk.path().join("store").display());
        let store = Store::open(&url, IMPATIENT).await.unwrap();
        let entry = vec![1; 100_000];
        let mut n = 0;
        let full = loop {
            match store.append_bytes(&entry).await {
                Ok(_) => n += 1,
                Err(why) => break why,
            }
            assert!(n < 100, "the disk never filled up");
        };
        assert!(matches!(&full, Error::Unavailable(why) if why.contains("no room")), "{full}");
        assert!(n > 10, "{n} entries fit");
        // Small ones fit into what was set aside, or are refused as well; nothing breaks.
        let _ = store.append(&labelled("small")).await;
        store.close().await;
        let report = sardonyx_store::check(&disk.path().join("store")).unwrap();
        assert!(report.next == n || report.next == n + 1, "{report:?} after {n}");
        assert_eq!(report.torn_bytes, 0);
    });
}

#[test]
fn a_wrong_password_is_explained() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let secret = Some(sardonyx_store::Secret::new("right"));
        let serving = sardonyx_store::Serving::start(dir.path(), listener, secret).await.unwrap();
        let address = serving.address();
        let why = complaint(&format!("sardonyx://{address}")).await;
        assert!(why.contains("token"), "{why}");
        let url = format!("sardonyx://x:right@{address}");
        Store::open(&url, IMPATIENT).await.unwrap();
    });
}
