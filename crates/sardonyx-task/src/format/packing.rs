//! Packed files: gzip and zstd, by the ending of the name.
//!
//! What is written comes in *members*, each packed by itself: members put one behind the other are a
//! valid file in both forms, so a commit is a member and a file is its commits.

use std::io::{self, Read, Write};

use flate2::{read::MultiGzDecoder, write::GzEncoder};

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Packing {
    /// Not at all.
    Plain,
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
}

/// What zstd itself takes when nobody says: fast, and well packed.
const ZSTD_LEVEL: i32 = 3;

impl Packing {
    /// By the ending of a file's name.
    pub(crate) fn of_path(path: &str) -> Packing {
        let path = path.to_ascii_lowercase();
        if path.ends_with(".gz") {
            Packing::Gzip
        } else if path.ends_with(".zst") || path.ends_with(".zstd") {
            Packing::Zstd
        } else {
            Packing::Plain
        }
    }

    /// The name without the ending that says how it is packed.
    pub(crate) fn bare(self, path: &str) -> &str {
        match self {
            Packing::Plain => path,
            Packing::Gzip | Packing::Zstd => path.rsplit_once('.').map_or(path, |(bare, _)| bare),
        }
    }

    /// Unpacks what `source` gives, member after member.
    pub(crate) fn unpack(
        self,
        source: impl Read + Send + 'static,
    ) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Packing::Plain => Box::new(source),
            Packing::Gzip => Box::new(MultiGzDecoder::new(source)),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(source)?),
        })
    }

    /// Packs `bytes` as one member behind what `packed` holds.
    pub(crate) fn pack(self, bytes: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Packing::Plain => packed.extend_from_slice(bytes),
            Packing::Gzip => {
                let mut encoder = GzEncoder::new(packed, flate2::Compression::default());
                encoder.write_all(bytes)?;
                encoder.finish()?;
            }
            Packing::Zstd => zstd::stream::copy_encode(bytes, packed, ZSTD_LEVEL)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_one_behind_the_other_are_one_file() {
        for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
            let mut packed = Vec::new();
            for part in [&b"one "[..], b"", b"two ", b"three"] {
                packing.pack(part, &mut packed).unwrap();
            }
            let mut text = String::new();
            packing.unpack(io::Cursor::new(packed)).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "one two three", "{packing:?}");
        }
    }
}
