//! The program from the outside.

mod program;
mod replay;
