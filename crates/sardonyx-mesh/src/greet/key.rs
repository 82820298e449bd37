//! The key that all members of a cluster share, and what is proved with it.

use std::{fmt, io, path::Path};

use ring::hmac;

/// A number that is used once.
pub type Nonce = [u8; 32];

/// A signature over what was said; all zero where there is no key.
pub type Proof = [u8; 32];

/// The shortest key. A key that a person made up can be guessed from one recorded handshake.
pub const KEY_BYTES_MIN: usize = 16;

/// The longest key file.
pub const KEY_BYTES_MAX: usize = 4096;

/// A shared key. It is never shown.
#[derive(Clone)]
pub struct Key(hmac::Key);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// A key from its bytes.
    pub fn new(bytes: &[u8]) -> Result<Key, String> {
        match bytes.len() {
            KEY_BYTES_MIN..=KEY_BYTES_MAX => Ok(Key(hmac::Key::new(hmac::HMAC_SHA256, bytes))),
            n => Err(format!(
                "a key has {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, this has {n}: \
                 make one with `head -c 32 /dev/urandom | base64`"
            )),
        }
    }

    /// A key from a file; a line end behind it does not count.
    pub fn read(file: &Path) -> io::Result<Key> {
        let say = |why: String| io::Error::other(format!("{}: {why}", file.display()));
        let bytes = std::fs::read(file).map_err(|why| say(why.to_string()))?;
        Key::new(bytes.trim_ascii_end()).map_err(say)
    }

    /// Signs `said` in the name of one side. Without a key there is nothing to prove.
    pub(super) fn sign(key: Option<&Key>, side: &str, said: &[u8]) -> Proof {
        let Some(Key(key)) = key else { return [0; 32] };
        let mut context = hmac::Context::with_key(key);
        context.update(b"sardonyx mesh ");
        context.update(side.as_bytes());
        context.update(said);
        context.sign().as_ref().try_into().unwrap_or([0; 32])
    }

    /// Whether `proof` is the signature, found out in the same time whatever it is. A proof where
    /// no key is expected is as wrong as a missing one: one of the two is misconfigured.
    pub(super) fn is_signed(key: Option<&Key>, side: &str, said: &[u8], proof: &Proof) -> bool {
        let Some(Key(key)) = key else { return *proof == [0; 32] };
        let message = [b"sardonyx mesh ", side.as_bytes(), said].concat();
        hmac::verify(key, &message, proof).is_ok()
    }
}

/// Bytes that nobody can foresee.
pub fn nonce() -> io::Result<Nonce> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|why| io::Error::other(why.to_string()))?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_keys_are_refused_with_advice() {
        for (n, is_fine) in [(0, false), (15, false), (16, true), (4096, true), (4097, false)] {
            let key = Key::new(&vec![b'k'; n]);
            assert_eq!(key.is_ok(), is_fine, "{n} bytes");
            assert!(key.is_ok_and(|key| format!("{key:?}") == "Key(…)") || !is_fine);
        }
        assert!(Key::new(b"secret").unwrap_err().contains("head -c 32"));
    }

    #[test]
    fn a_key_file_may_end_with_a_line_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        let (a, b) = (Key::read(&file).unwrap(), Key::new(b"0123456789abcdef").unwrap());
        let proof = Key::sign(Some(&a), "active", b"said");
        assert!(Key::is_signed(Some(&b), "active", b"said", &proof));
        for (side, said) in [("passive", &b"said"[..]), ("active", b"Said")] {
            assert!(!Key::is_signed(Some(&b), side, said, &proof));
        }
        assert!(Key::read(&dir.path().join("none")).unwrap_err().to_string().contains("none"));
    }
}
