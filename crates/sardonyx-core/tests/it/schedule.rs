//! Schedulers: tables for the numbers, a slow obvious twin for the plan, properties for the rest.

mod cluster;
mod properties;
mod tables;
mod twin;
