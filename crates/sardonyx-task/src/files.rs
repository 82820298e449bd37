//! Which files jobs may touch, and touching them.
//!
//! Whoever runs a job of their own on their own machine may name any file: [`Files::any`]. A node
//! runs the jobs of others, and is given directories, the *roots*; [`Files::beneath`] then has the
//! kernel open every path beneath one of them in one step, so that neither `..` nor a symbolic link
//! leads out, not even one that somebody puts there between two looks. What is found is a plain file
//! or a directory on a file system of files: no pipe, no device, nothing of `/proc`.
//!
//! Directories are opened first and names are used in them, so that what is made, renamed and removed
//! lies where the check was made.

mod pattern;
mod place;
mod refused;

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStringExt as _, fs::FileTypeExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use place::Place;
pub use refused::{NoFile, Refused};

/// How often the kernel is asked again when names change beneath it while it looks.
const TRIES_MAX: usize = 100;

/// File systems whose files are doors to the kernel. The numbers are those of `statfs`.
const KERNEL_FILE_SYSTEMS: &[(u64, &str)] = &[
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x1cd1, "devpts"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c, "selinux"),
    (0xcafe_4a11, "bpf"),
    (0xde5e_81e4, "efivarfs"),
    (0x6165_676c, "pstore"),
    (0x6265_6570, "configfs"),
    (0x6e73_6673, "nsfs"),
];

/// The files that jobs may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// `None`: any file that this process may.
    roots: Option<Vec<Root>>,
}

/// A directory beneath which jobs may touch files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Root {
    /// As it was given, from `/` on: jobs may write it so.
    named: PathBuf,
    /// Where that is, without links.
    real: PathBuf,
}

impl Files {
    /// Every file that this process may touch: for whoever runs jobs of their own.
    pub fn any() -> Files {
        Files { roots: None }
    }

    /// Files beneath these directories, which must be there. A relative path in a job is seen from
    /// the first of them. Without any, no file at all.
    pub fn beneath(roots: &[PathBuf]) -> Result<Files, String> {
        let roots = roots.iter().map(|root| Root::new(root)).collect::<Result<_, _>>()?;
        let files = Files { roots: Some(roots) };
        // A system that cannot keep jobs in says so now, and not to the first job.
        for root in files.roots.iter().flatten() {
            let tried = beneath(&root.real, Path::new("."), OFlags::PATH, Mode::empty(), &files);
            tried.map_err(|why| format!("{}: {why}", root.named.display()))?;
        }
        Ok(files)
    }

    /// Whether jobs are kept beneath roots.
    pub fn are_confined(&self) -> bool {
        self.roots.is_some()
    }

    /// Whether `path` can be a good one, as far as it says so itself: nothing is looked at.
    pub fn check(&self, path: &str) -> Result<(), Refused> {
        place::place(self.roots.as_deref(), Path::new(path)).map(|_| ())
    }

