//! About how many records text files have, from their sizes and the beginning of the first: for
//! progress bars, which can live with a guess.

use std::io::Read as _;

use crate::{Files, format::Packing};

/// How much of a file is looked at.
const SAMPLE_BYTES: u64 = 64 << 10;

/// The rows of these files. `None` if they are packed, or cannot be looked at.
pub(super) fn rows(disk: &Files, files: &[String], has_header: bool) -> Option<u64> {
    if files.iter().any(|file| Packing::of_path(file) != Packing::Plain) {
        return None;
    }
    let sizes = files.iter().map(|file| disk.metadata(file).map(|it| it.len()).ok());
    let sizes = sizes.collect::<Option<Vec<_>>>()?;
    let first = files.iter().zip(&sizes).find(|(_, size)| **size > 0);
    let Some((first, _)) = first else { return Some(0) };
    let mut sample = Vec::new();
    disk.open(first).ok()?.take(SAMPLE_BYTES).read_to_end(&mut sample).ok()?;
    let n_headers = if has_header { files.len() as u64 } else { 0 };
    Some(scaled(&sample, sizes.iter().sum()).saturating_sub(n_headers))
}

/// How many lines `bytes` bytes have if they are like the sample.
fn scaled(sample: &[u8], bytes: u64) -> u64 {
    let ends = memchr::memchr_iter(b'\n', sample);
    let (n, last) = ends.fold((0, 0), |(n, _), at| (n + 1, at as u64 + 1));
    match n {
        // One line that is longer than the sample, or has no end.
        0 => 1,
        n => (u128::from(bytes) * n / u128::from(last)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_like_the_first_ones_are_expected() {
        assert_eq!(scaled(b"ab\ncd\n", 6), 2);
        assert_eq!(scaled(b"ab\ncd\ne", 300), 100, "a line that is cut off does not count");
        assert_eq!(scaled(b"abc", 3), 1);
        assert_eq!(scaled(b"", 0), 1);
    }

    #[test]
    fn headers_and_packed_files_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_string_lossy().into_owned()
        };
        let (one, two) = (file("1.csv", "n\n1\n2\n"), file("2.csv", "n\n3\n4\n"));
        assert_eq!(rows(&Files::any(), &[one.clone(), two], true), Some(4));
        assert_eq!(rows(&Files::any(), std::slice::from_ref(&one), false), Some(3));
        assert_eq!(rows(&Files::any(), &[one, file("3.csv.gz", "")], true), None);
        assert_eq!(rows(&Files::any(), &[file("4.csv", "")], true), Some(0));
        assert_eq!(rows(&Files::any(), &["no such file".into()], true), None);
    }
}
