//! Secrets of jobs: a job names them, and only the process that runs the task has them.
//!
//! A job stands in the log, where everybody reads it, so it holds a reference: `secret:env:NAME` is
//! the variable `SARDONYX_SECRET_NAME`, `secret:file:PATH` a file. The one is for any job that names
//! it, and so has to be given for jobs, by its name; the other lies beneath a directory that the node
//! was told of, because a job that could name any file could send it anywhere.

use std::{fmt, io::Read as _, path::Path};

use crate::Files;

/// What references begin with.
pub const PREFIX: &str = "secret:";

/// What the variables are called that jobs may name.
pub const VARIABLES: &str = "SARDONYX_SECRET_";

/// The largest secret.
pub const SECRET_BYTES_MAX: u64 = 64 << 10;

/// Something that is shown to nobody: it cannot be printed, and is not in what debugging prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The secret itself, for whoever it is meant for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Where a secret is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Variable(String),
    File(String),
}

/// A secret that a job names, not looked up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    source: Source,
    files: Files,
}

impl Reference {
    /// Reads `secret:env:NAME` or `secret:file:PATH`; files are looked for among `files`. What stands
    /// there instead may be the secret itself, and is not repeated.
    pub fn parse(text: &str, files: &Files) -> Result<Reference, String> {
        const FORMS: &str = "write \"secret:env:NAME\" or \"secret:file:PATH\"; a job stands in the \
                             log, where everybody reads it";
        let source = match text.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':')) {
            Some(("env", name)) if is_name(name) => Source::Variable(name.to_owned()),
            Some(("env", _)) => {
                let why = "NAME in \"secret:env:NAME\" has capitals, digits and underscores";
                return Err(format!("{why}; it stands for the variable {VARIABLES}NAME"));
            }
            Some(("file", path)) if !path.is_empty() => {
                files.check(path).map_err(|why| why.to_string())?;
                Source::File(path.to_owned())
            }
            Some(_) | None => return Err(format!("this is no reference to a secret: {FORMS}")),
        };
        Ok(Reference { source, files: files.clone() })
    }

    /// Looks it up, in this process.
    pub fn look_up(&self) -> Result<Secret, String> {
        match &self.source {
            Source::Variable(name) => {
                let variable = format!("{VARIABLES}{name}");
                let missing = || {
                    format!("secret:env:{name}: the node has no variable {variable}: set it there")
                };
                let value = std::env::var(&variable).map_err(|_| missing())?;
                Some(value).filter(|it| !it.is_empty()).map(Secret).ok_or_else(missing)
            }
            Source::File(path) => {
                let wrong = |why: &dyn fmt::Display| format!("secret:file:{path}: {why}");
                let file = self.files.open(Path::new(path)).map_err(|why| wrong(&why))?;
                let mut text = String::new();
                let read = file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text);
                read.map_err(|why| wrong(&why))?;
                if text.len() as u64 > SECRET_BYTES_MAX {
                    let why = format!("a secret has at most {SECRET_BYTES_MAX} bytes");
                    return Err(wrong(&why));
                }
                Ok(Secret(text.trim_end_matches(['\r', '\n']).to_owned()))
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_good = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
    !name.is_empty() && name.len() <= 200 && name.bytes().all(is_good)
}

/// Words by which keys say that their value is a secret.
const WORDS: &[&str] = &["password", "passwd", "passphrase", "secret", "token", "credential"];

/// Words of two parts, which mean it only together.
const PAIRS: &[(&str, &str)] = &[("api", "key"), ("private", "key"), ("access", "key")];

/// Whether a key of a job says that its value is a secret: `password`, `auth-token`, `api-key`.
pub fn is_secret_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let words: Vec<&str> = key.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let last = words.last().copied().unwrap_or_default();
    // The last word is what a key is about: max-tokens counts, exclude-keys and token-file name.
    let pair = words.windows(2).last().is_some_and(|it| PAIRS.contains(&(it[0], it[1])));
    WORDS.contains(&last) || pair || ["apikey", "privatekey"].contains(&last)
}

