//! Inputs and outputs as users have them: by name, with terms, on real files.

mod speed;
