//! Regular expressions. The pattern stands in the query, so it is compiled once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use regex::{Regex, RegexBuilder};

use super::{
    node::{Body, Node},
    text::texts,
    value::{Texts, Value},
};

/// A compiled pattern takes at most this many bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The functions of this file, for suggestions.
pub(super) const NAMES: &[&str] = &["regexp_matches", "regexp_replace", "regexp_extract"];

/// `regexp_matches(text, pattern [, flags])` and the others; `None` if it is not one of them.
pub(super) fn bind(name: &str, args: &[Node]) -> Option<Result<Node, String>> {
    let (name, body): (&'static str, Result<Arc<Body>, String>) = match name {
        "regexp_matches" | "regexp_like" => ("regexp_matches", matches(args)),
        "regexp_replace" => ("regexp_replace", replace(args)),
        "regexp_extract" => ("regexp_extract", extract(args)),
        _ => return None,
    };
    let first = args.first().cloned().into_iter().collect();
    Some(match body {
        Ok(body) => Ok(Node::Call { name, body, args: first }),
        Err(why) => Err(format!("{name} {why}")),
    })
}

/// A text that stands in the query.
fn literal(args: &[Node], at: usize, what: &str) -> Result<String, String> {
    let array = args.get(at).and_then(Node::constant);
    let text = array.as_ref().and_then(|array| {
        let text = array.as_string_opt::<i32>()?;
        (text.len() == 1 && text.is_valid(0)).then(|| text.value(0).to_owned())
    });
    text.ok_or_else(|| format!("wants {what} as a text in the query"))
}

fn compile(pattern: &str, flags: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(PATTERN_BYTES_MAX);
    for flag in flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            's' => builder.dot_matches_new_line(true),
            'm' => builder.multi_line(true),
            'c' | 'g' => &mut builder,
            other => return Err(format!("has no flag {other}: the flags are g, i, m and s")),
        };
    }
    builder.build().map_err(|why| format!("cannot read the pattern: {why}"))
}

fn optional(args: &[Node], at: usize, what: &str) -> Result<String, String> {
    if args.len() > at { literal(args, at, what) } else { Ok(String::new()) }
}

/// `!~*` and its kin: whether a text matches, in the negative as well.
pub(super) fn test(node: Node, pattern: &Node, flags: &str) -> Result<Node, String> {
    let pattern = literal(std::slice::from_ref(pattern), 0, "the pattern")?;
    let body = matcher(compile(&pattern, flags)?);
    Ok(Node::Call { name: "regexp_matches", body, args: vec![node] })
}

fn matcher(regex: Regex) -> Arc<Body> {
    Arc::new(move |args: &[Value], n_rows: usize| {
        let texts = Texts::of(&args[0])?;
        let is_match = |row| Some(regex.is_match(texts.get(row)?));
        let matches: BooleanArray = (0..n_rows).map(is_match).collect();
        Ok(Arc::new(matches) as ArrayRef)
    })
}

fn matches(args: &[Node]) -> Result<Arc<Body>, String> {
    expect(args, 2, 3)?;
    let pattern = literal(args, 1, "the pattern")?;
    Ok(matcher(compile(&pattern, &optional(args, 2, "the flags")?)?))
}

fn replace(args: &[Node]) -> Result<Arc<Body>, String> {
    expect(args, 3, 4)?;
    let flags = optional(args, 3, "the flags")?;
    let regex = compile(&literal(args, 1, "the pattern")?, &flags)?;
    let with = groups(&literal(args, 2, "the replacement")?);
    let limit = if flags.contains('g') { 0 } else { 1 };
    Ok(Arc::new(move |args: &[Value], n_rows: usize| {
        let from = Texts::of(&args[0])?;
        Ok(texts(n_rows, |row, out| {
            out.push_str(&regex.replacen(from.get(row)?, limit, with.as_str()));
            Some(())
        }))
    }))
}

/// `\1` as SQL writes it becomes `${1}` as the library does; `$` is a letter.
fn groups(with: &str) -> String {
    let mut out = String::new();
    let mut letters = with.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek().copied()) {
            ('\\', Some(digit @ '0'..='9')) => {
                letters.next();
                out.push_str(&format!("${{{digit}}}"));
            }
            ('\\', Some('\\')) => {
                letters.next();
                out.push('\\');
            }
            ('$', _) => out.push_str("$$"),
            (letter, _) => out.push(letter),
        }
    }
    out
}

fn extract(args: &[Node]) -> Result<Arc<Body>, String> {
    expect(args, 2, 3)?;
    let regex = compile(&literal(args, 1, "the pattern")?, "")?;
    let group = match args.get(2).map(Node::constant) {
        None => 0,
        Some(array) => {
            let number = array.as_ref().and_then(|it| {
                it.as_primitive_opt::<arrow::datatypes::Int64Type>()?.iter().next().flatten()
            });
            let number = number.and_then(|number| usize::try_from(number).ok());
            number.ok_or("wants the group as a number in the query")?
        }
    };
    if group >= regex.captures_len() {
        let last = regex.captures_len() - 1;
        return Err(format!("has no group {group} in the pattern: the last is {last}"));
    }
    Ok(Arc::new(move |args: &[Value], n_rows: usize| {
        let from = Texts::of(&args[0])?;
        Ok(texts(n_rows, |row, out| {
            let found = regex.captures(from.get(row)?)?.get(group)?;
            out.push_str(found.as_str());
            Some(())
        }))
    }))
}

fn expect(args: &[Node], min: usize, max: usize) -> Result<(), String> {
    match (min..=max).contains(&args.len()) {
        true => Ok(()),
        false => Err(format!("takes {min} to {max} arguments, not {}", args.len())),
    }
}
