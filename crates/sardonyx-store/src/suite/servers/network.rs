//! A network of our own, to be cut: a namespace for each server, and one for the test.
//!
//! ```text
//!   the test ── bridge ──┬── n0 ── eth0 of server 0, 10.77.0.1
//!   10.77.0.254          ├── n1 ── eth0 of server 1, 10.77.0.2
//!                        └── n2 ── …
//! ```
//!
//! Nothing of the machine's own network is touched. Packets are lost without a word, as on a cable
//! that was pulled, so nobody is told that a connection has ended.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd as _,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// How long a packet waits for a thin line before it is lost.
const THIN_WAIT_MAX_MS: u64 = 400;

/// What a server is cut off from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Everybody: the other servers and the test.
    All,
    /// The other servers. Clients still reach it, and it does not know that it is alone.
    Servers,
}

/// Namespaces that go away when this is dropped.
#[derive(Debug)]
pub struct Network {
    name: String,
    n_nodes: usize,
}

impl Network {
    /// Makes a network for so many servers. `None` if this is not root, which is said on the
    /// standard error, past the test's capture; anything else that goes wrong is a panic.
    pub fn make(n_nodes: usize) -> Option<Arc<Network>> {
        super::install();
        if !is_root() {
            not_checked("network namespaces need root");
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let network = Network { name: format!("sx{}-{count}", std::process::id()), n_nodes };
        let hub = network.hub();
        ip(&format!("netns add {hub}"));
        ip(&format!("-n {hub} link set lo up"));
        ip(&format!("-n {hub} link add br0 type bridge"));
        ip(&format!("-n {hub} addr add 10.77.0.254/24 dev br0"));
        ip(&format!("-n {hub} link set br0 up"));
        for node in 0..n_nodes {
            let (space, address) = (network.space(node), network.address(node));
            ip(&format!("netns add {space}"));
            ip(&format!("-n {hub} link add n{node} type veth peer name eth0 netns {space}"));
            ip(&format!("-n {hub} link set n{node} master br0 up"));
            ip(&format!("-n {space} addr add {address}/24 dev eth0"));
            ip(&format!("-n {space} link set eth0 up"));
            ip(&format!("-n {space} link set lo up"));
        }
        Some(Arc::new(network))
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.name)
    }

    fn space(&self, node: usize) -> String {
        format!("{}-{node}", self.name)
    }

    /// The address of a server.
    pub fn address(&self, node: usize) -> String {
        format!("10.77.0.{}", node + 1)
    }

    /// A command that runs beside server `node`.
    pub fn command(&self, node: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(node), program]);
        command
    }

    /// Runs a scenario in the test's namespace. On a thread of its own: threads that it starts are
    /// there as well, and nobody else is.
    pub fn run<F: Future<Output = ()>>(&self, scenario: impl FnOnce() -> F + Send) {
        let path = format!("/run/netns/{}", self.hub());
        let inside = || {
            let space = File::open(&path).expect("the namespace");
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(space.as_fd(), network).expect("to enter the namespace");
            crate::suite::run(scenario());
        };
        std::thread::scope(|scope| {
            if let Err(panic) = scope.spawn(inside).join() {
                std::panic::resume_unwind(panic);
            }
        });
    }

    /// Cuts server `node` off.
    pub fn cut(&self, node: usize, cut: Cut) {
        match cut {
            Cut::All => ip(&format!("-n {} link set n{node} down", self.hub())),
            Cut::Servers => self.between(node, |from, to| self.block(from, to)),
        }
    }

    /// Mends what was cut.
    pub fn mend(&self, node: usize, cut: Cut) {
        match cut {
            Cut::All => ip(&format!("-n {} link set n{node} up", self.hub())),
            Cut::Servers => self.between(node, |from, to| self.unblock(from, to)),
        }
    }

    /// What `from` sends does not arrive at `to`: it goes to an address on the wire that nobody has.
    /// The other direction works.
    pub fn block(&self, from: usize, to: usize) {
        let (space, address) = (self.space(from), self.address(to));
        ip(&format!(
            "-n {space} neigh replace {address} lladdr 02:00:00:00:00:99 dev eth0 nud permanent"
        ));
    }

    /// It arrives again.
    pub fn unblock(&self, from: usize, to: usize) {
        ip(&format!("-n {} neigh del {} dev eth0", self.space(from), self.address(to)));
    }

    /// The line of `node` carries so many kilobits a second in either direction. What waits for more
    /// than `THIN_WAIT_MAX_MS` is lost, so a thin line also delays and loses.
    pub fn thin(&self, node: usize, kbit: u64) -> io::Result<()> {
        for (space, device) in self.ends(node) {
            // A burst is at least a packet of the largest kind, or none of them ever fits.
            let shape = format!("rate {kbit}kbit burst 3000 latency {THIN_WAIT_MAX_MS}ms");
            tool("tc", &format!("-n {space} qdisc replace dev {device} root tbf {shape}"))?;
        }
        Ok(())
    }

    /// It carries what it did before.
    pub fn widen(&self, node: usize) -> io::Result<()> {
        for (space, device) in self.ends(node) {
            tool("tc", &format!("-n {space} qdisc del dev {device} root"))?;
        }
        Ok(())
    }

    /// Both ends of a line: its own, and the one that the others send to.
    fn ends(&self, node: usize) -> [(String, String); 2] {
        [(self.space(node), "eth0".into()), (self.hub(), format!("n{node}"))]
    }

    /// Resets every connection that `node` has with somebody else; both ends are told.
    pub fn reset(&self, node: usize) -> io::Result<()> {
        let (space, address) = (self.space(node), self.address(node));
        tool("ss", &format!("-N {space} -K -t state established src {address}"))
    }

    /// Calls `act` for both directions between `node` and each of the others.
    fn between(&self, node: usize, act: impl Fn(usize, usize)) {
        for other in (0..self.n_nodes).filter(|other| *other != node) {
            act(node, other);
            act(other, node);
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let nodes = (0..self.n_nodes).map(|node| self.space(node));
        for space in nodes.chain([self.hub()]) {
            // It may not have been made.
            let _ = Command::new("ip").args(["netns", "del", &space]).status();
        }
    }
}

/// Whether this process may make namespaces and mount file systems.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says that a test checked nothing, where a test's capture does not hide it.
pub fn not_checked(why: &str) {
    let line = format!("\nNOT CHECKED: {why}; run the tests as root\n");
    // Nothing can be done if nobody listens.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Runs a tool of iproute2, which does what it is told or says why not.
fn tool(name: &str, words: &str) -> io::Result<()> {
    let output = Command::new(name).args(words.split(' ')).output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(format!("{name} {words}: {}", said.trim())))
        }
    }
}

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ').filter(|it| !it.is_empty())).output();
    let output = output.expect("ip runs; it is in Debian's package iproute2");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}