    /// Opens a file for reading.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        if !self.are_confined() {
            return File::open(path);
        }
        // Looking first: opening a pipe or a device already does something.
        self.plain(path, File::from(self.at(path, OFlags::PATH)?))?;
        let file = File::from(self.at(path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        self.plain(path, file)
    }

    /// What is known of a file or directory. Links are followed, as far as they may be.
    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        let path = path.as_ref();
        match self.are_confined() {
            true => File::from(self.at(path, OFlags::PATH)?).metadata(),
            false => fs::metadata(path),
        }
    }

    /// The names in a directory, in no order.
    pub fn list(&self, path: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        let directory = self.at(path.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// The files that a path stands for, sorted: itself, those in a directory, those that match a
    /// pattern. `is_wanted` is asked about the names of those that were not named themselves.
    pub fn expand(
        &self,
        path: &str,
        is_wanted: &dyn Fn(&Path) -> bool,
    ) -> Result<Vec<String>, String> {
        let unread = |why: io::Error| format!("{path} cannot be read: {why}");
        let mut files = match self.metadata(path) {
            Ok(known) if !known.is_dir() => return Ok(vec![path.into()]),
            Ok(_) => {
                let names = self.list(path).map_err(unread)?;
                names.iter().map(|name| Path::new(path).join(name)).collect()
            }
            Err(why) if is_refusal(&why) => return Err(unread(why)),
            Err(_) if !path.contains(['*', '?', '[']) => return Ok(Vec::new()),
            Err(_) => pattern::matching(self, path)?,
        };
        files.retain(|file| is_wanted(file) && self.metadata(file).is_ok_and(|it| it.is_file()));
        let mut files = files.iter().map(|file| text(file)).collect::<Result<Vec<_>, _>>()?;
        files.sort();
        Ok(files)
    }

    /// Makes a file that was not there.
    pub fn create_new(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let (directory, name) = self.directory_of(path.as_ref())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        Ok(File::from(rustix::fs::openat(&directory, name, flags | OFlags::CLOEXEC, mode)?))
    }

    /// Makes a directory that was not there.
    pub fn create_directory(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (directory, name) = self.directory_of(path.as_ref())?;
        Ok(rustix::fs::mkdirat(&directory, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)?)
    }

    /// Gives a file or directory another name, which whoever had it loses.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from_directory, from) = self.directory_of(from.as_ref())?;
        let (to_directory, to) = self.directory_of(to.as_ref())?;
        Ok(rustix::fs::renameat(&from_directory, from, &to_directory, to)?)
    }

    /// Removes a file.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (directory, name) = self.directory_of(path.as_ref())?;
        Ok(rustix::fs::unlinkat(&directory, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (directory, name) = self.directory_of(path.as_ref())?;
        Ok(rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes a directory with the files in it. What lies deeper is not ours, and stays.
    pub fn remove_with_files(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        for name in self.list(path)? {
            self.remove_file(path.join(name))?;
        }
        self.remove_directory(path)
    }

    /// Makes the names in a directory survive a power cut.
    pub fn sync_directory(&self, path: impl AsRef<Path>) -> io::Result<()> {
        File::from(self.at(path.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY)?).sync_all()
    }

    /// The directory in which something lies, opened, and its name there.
    fn directory_of<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        // Before the name is taken off: it may be what is wrong.
        place::place(self.roots.as_deref(), path)?;
        let name = path.file_name().ok_or_else(|| {
            let why = format!("{} does not name a file", path.display());
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            Some(_) | None => Path::new("."),
        };
        Ok((self.at(directory, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    fn at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        // What is only looked at takes no other flags; the kernel is strict about that.
        let terminal = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NOCTTY };
        let flags = flags | OFlags::CLOEXEC | terminal;
        match place::place(self.roots.as_deref(), path)? {
            Place::Anywhere => Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?),
            Place::Beneath(root, rest) => beneath(&root.real, &rest, flags, Mode::empty(), self),
        }
    }

    /// The same without following a link at the end: what `**` walks through.
    fn is_directory_itself(&self, path: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        self.at(path, flags).is_ok()
    }

    /// Refuses what is neither a file nor on a disk.
    fn plain(&self, path: &Path, file: File) -> io::Result<File> {
        let kind = file.metadata()?.file_type();
        let what = if kind.is_file() {
            return Ok(file);
        } else if kind.is_dir() {
            NoFile::Directory
        } else if kind.is_fifo() {
            NoFile::Pipe
        } else if kind.is_socket() {
            NoFile::Socket
        } else {
            NoFile::Device
        };
        Err(Refused::NoFile { path: shown(path), what }.into())
    }

    fn shown_roots(&self) -> String {
        place::shown(self.roots.as_deref().unwrap_or_default())
    }
}

impl Root {
    fn new(root: &Path) -> Result<Root, String> {
        let wrong = |why: &dyn std::fmt::Display| {
            format!("{}: {why}: name a directory that is there", root.display())
        };
        let named = std::path::absolute(root).map_err(|why| wrong(&why))?;
        let real = fs::canonicalize(root).map_err(|why| wrong(&why))?;
        if !real.is_dir() {
            return Err(wrong(&"this is no directory"));
        }
        if real == Path::new("/") {
            return Err("/ holds every file there is: name the directories that jobs need".into());
        }
        Ok(Root { named, real })
    }
}

/// Opens something beneath a root; the kernel sees to it that it is.
fn beneath(
    root: &Path,
    rest: &Path,
    flags: OFlags,
    mode: Mode,
    files: &Files,
) -> io::Result<OwnedFd> {
    let path = || shown(&root.join(rest));
    let above = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(root, above, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut tries_left = TRIES_MAX;
    let opened = loop {
        match rustix::fs::openat2(&directory, rest, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries_left > 0 => tries_left -= 1,
            tried => break tried,
        }
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(Errno::XDEV) => {
            let roots = files.shown_roots();
            return Err(Refused::LeadsOut { path: path(), roots }.into());
        }
        Err(Errno::LOOP) => return Err(Refused::Links { path: path() }.into()),
        Err(Errno::NAMETOOLONG) => return Err(Refused::TooLong { path: path() }.into()),
        Err(Errno::NOSYS) => return Err(Refused::OldSystem.into()),
        Err(why) => return Err(why.into()),
    };
    let kind = rustix::fs::fstatfs(&opened)?.f_type as u64;
    match KERNEL_FILE_SYSTEMS.iter().find(|(number, _)| *number == kind) {
        Some((_, name)) => Err(Refused::Kernel { path: path(), name }.into()),
        None => Ok(opened),
    }
}

/// Whether this is what we refuse, and not what the disk says.
fn is_refusal(why: &io::Error) -> bool {
    why.get_ref().is_some_and(|inner| inner.is::<Refused>())
}

fn shown(path: &Path) -> String {
    refused::short(&path.display().to_string())
}

fn text(path: &Path) -> Result<String, String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("the name of {} is not UTF-8: rename it", path.display()))
}
