//! Servers for one run, on this machine: started in a directory of their own, ended when dropped.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::tree;

/// How long a server may take until it listens.
const STARTED_MAX: Duration = Duration::from_secs(30);

pub(super) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// A store in a directory, served.
    pub(super) fn sardonyx(program: &Path) -> Result<(Server, String), String> {
        let store = format!("embedded:{}", directory("served")?);
        let mut command = Command::new(program);
        command.args(["store", "serve", "--listen", "127.0.0.1:0", &store]);
        let mut child =
            command.stdout(Stdio::piped()).spawn().map_err(|why| format!("{command:?}: {why}"))?;
        let out = child.stdout.take().ok_or("no output")?;
        let server = Server(child);
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map_err(|why| why.to_string())?;
        // "serving embedded:… at sardonyx://ADDRESS"
        let url = line.trim().rsplit(' ').next().filter(|it| it.starts_with("sardonyx://"));
        Ok((server, url.ok_or_else(|| format!("no address in {line:?}"))?.to_owned()))
    }

    /// One etcd.
    pub(super) fn etcd() -> Result<(Server, String), String> {
        let (clients, peers) = (free_port()?, free_port()?);
        let (clients_url, peers_url) =
            (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
        let mut command = Command::new("/usr/bin/etcd");
        command.args(["--data-dir", &directory("etcd")?, "--name", "one"]);
        command.args(["--listen-client-urls", &clients_url]);
        command.args(["--advertise-client-urls", &clients_url]);
        command.args(["--listen-peer-urls", &peers_url]);
        command.args(["--initial-advertise-peer-urls", &peers_url]);
        command.args(["--initial-cluster", &format!("one={peers_url}"), "--logger", "zap"]);
        let server = Server::start(&mut command, clients)?;
        Ok((server, format!("etcd://127.0.0.1:{clients}/bench")))
    }

    /// One ZooKeeper, from Debian's package.
    pub(super) fn zookeeper() -> Result<(Server, String), String> {
        let (port, dir) = (free_port()?, directory("zookeeper")?);
        let file = format!("{dir}/zoo.cfg");
        let text = format!(
            "tickTime=500\ndataDir={dir}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\nmaxClientCnxns=0\n"
        );
        fs::write(&file, text).map_err(|why| format!("{file}: {why}"))?;
        let mut command = Command::new("java");
        command.args(["-cp", "/usr/share/java/*"]);
        command.args(["org.apache.zookeeper.server.ZooKeeperServerMain", &file]);
        let server = Server::start(&mut command, port)?;
        Ok((server, format!("zookeeper://127.0.0.1:{port}/bench")))
    }

    fn start(command: &mut Command, port: u16) -> Result<Server, String> {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut server =
            Server(command.spawn().map_err(|why| format!("{:?}: {why}", command.get_program()))?);
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.0.try_wait().map_err(|why| why.to_string())?;
            if ended.is_some() || began.elapsed() > STARTED_MAX {
                return Err(format!("{:?} does not listen", command.get_program()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

/// An empty directory for one run.
fn directory(name: &str) -> Result<String, String> {
    let path = tree::root().join("target/bench-report").join(name);
    // It is not there the first time.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(path.display().to_string())
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|why| why.to_string())?;
    Ok(listener.local_addr().map_err(|why| why.to_string())?.port())
}
