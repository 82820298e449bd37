//! Every backend runs the suite; what only one of them can do has a file of its own.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod full;
mod killed;
mod measure;

use sardonyx_queue::suite::Arena;

sardonyx_queue::suite!(memory, Arena::memory().await);
sardonyx_queue::suite!(embedded, Arena::embedded().await);
sardonyx_queue::suite!(remote, Arena::remote().await);
sardonyx_queue::suite!(nats, Arena::nats(1).await);
sardonyx_queue::suite!(nats_cluster, Arena::nats(3).await);
