//! How a process takes part in a mesh, as its flags say it: the same for `mesh start` and `start`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use sardonyx_mesh::{
    Address, Config, Mesh, Network, Options, Profile, StartError, Store, greet::key::Key,
    tcp::tls::Tls,
};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Failure;

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Timing {
    /// 0.5 / 1.5 / 4.5 / 1 s: one data centre.
    Lan,
    /// 10 / 30 / 90 / 5 s: as the protocol's document has it.
    Documented,
    /// 0.1 / 0.3 / 0.9 / 0.2 s: for tests.
    Test,
}

/// Everything that the flags say.
pub(super) struct Wishes<'a> {
    pub(super) listen: &'a Address,
    pub(super) seeds: &'a [Address],
    pub(super) nodes: u32,
    pub(super) profile: Timing,
    pub(super) name: Option<&'a str>,
    pub(super) cluster: &'a str,
    pub(super) data: Option<&'a Path>,
    pub(super) unsafe_volatile_votes: bool,
    pub(super) observer: bool,
    pub(super) voters: Option<&'a [Address]>,
    pub(super) join_only: bool,
    pub(super) key_file: Option<&'a Path>,
    /// Authority, certificate, private key.
    pub(super) tls: Option<[&'a Path; 3]>,
    pub(super) insecure: bool,
    /// What stands before the flags' names, where they are those of something larger.
    pub(super) prefix: &'static str,
}

impl Wishes<'_> {
    pub(super) fn options(&self) -> Result<Options, Failure> {
        self.check_guard()?;
        let key = self.key_file.map(Key::read).transpose().map_err(Failure::input)?;
        let network = match self.tls {
            Some([ca, cert, key]) => {
                Network::Tls(Tls::read(ca, cert, key).map_err(Failure::input)?)
            }
            None => Network::Tcp,
        };
        let place = self.listen.to_string().replace([':', '[', ']'], "_");
        let default = || PathBuf::from(".sardonyx/mesh").join(place);
        let store = match self.unsafe_volatile_votes {
            true => Store::UnsafeVolatileVotes,
            false => Store::Directory(self.data.map_or_else(default, Path::to_owned)),
        };
        let profile = match self.profile {
            Timing::Lan => Profile::Lan,
            Timing::Documented => Profile::Documented,
            Timing::Test => Profile::Test,
        };
        let config = Config {
            nodes: self.nodes,
            address: self.listen.clone(),
            name: self.name.map_or_else(|| self.listen.to_string(), str::to_owned),
            cluster: self.cluster.to_owned(),
            seeds: self.seeds.to_vec(),
            voters: self.voters.map(<[Address]>::to_vec),
            observer: self.observer,
            found_by_itself: !self.join_only,
            timers: profile.timers(),
        };
        Ok(Options { config, network, key, store })
    }

    /// Nothing listens beyond the machine unless somebody meant it.
    fn check_guard(&self) -> Result<(), Failure> {
        let host = self.listen.host();
        let is_loopback =
            host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()) || host == "localhost";
        let is_guarded = self.key_file.is_some() || self.tls.is_some();
        if is_loopback || is_guarded || self.insecure {
            return Ok(());
        }
        let (listen, it) = (self.listen, self.prefix);
        Err(Failure::input(format!(
            "{listen} is not on loopback: give --{it}key-file or --{it}tls-ca, or mean it with \
             --{it}insecure"
        )))
    }
}

/// Starts it, and says whose fault it is if that fails.
pub(super) async fn start(options: Options) -> Result<Mesh, Failure> {
    let tls = match &options.network {
        Network::Tls(tls) => Some(tls.clone()),
        Network::Tcp | Network::Memory(_) => None,
    };
    let mesh = Mesh::start(options).await.map_err(|why| match &why {
        StartError::Config(_) | StartError::OtherStore { .. } => Failure::input(why),
        StartError::World(_) => Failure::world(why),
    })?;
    if let Some(tls) = tls {
        let hangup = signal(SignalKind::hangup())?;
        tokio::spawn(renew_on(hangup, tls));
    }
    Ok(mesh)
}

/// SIGHUP: certificates are read again.
async fn renew_on(mut hangup: Signal, tls: Tls) {
    while hangup.recv().await.is_some() {
        match tls.renew() {
            Ok(()) => tracing::info!("certificates were read again"),
            Err(why) => tracing::error!(%why, "certificates stay as they were"),
        }
    }
}
