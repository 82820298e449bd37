//! Every backend runs the suite; what only one of them can do has a file of its own.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use sardonyx_queue::suite::Arena;

sardonyx_queue::suite!(memory, Arena::memory().await);
sardonyx_queue::suite!(embedded, Arena::embedded().await);