/// Whether a text has a password between `//` and `@`, as URLs have.
pub fn has_password(text: &str) -> bool {
    let after = text.match_indices("://").map(|(at, _)| &text[at + 3..]);
    after.into_iter().any(|rest| {
        let end = rest.find(|c: char| c.is_whitespace() || c == '"' || c == '\'');
        let url = &rest[..end.unwrap_or(rest.len())];
        // A question mark begins what is no longer the address.
        let authority = url.split('?').next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| user.contains(':'))
    })
}

/// A text with everything taken out that stands between `//` and `@` in it: for what is printed.
pub fn hide_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        shown.push_str(before);
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>');
        let (url, after) = url.split_at(url.find(ends).unwrap_or(url.len()));
        match url.rfind('@') {
            Some(user) => {
                shown.push('…');
                shown.push_str(&url[user..]);
            }
            None => shown.push_str(url),
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Reference, String> {
        Reference::parse(text, &Files::any())
    }

    #[test]
    fn a_secret_that_stands_there_itself_is_refused_and_not_repeated() {
        for wrong in ["hunter2", "", "secret:", "secret:env:", "secret:env:a b", "secret:vault:x"] {
            let why = parse(wrong).unwrap_err();
            assert!(why.contains("secret:env:NAME"), "{why}");
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn files_are_read_without_their_line_end_and_up_to_a_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let reference = parse(&format!("secret:file:{}", path.display())).unwrap();
        assert!(reference.look_up().unwrap_err().contains("secret:file:"));
        std::fs::write(&path, "hunter2\n").unwrap();
        let secret = reference.look_up().unwrap();
        assert_eq!(secret.reveal(), "hunter2");
        assert_eq!(format!("{secret:?} {reference:?}").matches("hunter2").count(), 0);
        std::fs::write(&path, "x".repeat(SECRET_BYTES_MAX as usize)).unwrap();
        assert!(reference.look_up().is_ok());
        std::fs::write(&path, "x".repeat(SECRET_BYTES_MAX as usize + 1)).unwrap();
        assert!(reference.look_up().unwrap_err().contains("at most"));
    }

    #[test]
    fn a_node_keeps_secrets_beneath_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("in")).unwrap();
        std::fs::write(directory.path().join("in/s"), "good").unwrap();
        std::fs::write(directory.path().join("out"), "bad").unwrap();
        let files = Files::beneath(&[directory.path().join("in")]).unwrap();
        let look = |text: &str| Reference::parse(text, &files).and_then(|it| it.look_up());
        assert_eq!(look("secret:file:s").unwrap().reveal(), "good");
        assert!(look("secret:file:../out").is_err());
        assert!(look("secret:file:/etc/passwd").is_err());
        let none = Files::beneath(&[]).unwrap();
        assert!(Reference::parse("secret:file:s", &none).is_err());
    }

    #[test]
    fn a_variable_that_is_not_there_is_named() {
        let why = parse("secret:env:NOBODY_SETS_THIS").unwrap().look_up().unwrap_err();
        assert!(why.contains("SARDONYX_SECRET_NOBODY_SETS_THIS"), "{why}");
    }

    #[test]
    fn keys_and_urls_that_hold_secrets_are_known() {
        for key in ["password", "Password", "db_password", "auth-token", "api-key", "client.secret"]
        {
            assert!(is_secret_key(key), "{key}");
        }
        for key in ["max-tokens", "exclude-keys", "password-file", "key", "group-key", "tokens-max"]
        {
            assert!(!is_secret_key(key), "{key}");
        }
        for url in ["nats://u:p@h:1/x", "see etcd://a:b@c", "http://u:p@h?x=1"] {
            assert!(has_password(url), "{url}");
        }
        let hidden = hide_passwords("at 'etcd://u:a/b?c@d@h:1/x', nats://h:2/y and etcd://v:w@k");
        assert_eq!(hidden, "at 'etcd://…@h:1/x', nats://h:2/y and etcd://…@k");
        for url in ["nats://h:1/x", "nats://u@h:1/x", "a@b:c", "http://h:1/?m=a@b", "://"] {
            assert!(!has_password(url), "{url}");
        }
    }
}
