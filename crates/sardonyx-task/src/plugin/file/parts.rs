//! The part files of an output: where they lie, and how a finished file is made of them.
//!
//! Beside `out.csv` stands the directory `out.csv.parts`, in it one for each job and task, and in
//! that one file for each session. Nobody else writes to a session's file, and of what is in it only
//! the committed length counts: what a writer puts behind that, dead, fenced or merely ahead, is never
//! looked at.

use std::{
    fmt::Write as _,
    fs::File,
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;

use crate::{
    Files, Format, Terms,
    format::{Packing, parquet},
};

/// What a session commits: how far its part is.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Mark {
    /// Which file of the part this is about, from 1. Those before it are whole.
    pub(super) file: u64,
    /// How many bytes of it count.
    pub(super) bytes: u64,
    /// What stands before the rows of a finished file: the first line of CSV.
    pub(super) header: String,
}

impl Mark {
    pub(super) fn to_bytes(&self) -> Result<Bytes, String> {
        serde_json::to_vec(self).map(Bytes::from).map_err(|why| why.to_string())
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Mark, String> {
        serde_json::from_slice(bytes)
            .map_err(|why| format!("what a part committed cannot be read: {why}"))
    }
}

/// Where things lie, and of which form they are.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) disk: Files,
    pub(super) path: PathBuf,
    pub(super) format: Format,
    pub(super) packing: Packing,
    /// `PATH.parts`
    root: PathBuf,
    /// `PATH.parts/JOB.TASK`
    pub(super) directory: PathBuf,
}

/// A part, or a piece of one: a file, and how many of its bytes count.
type Piece = (PathBuf, u64);

impl Parts {
    pub(super) fn new(terms: &Terms, path: &str, format: Format) -> Parts {
        let root = PathBuf::from(format!("{path}.parts"));
        let directory = root.join(format!("{}.{}", file_name(&terms.job), file_name(&terms.task)));
        let packing = Packing::of_path(path);
        let disk = terms.files().clone();
        Parts { disk, path: path.into(), format, packing, root, directory }
    }

    fn exists(&self, path: &Path) -> bool {
        self.disk.metadata(path).is_ok()
    }

    /// The file of a part.
    pub(super) fn part(&self, part: &str, number: u64) -> PathBuf {
        self.directory.join(format!("part-{}-{number:06}", file_name(part)))
    }

