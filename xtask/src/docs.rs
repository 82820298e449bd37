//! `docs/commands.md`, written from the doc comments of the commands.
//!
//! One section per command, in the order of `Command::NAMES`: the head of its module in short,
//! the comment of its struct in full, its arguments as a table.

use std::{fmt::Write, fs};

use crate::{tidy::Fault, tree, tree::Tree};

/// Where the commands are, one file each.
pub(crate) const COMMANDS: &str = "crates/sardonyx-core/src/command";
/// Where their names are.
pub(crate) const TABLE: &str = "crates/sardonyx-core/src/command.rs";
/// Where their page is.
pub(crate) const PAGE: &str = "docs/commands.md";

/// Where the types of their arguments are.
const CORE: &str = "crates/sardonyx-core/src";
/// Beside the commands, but none.
const NOT_A_COMMAND: &str = "crates/sardonyx-core/src/command/rejected.rs";

const HEAD: &str = r#"# The commands of the log

<!-- Written by `cargo xtask docs` from the doc comments below crates/sardonyx-core/src/command; change those. -->

The log is a sequence of entries, and an entry is a command at a position:

```json
{"id": 0, "fn": "prepare-join-cluster", "args": {"joiner": "a"}}
```

`id` is the position, `fn` the command's name, `args` its arguments. Every peer applies the same entries in the
same order and so arrives at the same replica. A command may come too late, or twice, or be nonsense from
the start; it is then *rejected*, the replica stays as it was, and `sardonyx replay` shows the reason.

"#;

/// Writes the page into the tree.
pub(crate) fn write(tree: &Tree) -> Result<(), String> {
    let page = page(tree).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        format!("the comments do not make a page:\n{}", faults.join("\n"))
    })?;
    fs::write(tree::root().join(PAGE), page)
        .map_err(|why| format!("cannot write {PAGE}: {why}"))?;
    eprintln!("{PAGE} is written");
    Ok(())
}

/// The page as it should be; or what the comments lack.
pub(crate) fn page(tree: &Tree) -> Result<String, Vec<Fault>> {
    let mut page = HEAD.to_owned();
    let mut sections = String::new();
    let mut faults = Vec::new();
    page.push_str("| command | in short |\n|---|---|\n");
    for name in names(tree.text(TABLE)) {
        let path = format!("{COMMANDS}/{}.rs", name.replace('-', "_"));
        match Described::read(&path, tree.text(&path), &name) {
            Ok(described) => {
                let _ = writeln!(page, "| [`{name}`](#{name}) | {} |", described.in_short);
                described.write(tree, &name, &mut sections);
            }
            Err(lacking) => faults.extend(lacking),
        }
    }
    page.push_str(&sections);
    if faults.is_empty() { Ok(page) } else { Err(faults) }
}

/// The files that hold a command each.
pub(crate) fn command_files(tree: &Tree) -> impl Iterator<Item = &str> {
    tree.below(COMMANDS).map(|(path, _)| path).filter(|path| *path != NOT_A_COMMAND)
}

/// The name in the log of the command in this file.
pub(crate) fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.trim_end_matches(".rs").replace('_', "-")
}

/// The names in the constant `NAMES`.
pub(crate) fn names(table: &str) -> Vec<String> {
    let list = table.split_once("const NAMES").map_or("", |(_, rest)| rest);
    // The first bracket is that of the type.
    let list = list.split_once('=').map_or("", |(_, rest)| rest);
    let list = list.split_once(';').map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What a command's comments say about it.
struct Described {
    in_short: String,
    text: String,
    arguments: Vec<Argument>,
}

struct Argument {
    name: String,
    kind: String,
    text: String,
}

impl Described {
    fn read(path: &str, text: &str, name: &str) -> Result<Described, Vec<Fault>> {
        let head =
            text.lines().next().and_then(|line| line.strip_prefix(&format!("//! `{name}`:")));
        let Some(head) = head else {
            let remedy = format!("begin with ``//! `{name}`: `` and what it is in short");
            return Err(vec![Fault::new(path, 1, remedy)]);
        };
        let lines: Vec<&str> = text.lines().collect();
        let declared = format!("pub struct {}", camel(name));
        let of_struct = |line: &&str| {
            let rest = line.strip_prefix(&declared);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        };
        let Some(at) = lines.iter().position(of_struct) else {
            return Err(vec![Fault::new(
                path,
                1,
                format!("the arguments belong into `{declared}`"),
            )]);
        };
        let mut faults = Vec::new();
        let comment = comment_above(&lines, at);
        if comment.is_empty() {
            faults.push(Fault::new(
                path,
                at + 1,
                "say who sends it, what it does, when it is rejected",
            ));
        }
        let mut arguments = Vec::new();
        for (at, name, kind) in fields(&lines, at) {
            let text = comment_above(&lines, at).join(" ");
            if text.is_empty() {
                faults.push(Fault::new(path, at + 1, format!("say what `{name}` is")));
            }
            arguments.push(Argument { name: name.replace('_', "-"), kind: kind.to_owned(), text });
        }
        let in_short = capitalised(head.trim());
        let text = comment.join("\n");
        if faults.is_empty() { Ok(Described { in_short, text, arguments }) } else { Err(faults) }
    }

    fn write(&self, tree: &Tree, name: &str, out: &mut String) {
        let _ = writeln!(out, "\n## `{name}`\n\n{}\n", self.text);
        if self.arguments.is_empty() {
            out.push_str("It has no arguments.\n");
            return;
        }
        out.push_str("| argument | what it holds | what it means |\n|---|---|---|\n");
        for Argument { name, kind, text } in &self.arguments {
            let kind = kind_in_json(tree, kind);
            let _ = writeln!(out, "| `{name}` | {kind} | {text} |");
        }
    }
}

/// The public fields of the struct declared in line `at`: line, name, type.
fn fields<'a>(lines: &[&'a str], at: usize) -> Vec<(usize, &'a str, &'a str)> {
    if !lines[at].ends_with('{') {
        return Vec::new();
    }
    let body = lines.iter().enumerate().skip(at + 1).take_while(|(_, line)| **line != "}");
    let field = |(at, line): (usize, &&'a str)| {
        let (name, kind) = line.trim().strip_prefix("pub ")?.split_once(": ")?;
        Some((at, name, kind.trim_end_matches(',')))
    };
    body.filter_map(field).collect()
}

