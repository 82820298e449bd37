//! A place of our own: mounts, network and processes that end with this process, however it ends.
//!
//! The driver starts itself again as the first process of a new process namespace, with a network and
//! mounts that nobody else sees. When it ends, be it by kill -9, the kernel ends whatever it started
//! and forgets the rest. Nothing outside is touched.

use std::{
    io,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use sardonyx_store::suite::servers;

/// Set in the process that is inside.
const INSIDE: &str = "SARDONYX_FIRE_INSIDE";

/// Whether this process is inside.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Becomes a process inside. Only comes back to say why that cannot be.
pub fn enter() -> String {
    if !servers::is_root() {
        return "network namespaces need root: run this as root, or give --no-sandbox to leave out \
                partitions and full disks"
            .into();
    }
    // From in there no package can be reached.
    servers::install();
    let this = match std::env::current_exe() {
        Ok(this) => this,
        Err(why) => return format!("this program cannot be found again: {why}"),
    };
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["--propagation", "private"])
        .arg(this)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1");
    let why = command.exec();
    format!("unshare: {why}; it is in Debian's package util-linux; or give --no-sandbox")
}

/// Makes room for names of network namespaces that nobody else sees.
pub fn prepare() -> io::Result<()> {
    mount(Path::new("/run"), "16m")?;
    std::fs::create_dir_all("/run/netns")
}

/// Mounts a file system of this size in memory, which only we see.
pub fn mount(dir: &Path, size: &str) -> io::Result<()> {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "fire"]).arg(dir);
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}
