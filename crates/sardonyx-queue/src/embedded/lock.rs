//! The right to a directory, for one process at a time.

use std::{
    fs::{File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use crate::location::OpenError;

/// Held as long as the queues are open. The lock is the operating system's, so it ends with its owner
/// however that ends.
#[derive(Debug)]
pub(crate) struct DirLock {
    file: File,
}

impl Drop for DirLock {
    /// Closing the file would not do: a child that is just being started has a copy of it.
    fn drop(&mut self) {
        // If it fails, closing ends the lock all the same, a little later.
        let _ = self.file.unlock();
    }
}

impl DirLock {
    pub(crate) fn take(dir: &Path) -> Result<DirLock, OpenError> {
        // Not the name of the coordination store's lock: both may be in one directory.
        let path: PathBuf = dir.join("queue.lock");
        let unusable =
            |why| OpenError::NotConfigured(format!("cannot use {}: {why}", path.display()));
        let options = File::options().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // The number is a courtesy; without it the sentence is true as well.
                let _ = file.read_to_string(&mut owner);
                return Err(OpenError::NotConfigured(format!(
                    "the queues in {} are in use by process {}: stop that one, or let it serve \
                     them and connect with sardonyx://HOST:PORT",
                    dir.display(),
                    owner.trim()
                )));
            }
            Err(TryLockError::Error(why)) => return Err(unusable(why)),
        }
        let note = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        // A full disk must not keep anybody from reading what is there.
        let _ = note(&mut file);
        Ok(DirLock { file })
    }
}
