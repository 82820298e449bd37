//! Schedulers.
