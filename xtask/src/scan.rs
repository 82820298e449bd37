//! Rust text, read just well enough: where code is, where an item ends.
//!
//! Not a parser. It knows comments, strings, characters and brackets, which is all that sizes and
//! leftovers need; a parser would be the largest dependency of the workspace.

use std::ops::Range;

/// `text` with every comment, string and character literal blanked out. Bytes keep their places
/// and lines their numbers.
pub(crate) fn code(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let skipped = not_code(rest);
        if skipped > 0 {
            let blanked = &mut bytes[at..at + skipped];
            blanked.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            at += skipped;
        } else {
            at += word(rest).max(1);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The length of the comment or literal that begins here, 0 if none does.
fn not_code(rest: &[u8]) -> usize {
    let prefix = word(rest);
    let after = &rest[prefix..];
    match (&rest[..prefix], after.first()) {
        (b"", Some(b'/')) => comment(rest),
        (b"" | b"b" | b"c", Some(b'"')) => prefix + quoted(after, b'"'),
        (b"r" | b"br" | b"cr", Some(b'"' | b'#')) => match raw(after) {
            0 => 0,
            length => prefix + length,
        },
        (b"", Some(b'\'')) => character(rest),
        (b"b", Some(b'\'')) => 1 + quoted(after, b'\''),
        _ => 0,
    }
}

fn comment(rest: &[u8]) -> usize {
    if rest.starts_with(b"//") {
        return rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    }
    if !rest.starts_with(b"/*") {
        return 0;
    }
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < rest.len() {
        let step = match rest[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
    }
    at.min(rest.len())
}

/// From an opening quote to behind the closing one; a backslash guards the byte after it.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// From the hashes of a raw string to behind its closing ones; 0 for a raw identifier.
fn raw(rest: &[u8]) -> usize {
    let hashes = rest.iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(hashes) != Some(&b'"') {
        return 0;
    }
    let mut end = vec![b'"'];
    end.extend(&rest[..hashes]);
    let body = &rest[hashes + 1..];
    match body.windows(end.len()).position(|window| window == end) {
        Some(length) => hashes + 1 + length + end.len(),
        None => rest.len(),
    }
}

/// A character literal's length; 0 for a lifetime, which has no closing quote.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return quoted(rest, b'\'');
    }
    // One character may be up to four bytes.
    let closing = rest.iter().skip(2).take(4).position(|&byte| byte == b'\'');
    match closing {
        Some(extra) if extra == 0 || rest[1] >= 0x80 => extra + 3,
        _ => 0,
    }
}

/// The length of the identifier or number that begins here.
fn word(rest: &[u8]) -> usize {
    rest.iter().take_while(|&&byte| is_word(byte)).count()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Where `wanted` stands in `code` as a word of its own.
pub(crate) fn words<'a>(code: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(wanted).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).and_then(|before| code.as_bytes().get(before));
        let after = code.as_bytes().get(at + wanted.len());
        !before.is_some_and(|&byte| is_word(byte)) && !after.is_some_and(|&byte| is_word(byte))
    })
}

/// Where the item that begins at `start` ends: behind its body, or behind its semicolon.
pub(crate) fn item_end(code: &str, start: usize) -> usize {
    let (mut inner, mut braces) = (0_usize, 0_usize);
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => inner += 1,
            b')' | b']' => inner = inner.saturating_sub(1),
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && inner == 0 {
                    return at + 1;
                }
            }
            b';' if braces == 0 && inner == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// A function: its name and the lines from its `fn` to its closing brace.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) at: usize,
    pub(crate) n_lines: usize,
}

/// Every function in `code`, those inside others included.
pub(crate) fn functions(code: &str) -> impl Iterator<Item = Function<'_>> {
    words(code, "fn").filter_map(|at| {
        let rest = code[at + 2..].trim_start();
        // A pointer type, `fn(u32)`, has no name.
        let name = &rest[..word(rest.as_bytes())];
        let n_lines = code[at..item_end(code, at)].lines().count();
        (!name.is_empty()).then_some(Function { name, at, n_lines })
    })
}

