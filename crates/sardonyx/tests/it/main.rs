//! The program from the outside.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, unreachable_pub)]

mod chrome;
mod clients;
mod confined;
mod dashboard;
mod dashboard_many;
mod demo;
mod figures;
mod flood;
mod flood_ratio;
mod guide;
mod guide_http;
mod guide_page;
mod jobs;
mod late_queues;
mod many;
mod mesh;
mod mesh_engine;
mod node;
mod nodes;
mod nodes_data;
mod own_input;
mod packaging;
mod program;
mod replay;
mod run;
mod secrets;
mod settings;
mod slips;
