//! Which root a path lies beneath, as far as its text says. Pure: nothing is looked at.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use super::{
    Root,
    refused::{Refused, short},
};

/// The longest path, and the longest name in one: what Linux takes.
const PATH_BYTES_MAX: usize = 4095;
const NAME_BYTES_MAX: usize = 255;

/// Where a path is to be looked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// Where it says.
    Anywhere,
    /// There, beneath this root; never empty.
    Beneath(&'a Root, PathBuf),
}

/// Finds the place of a path, or why there is none.
pub(super) fn place<'a>(roots: Option<&'a [Root]>, path: &Path) -> Result<Place<'a>, Refused> {
    let Some(roots) = roots else { return Ok(Place::Anywhere) };
    let shown = || short(&path.display().to_string());
    let Some(first) = roots.first() else { return Err(Refused::NoRoots { path: shown() }) };
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&0) {
        return Err(Refused::Garbled { path: shown() });
    }
    let is_long = |it: Component<'_>| it.as_os_str().len() > NAME_BYTES_MAX;
    if bytes.len() > PATH_BYTES_MAX || path.components().any(is_long) {
        return Err(Refused::TooLong { path: shown() });
    }
    for component in path.components() {
        match component {
            Component::ParentDir => return Err(Refused::Upwards { path: shown() }),
            Component::Normal(name) if is_encoded(name.as_bytes()) => {
                return Err(Refused::Encoded { path: shown() });
            }
            Component::Normal(name) if is_upwards_elsewhere(name.as_bytes()) => {
                return Err(Refused::Upwards { path: shown() });
            }
            Component::Normal(_)
            | Component::CurDir
            | Component::RootDir
            | Component::Prefix(_) => {}
        }
    }
    let (root, rest) = match path.is_absolute() {
        false => (first, path),
        true => {
            let beneath = |root: &'a Root| {
                let rest = path.strip_prefix(&root.named);
                rest.or_else(|_| path.strip_prefix(&root.real)).ok().map(|rest| (root, rest))
            };
            let found = roots.iter().find_map(beneath);
            found.ok_or_else(|| Refused::Outside { path: shown(), roots: self::shown(roots) })?
        }
    };
    let rest: PathBuf = rest.components().filter(|it| *it != Component::CurDir).collect();
    let rest = if rest.as_os_str().is_empty() { PathBuf::from(".") } else { rest };
    Ok(Place::Beneath(root, rest))
}

/// The roots, for people.
pub(super) fn shown(roots: &[Root]) -> String {
    let names: Vec<String> = roots.iter().map(|root| root.named.display().to_string()).collect();
    names.join(" or ")
}

/// Whether a name has a dot, a slash, a backslash, a percent sign or a zero byte written as `%XX`, or
/// in one of the overlong forms that some decoders take.
fn is_encoded(name: &[u8]) -> bool {
    const CODES: [&[u8]; 7] = [b"%2e", b"%2f", b"%5c", b"%25", b"%00", b"%c0", b"%u0"];
    let name = name.to_ascii_lowercase();
    CODES.iter().any(|code| name.windows(code.len()).any(|window| window == *code))
}

/// Whether a name is a way up for another system: `..\x`.
fn is_upwards_elsewhere(name: &[u8]) -> bool {
    name.split(|byte| *byte == b'\\').any(|part| part == b"..")
}