/// The items that stand under one of `attributes`, from the attribute to the item's end.
pub(crate) fn items_under(text: &str, code: &str, attributes: &[&str]) -> Vec<Range<usize>> {
    let is_code = |at: &usize| code.as_bytes()[*at] == b'#';
    let found = attributes.iter().flat_map(|&attribute| {
        let starts = text.match_indices(attribute).map(|(at, _)| at).filter(is_code);
        starts.map(move |at| at..item_end(code, at + attribute.len()))
    });
    found.collect()
}

/// `code` without what is compiled for tests only. Bytes keep their places.
pub(crate) fn without_tests(text: &str, code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for range in items_under(text, code, &["#[cfg(test)]"]) {
        bytes[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The number of the line in which byte `at` stands, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(code(text), expected, "in {text}");
    }

    #[test]
    fn comments_are_not_code() {
        check("a // { b\nc", "a       \nc");
        check("a /* { /* } */ { */ b", "a                   b");
        check("a / b", "a / b");
        check("a /* open", "a        ");
    }

    #[test]
    fn strings_are_not_code() {
        check(r#"f("{", x)"#, "f(   , x)");
        check(r#"f("\"{", x)"#, "f(     , x)");
        check(r#"f("\\", "{")"#, "f(    ,    )");
        check("f(\"{\n}\")", "f(  \n  )");
        check(r##"f(r#"a " { "#, x)"##, "f(           , x)");
        check(r#"f(r"\", x)"#, "f(    , x)");
        check(r#"f(b"{", br"{", c"{")"#, "f(    ,      ,     )");
        check("f(\"é{\")", "f(     )");
    }

    #[test]
    fn characters_are_not_code_and_lifetimes_are() {
        check("f('{', '}')", "f(   ,    )");
        check(r"f('\'', '\\', '{')", "f(    ,     ,    )");
        check(r"f('\u{7b}', b'{', b'\'')", "f(        ,     ,      )");
        check("f('é', x)", "f(    , x)");
        check("fn f<'a>(x: &'a str, c: char) {}", "fn f<'a>(x: &'a str, c: char) {}");
        check("impl<'a, 'b> X<'a> {}", "impl<'a, 'b> X<'a> {}");
    }

    #[test]
    fn raw_identifiers_are_code() {
        check("fn r#match() {}", "fn r#match() {}");
        check("let bar = 1;", "let bar = 1;");
    }

    fn functions_of(text: &str) -> Vec<(String, usize)> {
        functions(&code(text)).map(|it| (it.name.to_owned(), it.n_lines)).collect()
    }

    #[test]
    fn a_function_ends_at_its_own_brace() {
        let text = "fn one() {\n    if x {\n    }\n}\n\nfn two() {}\n";
        assert_eq!(functions_of(text), [("one".to_owned(), 4), ("two".to_owned(), 1)]);
    }

    #[test]
    fn a_brace_in_a_literal_does_not_end_a_function() {
        let text = "fn one() {\n    f('}', \"}\"); // }\n    /* } */\n}\n";
        assert_eq!(functions_of(text), [("one".to_owned(), 4)]);
    }

    #[test]
    fn declarations_pointers_and_array_types_are_read_rightly() {
        let text =
            "fn one(x: [u8; 2]) -> [u8; { 1 + 1 }];\ntype F = fn(u8);\nfn two(f: fn()) {\n}\n";
        assert_eq!(functions_of(text), [("one".to_owned(), 1), ("two".to_owned(), 2)]);
    }

    #[test]
    fn an_inner_function_counts_for_itself_and_for_the_outer() {
        let text = "fn outer() {\n    fn inner() {\n    }\n}\n";
        assert_eq!(functions_of(text), [("outer".to_owned(), 4), ("inner".to_owned(), 2)]);
    }

    #[test]
    fn tests_are_taken_out_and_nothing_else() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let rest = without_tests(text, &code(text));
        assert_eq!(functions(&rest).map(|it| it.name).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(rest.lines().count(), text.lines().count());
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("no_std std::a astd", "std").collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn lines_count_from_one() {
        assert_eq!((line_of("a\nb", 0), line_of("a\nb", 2)), (1, 2));
    }
}
