//! `sardonyx ids`: ids on the command line, and the service.

use std::{
    io::{self, Write},
    net::SocketAddr,
};

use clap::{Args, Subcommand, ValueEnum};
use sardonyx_ids::{Config, Form, Id, Ids as Cluster, Layout, NoIds, Source, System, admin};

use super::{Failure, block_on, ids_serve, open_store};

/// Make, read and serve ids: unique, ordered by time, 63 bits.
#[derive(Args)]
pub(crate) struct Ids {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Copy, ValueEnum)]
enum Written {
    Decimal,
    Base32,
    Base62,
}

impl Written {
    fn form(self) -> Form {
        match self {
            Written::Decimal => Form::Decimal,
            Written::Base32 => Form::Base32,
            Written::Base62 => Form::Base62,
        }
    }
}

/// Where the cluster's coordination is kept.
#[derive(Args)]
pub(super) struct At {
    /// embedded:DIR, sardonyx://HOST:PORT, etcd://HOST:PORT/NAME, zookeeper://HOST:PORT/NAME
    #[arg(long, value_name = "URL")]
    pub(super) store: String,
}

#[derive(Subcommand)]
enum What {
    /// Take a worker number, print ids, and give the number back.
    Next {
        #[command(flatten)]
        at: At,

        /// How many.
        #[arg(long, short = 'n', default_value_t = 1, value_name = "N")]
        count: u64,

        /// How to write them.
        #[arg(long, value_enum, default_value = "decimal")]
        form: Written,
    },
    /// Say what ids are made of. Ids are arguments; layout and epoch are the cluster's.
    Decode {
        /// The ids.
        #[arg(required = true)]
        ids: Vec<String>,

        /// How they are written.
        #[arg(long, value_enum, default_value = "decimal")]
        form: Written,

        /// The cluster whose layout to use; left out, the usual one.
        #[arg(long, value_name = "URL")]
        store: Option<String>,
    },
    /// Show every worker number that was ever used: who holds it, and up to when.
    Workers {
        #[command(flatten)]
        at: At,

        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Take a worker number out of use, or back into use.
    Retire {
        #[command(flatten)]
        at: At,

        /// The number.
        number: u32,

        /// Take it back into use.
        #[arg(long)]
        undo: bool,
    },
    /// After the store was restored from a backup: make no ids before this time, ever again.
    Floor {
        #[command(flatten)]
        at: At,

        /// Milliseconds since 1970; left out, a minute from now.
        millis: Option<u64>,
    },
    /// Serve ids over HTTP, RESP and raw frames, until this process is stopped.
    Serve(ids_serve::Serve),
}

impl Ids {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.what {
            What::Next { at, count, form } => block_on(next(at, count, form.form())),
            What::Decode { ids, form, store } => block_on(decode(ids, form.form(), store)),
            What::Workers { at, json } => block_on(workers(at, json)),
            What::Retire { at, number, undo } => block_on(async {
                let store = open_store(&at.store).await?;
                match undo {
                    true => Ok(admin::restore(&store, number).await?),
                    false => Ok(admin::retire(&store, number, System.wall()).await?),
                }
            }),
            What::Floor { at, millis } => block_on(async {
                let store = open_store(&at.store).await?;
                let floor = millis.unwrap_or(System.wall() + 60_000);
                let floor = admin::raise_floor(&store, floor).await?;
                Ok(writeln!(io::stdout(), "{floor}")?)
            }),
            What::Serve(it) => block_on(it.run()),
        }
    }
}

/// The cluster's layout if it has one already, the usual one otherwise.
pub(super) async fn layout_of(store: &sardonyx_store::Store) -> Result<Layout, Failure> {
    Ok(admin::overview(store).await?.layout.unwrap_or_default())
}

pub(super) fn failure(why: &NoIds) -> Failure {
    match why {
        NoIds::BadLayout(_) => Failure::input(why),
        NoIds::RetryAfter(_) | NoIds::NotReady(_) => Failure::world(why),
    }
}

async fn next(at: At, count: u64, form: Form) -> Result<(), Failure> {
    let store = open_store(&at.store).await?;
    let config = Config { layout: layout_of(&store).await?, ..Config::default() };
    let ids = Cluster::join(&store, config).await.map_err(|why| failure(&why))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for _ in 0..count {
        let id = ids.next_wait().await.map_err(|why| failure(&why))?;
        writeln!(out, "{}", form.write(id))?;
    }
    out.flush()?;
    ids.leave().await;
    Ok(())
}

async fn decode(ids: Vec<String>, form: Form, store: Option<String>) -> Result<(), Failure> {
    let layout = match store {
        Some(url) => layout_of(&open_store(&url).await?).await?,
        None => Layout::default(),
    };
    let mut out = io::stdout().lock();
    for text in ids {
        let id: Id = form.read(&text).map_err(|why| Failure::input(format!("{text:?}: {why}")))?;
        let parts = layout.decode(id);
        let line = serde_json::json!({
            "id": id.to_string(), "time": parts.time, "worker": parts.worker,
            "sequence": parts.sequence, "base32": Form::Base32.write(id),
            "base62": Form::Base62.write(id),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

async fn workers(at: At, json: bool) -> Result<(), Failure> {
    let store = open_store(&at.store).await?;
    let overview = admin::overview(&store).await?;
    let now = System.wall();
    let mut out = io::stdout().lock();
    if !json {
        writeln!(
            out,
            "{:>6}  {:>12}  {:>9}  {:<8}  owner",
            "number", "mark - now", "offset", "state"
        )?;
    }
    for it in overview.numbers.into_iter().map(|it| sardonyx::shown::worker(it, now)) {
        if json {
            let line = serde_json::to_string(&it).map_err(Failure::world)?;
            writeln!(out, "{line}")?;
        } else {
            let left = it.mark_minus_now_ms.map_or(String::new(), |left| format!("{left} ms"));
            let offset = format!("{} ms", it.clock_offset_ms);
            let (number, state, owner) = (it.number, it.state, it.owner.unwrap_or_default());
            writeln!(out, "{number:>6}  {left:>12}  {offset:>9}  {state:<8}  {owner}")?;
        }
    }
    Ok(())
}

/// Where to listen; nothing listens unless it is told to, apart from the usual HTTP port.
pub(super) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}
