//! The one file that a member must not lose: what it promised, and the highest version that it
//! knows to have had a leader.
//!
//! ```text
//! "SDXMESH1" · length, 4 bytes · payload · CRC-32C of length and payload, 4 bytes     little endian
//! ```
//!
//! A write goes to a second file, which is synced, takes the first one's name, and then the
//! directory is synced. So the file is always whole: the old promise or the new one. A file whose
//! checksum does not match was therefore damaged afterwards, and nobody knows what it promised: it
//! is reported as [`Found::Corrupt`], and the member does not vote until that is safe.
//!
//! What the payload means is the machine's business.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 8] = b"SDXMESH1";

/// The largest payload. Promises for a few versions take some hundred bytes.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// What was in the directory.
#[derive(PartialEq, Eq, Debug)]
pub enum Found {
    /// Nothing: a new member, or one whose file was deleted.
    Missing,
    /// What was written last.
    Intact(Vec<u8>),
    /// A file that is not what was written. A copy is kept as `promises.corrupt`; the file itself
    /// stays until the first write, so that a second start finds the damage as well and not a
    /// member that never promised anything.
    Corrupt(String),
}

/// A directory with a member's file in it, held so that no second process uses it.
#[derive(Debug)]
pub struct Durable {
    dir: PathBuf,
    /// Locked while we live.
    _lock: File,
}

impl Durable {
    /// Opens a directory, makes it if need be, and reads what is there.
    ///
    /// An error means that nothing can be promised here: no right to write, or another process
    /// holds it.
    pub fn open(dir: &Path) -> io::Result<(Durable, Found)> {
        fs::create_dir_all(dir)?;
        let lock = OpenOptions::new().create(true).append(true).open(dir.join("lock"))?;
        lock.try_lock().map_err(|why| {
            let why = io::Error::from(why);
            let held = format!("{} is in use by another process: {why}", dir.display());
            io::Error::new(why.kind(), held)
        })?;
        let durable = Durable { dir: dir.to_owned(), _lock: lock };
        let found = durable.read()?;
        if matches!(found, Found::Corrupt(_)) {
            fs::copy(durable.file(), dir.join("promises.corrupt"))?;
        }
        Ok((durable, found))
    }

    /// Replaces the payload. When this returns, it survives a power cut.
    ///
    /// After an error the member must stop: what is on the disk is either the old payload or the
    /// new one, and a second attempt at syncing proves nothing.
    pub fn write(&self, payload: &[u8]) -> io::Result<()> {
        let too_long =
            || io::Error::new(io::ErrorKind::InvalidInput, "more than a member promises");
        let n = u32::try_from(payload.len()).ok().filter(|n| *n as usize <= PAYLOAD_BYTES_MAX);
        let len = n.ok_or_else(too_long)?.to_le_bytes();
        let sum = crc32c::crc32c_append(crc32c::crc32c(&len), payload);
        let mut bytes = Vec::with_capacity(payload.len() + 16);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&len);
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let next = self.dir.join("promises.next");
        let mut file = File::create(&next)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&next, self.file())?;
        self.sync_dir()
    }

    fn read(&self) -> io::Result<Found> {
        let mut bytes = Vec::new();
        match File::open(self.file()) {
            Ok(file) => {
                // Not more than could be right: the file may be anything by now.
                file.take(PAYLOAD_BYTES_MAX as u64 + 17).read_to_end(&mut bytes)?;
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
            Err(why) => return Err(why),
        }
        Ok(match parse(&bytes) {
            Ok(payload) => Found::Intact(payload.to_vec()),
            Err(why) => Found::Corrupt(format!("{}: {why}", self.file().display())),
        })
    }

    fn file(&self) -> PathBuf {
        self.dir.join("promises")
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

/// The payload of a file, or what is wrong with it.
fn parse(bytes: &[u8]) -> Result<&[u8], &'static str> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("it does not begin as it should")?;
    let (len, rest) = rest.split_first_chunk::<4>().ok_or("it is cut off")?;
    let n = u32::from_le_bytes(*len) as usize;
    let payload = rest.get(..n).ok_or("it is cut off")?;
    let sum: [u8; 4] = rest[n..].try_into().map_err(|_| "its length is wrong")?;
    match u32::from_le_bytes(sum) == crc32c::crc32c_append(crc32c::crc32c(len), payload) {
        true => Ok(payload),
        false => Err("its checksum does not match"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path) -> (Durable, Found) {
        Durable::open(dir).unwrap()
    }

    #[test]
    fn what_was_written_last_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (durable, found) = open(dir.path());
        assert_eq!(found, Found::Missing);
        for payload in [&b"one"[..], b"", &[7; PAYLOAD_BYTES_MAX]] {
            durable.write(payload).unwrap();
            assert_eq!(durable.read().unwrap(), Found::Intact(payload.to_vec()));
        }
        let too_long = vec![7; PAYLOAD_BYTES_MAX + 1];
        assert!(durable.write(&too_long).is_err());
        drop(durable);
        assert_eq!(open(dir.path()).1, Found::Intact(vec![7; PAYLOAD_BYTES_MAX]));
    }

    #[test]
    fn a_write_that_was_cut_short_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).0.write(b"promised").unwrap();
        fs::write(dir.path().join("promises.next"), b"SDXM").unwrap();
        assert_eq!(open(dir.path()).1, Found::Intact(b"promised".to_vec()));
    }

    /// Every damaged bit and every missing tail is noticed, and the file is kept for who looks.
    #[test]
    fn damage_is_never_taken_for_a_promise() {
        let dir = tempfile::tempdir().unwrap();
        let (durable, _) = open(dir.path());
        durable.write(b"promised").unwrap();
        let whole = fs::read(durable.file()).unwrap();
        for at in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(parse(&bytes).is_err(), "bit {at}");
        }
        for n in 0..whole.len() {
            assert!(parse(&whole[..n]).is_err(), "{n} bytes");
        }
        assert!(parse(&[&whole[..], b"x"].concat()).is_err());
        fs::write(durable.file(), &whole[..9]).unwrap();
        drop(durable);
        assert!(matches!(open(dir.path()).1, Found::Corrupt(_)));
        assert_eq!(fs::read(dir.path().join("promises.corrupt")).unwrap(), &whole[..9]);
        let (durable, found) = open(dir.path());
        assert!(matches!(found, Found::Corrupt(_)), "a second start finds it as well");
        durable.write(b"again").unwrap();
        assert_eq!(durable.read().unwrap(), Found::Intact(b"again".to_vec()));
    }

    #[test]
    fn a_directory_has_one_owner() {
        let dir = tempfile::tempdir().unwrap();
        let (_held, _) = open(dir.path());
        let refused = Durable::open(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("in use by another process"), "{refused}");
    }
}
