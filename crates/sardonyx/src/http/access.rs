//! Who may do what: roles, tokens, sessions of browsers.
//!
//! A token is 256 random bits, shown once to whoever makes it; what a file or this process keeps is
//! its hash, and hashes are compared in constant time. A browser trades its token for a session in a
//! cookie that no script can read and no other site can send.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::Serialize;
use utoipa::ToSchema;

/// How many lines a token file may have.
pub const TOKENS_MAX: usize = 1_000;

/// The longest token.
pub const TOKEN_BYTES_MAX: usize = 512;

/// How many browsers may be logged in at once; beyond that the oldest is logged out.
pub const SESSIONS_MAX: usize = 1_000;

/// How long a browser stays logged in.
pub const SESSION_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// What somebody may do; each may do what those before may.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Look.
    Read,
    /// Submit and kill jobs.
    Submit,
    /// Everything.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Read, Role::Submit, Role::Admin];

    /// Its name in token files.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Submit => "submit",
            Role::Admin => "admin",
        }
    }

    /// The role of that name.
    pub fn named(name: &str) -> Result<Role, String> {
        let found = Role::ALL.into_iter().find(|role| role.name() == name);
        found.ok_or_else(|| format!("{name:?} is no role: write read, submit or admin"))
    }
}

/// A secret that was just made. Never shown by accident.
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A new one: 256 random bits in hexadecimal.
    pub fn fresh() -> Result<Token, String> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|why| format!("no random bytes: {why}"))?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The secret itself, for the one who is to have it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The line of a token file that lets it in.
    pub fn line(&self, role: Role) -> String {
        format!("{} {}", role.name(), hash(&self.0).to_hex())
    }
}

/// The tokens that are let in: hashes and what their holders may do.
#[derive(Clone, Default)]
pub struct Tokens(Vec<(blake3::Hash, Role)>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// Reads a file with a role and a hash on each line, as `sardonyx token` prints it. Empty lines
    /// and those that begin with # are left out.
    pub fn read(path: &Path) -> Result<Tokens, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|why| format!("{}: {why}", path.display()))?;
        Tokens::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// The same, from a text.
    pub fn parse(text: &str) -> Result<Tokens, String> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut tokens = Tokens::default();
        for (at, line) in lines {
            let form = "write read, submit or admin and a hash, as `sardonyx token` prints them";
            let (role, hash) = line.split_once(' ').ok_or_else(|| format!("line {at}: {form}"))?;
            // What stands there instead may be a secret: it is not repeated.
            let role = Role::named(role);
            let role = role.map_err(|_| format!("line {at}: it begins with no role; {form}"))?;
            let hash = blake3::Hash::from_hex(hash.trim());
            let hash = hash.map_err(|_| format!("line {at}: this is no hash; {form}"))?;
            tokens.0.push((hash, role));
            if tokens.0.len() > TOKENS_MAX {
                return Err(format!("there are more than {TOKENS_MAX} tokens"));
            }
        }
        match tokens.0.is_empty() {
            true => Err("there is no token in it: make one with `sardonyx token`".into()),
            false => Ok(tokens),
        }
    }

    /// What the holder of `token` may do.
    pub fn role_of(&self, token: &str) -> Option<Role> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let shown = hash(token);
        // All are looked at, whichever it is: how long this takes says nothing. Hashes compare in
        // constant time.
        let matching = self.0.iter().filter(|(known, _)| *known == shown);
        matching.map(|(_, role)| *role).max()
    }
}

/// What a token is called where it is not to be shown: the first digits of its hash, which stands in
/// the token file.
pub(crate) fn token_name(token: &str) -> String {
    hash(token).to_hex().chars().take(12).collect()
}

fn hash(token: &str) -> blake3::Hash {
    blake3::hash(token.as_bytes())
}

/// Browsers that have shown a token.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<BTreeMap<[u8; 32], Session>>);

#[derive(Debug)]
struct Session {
    role: Role,
    /// By which token; see [`token_name`].
    name: String,
    since: Instant,
}

impl Sessions {
    /// Logs somebody in; what the cookie holds.
    pub(crate) fn open(&self, role: Role, name: &str, now: Instant) -> Result<Token, String> {
        let token = Token::fresh()?;
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, it| now.saturating_duration_since(it.since) < SESSION_MAX);
        if open.len() >= SESSIONS_MAX {
            let oldest = open.iter().min_by_key(|(_, it)| it.since).map(|(hash, _)| *hash);
            oldest.map(|oldest| open.remove(&oldest));
        }
        let session = Session { role, name: name.to_owned(), since: now };
        open.insert(*hash(&token.0).as_bytes(), session);
        Ok(token)
    }

    /// What the holder of this cookie may do. Hashes are what is looked up, so that how long it
    /// takes says nothing about the secret.
    pub(crate) fn role_of(&self, cookie: &str, now: Instant) -> Option<Role> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = open.get(hash(cookie).as_bytes())?;
        (now.saturating_duration_since(session.since) < SESSION_MAX).then_some(session.role)
    }

    /// By which token somebody logged in.
    pub(crate) fn name_of(&self, cookie: &str) -> Option<String> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(hash(cookie).as_bytes()).map(|session| session.name.clone())
    }

    /// Logs somebody out.
    pub(crate) fn close(&self, cookie: &str) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(hash(cookie).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_alone() {
        let (token, other) = (Token::fresh().unwrap(), Token::fresh().unwrap());
        let file = format!("# ours\n\n{}\n", token.line(Role::Submit));
        assert!(!file.contains(token.reveal()));
        let tokens = Tokens::parse(&file).unwrap();
        assert_eq!(tokens.role_of(token.reveal()), Some(Role::Submit));
        assert_eq!(tokens.role_of(other.reveal()), None);
        assert_eq!(tokens.role_of(""), None);
        assert_eq!(tokens.role_of(&"x".repeat(TOKEN_BYTES_MAX + 1)), None);
        assert_eq!(format!("{token:?} {tokens:?}"), "Token(…) Tokens(1)");
    }

    #[test]
    fn a_token_file_that_makes_no_sense_says_what_to_write_and_shows_no_secret() {
        let wrong = |text: &str| Tokens::parse(text).unwrap_err();
        assert!(wrong("").contains("sardonyx token"));
        assert!(wrong("boss 00").contains("read, submit or admin"));
        for line in ["read hunter2", "hunter2 read", "hunter2"] {
            let secret = wrong(line);
            assert!(secret.contains("line 1") && !secret.contains("hunter2"), "{secret}");
        }
        let line = Token::fresh().unwrap().line(Role::Read);
        let many = format!("{line}\n").repeat(TOKENS_MAX);
        assert!(Tokens::parse(&many).is_ok());
        assert!(wrong(&format!("{many}{line}")).contains("more than"));
    }

    #[test]
    fn sessions_end_by_time_by_leaving_and_by_number() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let one = sessions.open(Role::Read, "t", now).unwrap();
        assert_eq!(sessions.role_of(one.reveal(), now), Some(Role::Read));
        assert_eq!(sessions.role_of(one.reveal(), now + SESSION_MAX), None);
        for n in 1..SESSIONS_MAX {
            sessions.open(Role::Admin, "t", now + Duration::from_millis(n as u64)).unwrap();
        }
        assert!(sessions.role_of(one.reveal(), now).is_some());
        let last = sessions.open(Role::Admin, "t", now + Duration::from_secs(1)).unwrap();
        assert_eq!(sessions.role_of(one.reveal(), now), None);
        sessions.close(last.reveal());
        assert_eq!(sessions.role_of(last.reveal(), now), None);
    }
}