    /// Where a file of a part appears when it is finished before the task is.
    pub(super) fn rolled(&self, part: &str, number: u64) -> PathBuf {
        let name = self.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let bare = self.packing.bare(&name);
        let stem = match bare.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            Some(_) | None => bare,
        };
        let ending = &name[stem.len()..];
        self.path.with_file_name(format!("{stem}-{}-{number:06}{ending}", file_name(part)))
    }

    /// Makes the directory. Another job's end may take away what lies above, so it tries again.
    pub(super) fn make_directory(&self) -> io::Result<()> {
        let mut tries_left = 10;
        loop {
            match self.disk.create_directory(&self.root) {
                Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(why),
                Ok(()) | Err(_) => {}
            }
            match self.disk.create_directory(&self.directory) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::NotFound && tries_left > 0 => {
                    tries_left -= 1;
                }
                made => return made,
            }
        }
    }

    /// Makes the names of new files survive a power cut.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_directory(&self.directory)?;
        self.disk.sync_directory(&self.root)?;
        self.disk.sync_directory(parent(&self.path))
    }

    /// The whole file out of what all parts committed. May happen again at any point of itself.
    pub(super) fn finish(&self, marks: &[(String, Mark)]) -> Result<(), String> {
        let finished = self.directory.with_extension("finished");
        if !self.exists(&self.directory) && !marks.is_empty() {
            self.clean(&finished);
            return if self.exists(&self.path) {
                Ok(())
            } else {
                let (parts, path) = (self.directory.display(), self.path.display());
                Err(format!("{parts} is gone, and {path} is not there: run the job again"))
            };
        }
        if let Err(why) = self.finish_now(marks) {
            // Somebody else may have finished at the same time, and taken the parts away.
            let is_done = !self.exists(&self.directory) && self.exists(&self.path);
            return if is_done { Ok(()) } else { Err(why) };
        }
        // First out of the way at once, then away bit by bit: half a directory would look like lost
        // parts.
        let _ = self.disk.rename(&self.directory, &finished);
        self.clean(&finished);
        Ok(())
    }

    fn finish_now(&self, marks: &[(String, Mark)]) -> Result<(), String> {
        let mut header: Option<(&str, &str)> = None;
        let mut pieces = Vec::new();
        for (part, mark) in marks {
            match header {
                Some((_, header)) if header != mark.header => {
                    return Err(format!(
                        "{}: rows have different columns: {} and {}",
                        self.path.display(),
                        header.trim_end(),
                        mark.header.trim_end()
                    ));
                }
                Some(_) => {}
                None => header = Some((part, &mark.header)),
            }
            pieces.push((self.part(part, mark.file), mark.bytes));
        }
        let header = header.map(|(_, header)| header).unwrap_or_default();
        self.make(header, &pieces, &self.path)
    }

    /// A part's file `number` becomes a finished one: its first `bytes`, or all of it.
    pub(super) fn show(
        &self,
        part: &str,
        number: u64,
        bytes: Option<u64>,
        header: &str,
    ) -> Result<(), String> {
        let from = self.part(part, number);
        let length = match self.disk.metadata(&from) {
            Ok(meta) => meta.len(),
            // It was shown before.
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(why) => return Err(format!("{} cannot be read: {why}", from.display())),
        };
        let count = bytes.unwrap_or(length);
        let to = self.rolled(part, number);
        // No other session has this name, so a file that has it is this one.
        if count > 0
            && !self.exists(&to)
            && let Err(why) = self.make(header, &[(from.clone(), count)], &to)
        {
            // Whoever takes it away has shown it: somebody else did, at the same time.
            return if self.exists(&from) { Err(why) } else { Ok(()) };
        }
        match self.disk.remove_file(&from) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                Err(format!("{}: {why}", from.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Puts pieces together in a file of another name, and gives it its own when it is whole.
    fn make(&self, header: &str, pieces: &[Piece], to: &Path) -> Result<(), String> {
        let failed = |why: String| format!("{} cannot be written: {why}", to.display());
        self.make_directory().map_err(|why| failed(why.to_string()))?;
        let nonce = RandomState::new().build_hasher().finish();
        let whole = self.directory.join(format!("whole-{nonce:016x}"));
        let made = self.put_together(header, pieces, &whole).and_then(|()| {
            self.disk.rename(&whole, to).map_err(|why| why.to_string())?;
            self.disk.sync_directory(parent(to)).map_err(|why| why.to_string())
        });
        if made.is_err() {
            let _ = self.disk.remove_file(&whole);
        }
        made.map_err(failed)
    }

    fn put_together(&self, header: &str, pieces: &[Piece], to: &Path) -> Result<(), String> {
        let text = |why: io::Error| why.to_string();
        let open = |(path, bytes): &Piece| -> io::Result<io::Take<File>> {
            let file = self
                .disk
                .open(path)
                .map_err(|why| io::Error::new(why.kind(), format!("{}: {why}", path.display())))?;
            if file.metadata()?.len() < *bytes {
                let why = format!("{} is shorter than what was committed", path.display());
                return Err(io::Error::other(why));
            }
            Ok(file.take(*bytes))
        };
        let mut file = self.disk.create_new(to).map_err(text)?;
        if self.format == Format::Parquet {
            let buffered = io::BufWriter::new(file.try_clone().map_err(text)?);
            parquet::write(buffered, pieces.iter().map(open))?;
        } else {
            let mut packed = Vec::new();
            if !header.is_empty() || pieces.is_empty() {
                self.packing.pack(header.as_bytes(), &mut packed).map_err(text)?;
            }
            file.write_all(&packed).map_err(text)?;
            for piece in pieces {
                let copied = io::copy(&mut open(piece).map_err(text)?, &mut file).map_err(text)?;
                if copied < piece.1 {
                    return Err(format!("{} became shorter", piece.0.display()));
                }
            }
        }
        file.sync_all().map_err(text)
    }

    /// What is left of a finished task.
    fn clean(&self, finished: &Path) {
        let _ = self.disk.remove_with_files(finished);
        // Only if no other job writes here.
        let _ = self.disk.remove_directory(&self.root);
    }

    /// What is left of parts of which everything was shown.
    pub(super) fn clean_if_empty(&self) {
        let _ = self.disk.remove_directory(&self.directory);
        let _ = self.disk.remove_directory(&self.root);
    }

    /// Opens a part's file, which nobody else has.
    pub(super) fn create(&self, part: &str, number: u64) -> Result<File, String> {
        let path = self.part(part, number);
        let made = self.make_directory();
        let file = made.and_then(|()| self.disk.create_new(&path));
        file.map_err(|why| format!("{} cannot be written: {why}", path.display()))
    }
}

/// The directory in which a file lies.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// A name that is one for the file system as well, and no other name's.
fn file_name(name: &str) -> String {
    let mut safe = String::new();
    for byte in name.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' => safe.push(byte as char),
            _ => {
                // Writing to a text does not fail.
                let _ = write!(safe, "%{byte:02x}");
            }
        }
    }
    safe
}
