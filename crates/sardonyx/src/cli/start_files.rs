//! Which files of this machine jobs may touch, and where secrets for them lie.
//!
//! A node runs the jobs of whoever can submit them. As long as nothing of it is reached from
//! elsewhere that is the person at this machine, who may name any file; a node that others reach has
//! to be told.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use sardonyx::Registry;
use sardonyx_task::Files;

use super::Failure;

/// Where jobs may read and write.
#[derive(Args)]
#[command(next_help_heading = "Files of jobs")]
pub(super) struct JobFiles {
    /// A directory whose files jobs may read and write, and no others; may be repeated. A relative path
    /// in a job is seen from the first. Needed beyond loopback, or --any-file
    #[arg(long, value_name = "DIR", conflicts_with = "any_file")]
    files_root: Vec<PathBuf>,

    /// Jobs may read and write every file that this process may, also those of others
    #[arg(long)]
    any_file: bool,

    /// A directory with the files that jobs name as secret:file:PATH
    #[arg(long, value_name = "DIR")]
    secrets_dir: Option<PathBuf>,
}

impl JobFiles {
    /// What jobs can name on this node; `reached` is where others reach it.
    pub(super) fn registry(&self, reached: &[SocketAddr]) -> Result<Registry, Failure> {
        let beyond = reached.iter().find(|address| !address.ip().is_loopback());
        if let (true, false, Some(beyond)) = (self.files_root.is_empty(), self.any_file, beyond) {
            return Err(Failure::input(format!(
                "{beyond} can be reached from other machines, and jobs from there could name every \
                 file of this one: give --files-root DIR for each directory that jobs may use, or \
                 say --any-file"
            )));
        }
        let files = match self.files_root.is_empty() {
            true => Files::any(),
            false => Files::beneath(&self.files_root)
                .map_err(|why| Failure::input(format!("--files-root {why}")))?,
        };
        let secrets: Vec<PathBuf> = self.secrets_dir.iter().cloned().collect();
        let secrets = Files::beneath(&secrets)
            .map_err(|why| Failure::input(format!("--secrets-dir {why}")))?;
        let mut registry = Registry::built_in();
        registry.files(files).secrets(secrets);
        Ok(registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(root: Option<&str>, any_file: bool) -> JobFiles {
        let files_root = root.into_iter().map(PathBuf::from).collect();
        JobFiles { files_root, any_file, secrets_dir: None }
    }

    fn complaint(flags: &JobFiles, reached: &[&str]) -> Option<String> {
        let reached: Vec<SocketAddr> = reached.iter().map(|it| it.parse().unwrap()).collect();
        match flags.registry(&reached) {
            Ok(_) => None,
            Err(Failure::Input(why)) => Some(why),
            Err(_) => panic!("the input is at fault"),
        }
    }

    #[test]
    fn a_node_that_others_reach_says_which_files_are_for_jobs() {
        let bare = flags(None, false);
        assert_eq!(complaint(&bare, &[]), None);
        assert_eq!(complaint(&bare, &["127.0.0.1:1", "[::1]:1"]), None);
        for beyond in ["0.0.0.0:1", "10.0.0.7:7440", "[::]:1"] {
            let why = complaint(&bare, &["127.0.0.1:1", beyond]).unwrap();
            assert!(why.contains("--files-root") && why.contains("--any-file"), "{why}");
            assert_eq!(complaint(&flags(None, true), &[beyond]), None);
            assert_eq!(complaint(&flags(Some("."), false), &[beyond]), None);
        }
        let why = complaint(&flags(Some("/nowhere/at/all"), false), &[]).unwrap();
        assert!(why.contains("--files-root /nowhere/at/all"), "{why}");
    }
}
