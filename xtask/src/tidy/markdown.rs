//! Markdown, read just well enough: which lines are prose.

/// The lines outside code fences, with their numbers from 1.
pub(super) fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<&str> = None;
    let mut prose = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mark = fence_mark(line);
        match fence {
            Some(open) if mark.is_some_and(|mark| closes(line, mark, open)) => fence = None,
            Some(_) => {}
            None if mark.is_some() => fence = mark,
            None => prose.push((index + 1, line)),
        }
    }
    prose
}

/// The backticks or tildes with which a fence begins or ends.
fn fence_mark(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let end = |mark| line.find(|c| c != mark).unwrap_or(line.len());
    let length = end('`').max(end('~'));
    (length >= 3).then(|| &line[..length])
}

/// A fence ends with at least as many of the marks it began with, and nothing else in the line.
fn closes(line: &str, mark: &str, open: &str) -> bool {
    line.trim() == mark && mark.starts_with(open)
}

/// `line` with the code between backticks blanked out. Bytes keep their places.
pub(super) fn without_code(line: &str) -> String {
    let mut inside = false;
    let blank = |piece: &str| {
        let piece = if inside { " ".repeat(piece.len()) } else { piece.to_owned() };
        inside = !inside;
        piece
    };
    let pieces: Vec<String> = line.split('`').map(blank).collect();
    pieces.join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        prose(text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn what_is_fenced_is_not_prose() {
        assert_eq!(lines("a\n```sh\n# b\n```\nc\n"), [1, 5]);
        assert_eq!(lines("  ~~~\n# b\n```\n  ~~~\nc\n"), [5]);
        assert_eq!(lines("````\n```\n# b\n```\n````\nc\n"), [6]);
        assert_eq!(lines("a\n```\nnever closed\n"), [1]);
    }

    #[test]
    fn what_is_between_backticks_is_not_prose() {
        assert_eq!(without_code("a `[b](c)` d"), "a `      ` d");
        assert_eq!(without_code("a"), "a");
    }
}