/// The `///` lines above line `at`, attributes passed over, links between brackets made plain.
fn comment_above(lines: &[&str], at: usize) -> Vec<String> {
    let above = lines[..at].iter().rev().map(|line| line.trim());
    let attributes_too = above.take_while(|line| line.starts_with("///") || line.starts_with("#["));
    let comment = attributes_too.filter_map(|line| line.strip_prefix("///"));
    let plain = comment.map(|line| line.trim().replace("[`", "`").replace("`]", "`"));
    let mut lines: Vec<String> = plain.collect();
    lines.reverse();
    lines
}

/// How an argument of this Rust type is written in JSON.
fn kind_in_json(tree: &Tree, kind: &str) -> String {
    let inner = |outer: &str| kind.strip_prefix(outer).and_then(|rest| rest.strip_suffix('>'));
    if let Some(kind) = inner("Option<") {
        return format!("{}, or left out", kind_in_json(tree, kind));
    }
    if let Some(kind) = inner("Vec<") {
        return format!("a list, each {}", kind_in_json(tree, kind));
    }
    match kind {
        "PeerId" | "JobId" | "TaskId" | "String" => "a string".to_owned(),
        "u8" | "u16" | "u32" | "u64" => "a number".to_owned(),
        "bool" => "`true` or `false`".to_owned(),
        other => match variants(tree, other) {
            Some(variants) => variants.join(", "),
            None => format!("`{other}`"),
        },
    }
}

/// The variants of one of the core's enums, as they are written in JSON.
fn variants(tree: &Tree, name: &str) -> Option<Vec<String>> {
    let declared = format!("pub enum {name} {{\n");
    let (_, rest) = tree.below(CORE).find_map(|(_, text)| text.split_once(&declared))?;
    let (body, _) = rest.split_once("\n}")?;
    let plain = body.lines().map(str::trim).filter(|line| !line.starts_with(['/', '#']));
    Some(plain.map(|line| format!("`{}`", kebab(line.trim_end_matches(',')))).collect())
}

/// The name of the command's struct.
pub(crate) fn camel(name: &str) -> String {
    name.split('-').map(capitalised).collect()
}

fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "const NAMES: [&'static str; 2] = [\n    \"peer-gc\",\n    \"gc\",\n];\n";
    const PEER_GC: &str = "\
//! `peer-gc`: somebody checks.

/// Makes [`PeerId`] check.
///
/// Never rejected.
#[derive(Clone)]
pub struct PeerGc {
    /// Who checks,
    /// and how.
    pub by_peer: PeerId,
    /// Which way.
    pub way: Option<Way>,
}

impl PeerGc {}
";
    const GC: &str = "//! `gc`: forgets.\n\n/// Forgets old jobs.\npub struct Gc;\n";

    fn made(peer_gc: &str) -> Result<String, Vec<Fault>> {
        let way = "pub enum Way {\n    /// A.\n    TwoPhase,\n    #[default]\n    Greedy,\n}\n";
        page(&Tree::of(&[
            (TABLE, NAMES),
            ("crates/sardonyx-core/src/command/peer_gc.rs", peer_gc),
            ("crates/sardonyx-core/src/command/gc.rs", GC),
            ("crates/sardonyx-core/src/way.rs", way),
        ]))
    }

    #[test]
    fn the_page_holds_what_the_comments_say() {
        let page = made(PEER_GC).unwrap();
        let sections = "\
| command | in short |
|---|---|
| [`peer-gc`](#peer-gc) | Somebody checks. |
| [`gc`](#gc) | Forgets. |

## `peer-gc`

Makes `PeerId` check.

Never rejected.

| argument | what it holds | what it means |
|---|---|---|
| `by-peer` | a string | Who checks, and how. |
| `way` | `two-phase`, `greedy`, or left out | Which way. |

## `gc`

Forgets old jobs.

It has no arguments.
";
        assert_eq!(page.strip_prefix(HEAD), Some(sections));
    }

    #[test]
    fn a_missing_comment_is_a_fault_at_its_line() {
        let lines = |text: &str| -> Vec<usize> {
            made(text).unwrap_err().iter().map(|fault| fault.line).collect()
        };
        assert_eq!(lines(&PEER_GC.replace("    /// Which way.\n", "")), [11]);
        assert_eq!(lines("//! `peer-gc`: x.\n\npub struct PeerGc {\n}\n"), [3]);
        assert_eq!(lines("//! Something else.\n"), [1]);
        assert_eq!(lines("//! `peer-gc`: x.\n\npub struct PeerGcs;\n"), [1]);
    }

    #[test]
    fn names_are_read_in_order() {
        assert_eq!(names(NAMES), ["peer-gc", "gc"]);
        assert_eq!(name_of("a/b/prepare_join_cluster.rs"), "prepare-join-cluster");
    }
}
