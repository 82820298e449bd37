//! `sardonyx store`: serving an embedded store to other processes, and checking its files.

use std::{
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use sardonyx_store::{Location, Secret, Serving, check};

use super::{Failure, start_queues, stopped};

/// Serve or check an embedded store.
#[derive(Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Serve the store in a directory to other processes, until this one is stopped; its queues are
    /// served at the next port
    Serve {
        /// embedded:DIR
        url: String,

        /// Where to listen. Beyond loopback only with a token.
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7440")]
        listen: SocketAddr,

        /// A file whose content clients must show: sardonyx://HOST:PORT?token-file=FILE.
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
    /// Verify every checksum of a store's files and name the first bad byte, changing nothing.
    Check {
        /// The directory.
        dir: PathBuf,

        /// Print one line of JSON.
        #[arg(long)]
        json: bool,
    },
}

impl Store {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.what {
            What::Serve { url, listen, token_file } => serve(&url, listen, token_file.as_deref()),
            What::Check { dir, json } => {
                let report = check(&dir)?;
                let mut out = io::stdout().lock();
                if json {
                    let report = serde_json::json!({
                        "segments": report.n_segments, "groups": report.n_frames,
                        "entries": report.n_entries, "next": report.next,
                        "unfinished-bytes": report.torn_bytes,
                    });
                    return Ok(writeln!(out, "{report}")?);
                }
                let sardonyx_store::Report { n_segments, n_frames, n_entries, next, torn_bytes } =
                    report;
                write!(
                    out,
                    "whole: {n_entries} entries in {n_frames} groups in {n_segments} files; the \
                     next entry gets position {next}"
                )?;
                if torn_bytes > 0 {
                    write!(
                        out,
                        "; {torn_bytes} bytes at the end were never finished nor acknowledged, \
                         and will be dropped"
                    )?;
                }
                Ok(writeln!(out)?)
            }
        }
    }
}

/// The token that clients must show.
pub(super) fn read_token(path: &Path) -> Result<Secret, Failure> {
    let read = std::fs::read_to_string(path);
    let token = read.map_err(|why| Failure::input(format!("{}: {why}", path.display())))?;
    Ok(Secret::new(token.trim_end_matches(['\r', '\n'])))
}

fn serve(url: &str, listen: SocketAddr, token_file: Option<&Path>) -> Result<(), Failure> {
    let Location::Embedded(dir) = Location::parse(url)? else {
        return Err(Failure::input(format!("{url} is not in a directory: write embedded:DIR")));
    };
    let secret = token_file.map(read_token).transpose()?;
    super::block_on(async {
        let (listener, for_queues) = start_queues::listen(listen).await?;
        let serving = Serving::start(&dir, listener, secret).await?;
        let queues = start_queues::beside(&dir, Some(for_queues), token_file).await?;
        writeln!(io::stdout(), "serving {url} at sardonyx://{}", serving.address())?;
        stopped().await?;
        queues.close().await;
        serving.stop().await;
        Ok(())
    })
}
