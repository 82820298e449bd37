//! Every backend runs the suite; what only one of them can do has a file of its own.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod compaction;
mod ensemble;
mod files;
mod guarded;
mod killed;
mod mistakes;
mod partition;
mod strangers;
mod watches;

use sardonyx_store::suite::{self, Arena};

sardonyx_store::suite!(memory, Arena::memory().await);
sardonyx_store::suite!(embedded, Arena::embedded().await);
sardonyx_store::suite!(remote, Arena::remote().await);
sardonyx_store::suite!(etcd, Arena::etcd(1).await);
sardonyx_store::suite!(zookeeper, Arena::zookeeper(1).await);

/// Not a test: the process that [`suite::Child`] starts.
#[test]
fn suite_child() {
    suite::hold_pulse();
}
