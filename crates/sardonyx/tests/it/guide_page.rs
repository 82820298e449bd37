//! A page of the guide, read: its blocks of commands, and what they are to print.
//!
//! ~~~text
//! ```sh                    a script; it must end well. A block of json, text or csv that follows at once is
//!                          what it prints
//! ```console               lines with `$ ` are commands, the others what they print, with stderr;
//!                          `[exit code 2]` is how the command ends, if not well
//! ```sh background         goes on beside what follows, and is ended when the page is over
//! ```sh retry              is tried again for a while, because something else must have begun
//! ```sh skip: REASON       is not run, and everybody can read why
//! ~~~
//!
//! Behind ```` ```text alike ```` numbers may be others than those that are shown. In what is printed `…` or `...` stands for anything, and on a line of its own for any lines.

/// How a block is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    Once,
    Retry,
    Background,
    Skip(String),
}

/// One script, and what it must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Where it begins in the page, from 1.
    pub line: usize,
    pub way: Way,
    pub script: String,
    /// What it prints: stdout of `sh`, everything of `console`.
    pub prints: Option<String>,
    /// Numbers may be others than shown.
    pub alike: bool,
    pub with_stderr: bool,
    pub code: i32,
}

struct Fence<'a> {
    line: usize,
    info: &'a str,
    text: String,
    /// Where the next line after it is.
    end: usize,
}

fn fences(page: &str) -> Vec<Fence<'_>> {
    let lines: Vec<&str> = page.lines().collect();
    let (mut fences, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let mark: String = lines[at].chars().take_while(|c| matches!(c, '`' | '~')).collect();
        if mark.len() < 3 {
            at += 1;
            continue;
        }
        let info = lines[at][mark.len()..].trim();
        let is_end = |line: &&str| line.trim_end() == mark;
        let n = lines[at + 1..].iter().position(is_end).expect("a fence that is closed");
        let text: String = lines[at + 1..at + 1 + n].iter().map(|it| format!("{it}\n")).collect();
        fences.push(Fence { line: at + 1, info, text, end: at + n + 3 });
        at += n + 2;
    }
    fences
}

fn way(info: &str) -> Result<Way, String> {
    let (_, rest) = info.split_once(' ').unwrap_or((info, ""));
    match rest.trim() {
        "" => Ok(Way::Once),
        "retry" => Ok(Way::Retry),
        "background" => Ok(Way::Background),
        rest => match rest.strip_prefix("skip:").map(str::trim) {
            Some(why) if why.len() >= 10 => Ok(Way::Skip(why.to_owned())),
            Some(_) => Err("a block that is skipped says why".into()),
            None => Err(format!("{rest:?}: write retry, background or skip: REASON")),
        },
    }
}

/// The steps of a page.
pub fn steps(page: &str) -> Result<Vec<Step>, String> {
    let fences = fences(page);
    let mut steps = Vec::new();
    for (at, fence) in fences.iter().enumerate() {
        let language = fence.info.split(' ').next().unwrap_or_default();
        let at_line = |why: String| format!("line {}: {why}", fence.line);
        match language {
            "sh" => {
                let next = fences.get(at + 1).filter(|next| next.line == fence.end);
                let shows =
                    |next: &&Fence<'_>| matches!(next.info, "json" | "text" | "csv" | "text alike");
                steps.push(Step {
                    line: fence.line,
                    way: way(fence.info).map_err(at_line)?,
                    script: fence.text.clone(),
                    prints: next.filter(shows).map(|next| next.text.clone()),
                    alike: next.is_some_and(|next| next.info == "text alike"),
                    with_stderr: false,
                    code: 0,
                });
            }
            "console" => {
                let way = way(fence.info).map_err(at_line)?;
                steps.extend(console(fence, &way));
            }
            "bash" | "shell" => return Err(at_line(format!("{language}: write sh or console"))),
            _ => {}
        }
    }
    Ok(steps)
}

fn console(fence: &Fence<'_>, way: &Way) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (n, line) in fence.text.lines().enumerate() {
        if let Some(script) = line.strip_prefix("$ ") {
            steps.push(Step {
                line: fence.line + 1 + n,
                way: way.clone(),
                script: format!("{script}\n"),
                prints: Some(String::new()),
                alike: false,
                with_stderr: true,
                code: 0,
            });
            continue;
        }
        let Some(step) = steps.last_mut() else { panic!("line {}: no command", fence.line) };
        let code = line.strip_prefix("[exit code ").and_then(|it| it.strip_suffix(']'));
        if let Some(code) = code {
            step.code = code.parse().expect("a number");
        } else if let Some(more) = line.strip_prefix("> ").filter(|_| step.script.ends_with("\\\n"))
        {
            step.script.push_str(&format!("{more}\n"));
        } else if let Some(prints) = &mut step.prints {
            prints.push_str(&format!("{line}\n"));
        }
    }
    steps
}

/// The same, with every number the same.
pub fn fits_alike(shown: &str, printed: &str) -> bool {
    fits(&without_numbers(shown), &without_numbers(printed))
}

fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    let mut left = text.chars().peekable();
    while let Some(c) = left.next() {
        if !c.is_ascii_digit() {
            plain.push(c);
            continue;
        }
        plain.push('#');
        // A comma or a dot is part of a number if a digit follows.
        while let Some(next) = left.peek().copied() {
            let mut ahead = left.clone();
            ahead.next();
            let goes_on =
                matches!(next, ',' | '.') && ahead.peek().is_some_and(char::is_ascii_digit);
            if !next.is_ascii_digit() && !goes_on {
                break;
            }
            left.next();
        }
    }
    plain
}

/// Whether what was printed is what the page shows.
pub fn fits(shown: &str, printed: &str) -> bool {
    let lines = |text: &str| text.trim_end().lines().map(|it| it.trim_end().to_owned()).collect();
    let (shown, printed): (Vec<String>, Vec<String>) = (lines(shown), lines(printed));
    all_fit(&shown, &printed)
}

fn all_fit(shown: &[String], printed: &[String]) -> bool {
    let Some((first, rest)) = shown.split_first() else { return printed.is_empty() };
    if matches!(first.trim(), "…" | "...") {
        return (0..=printed.len()).any(|n| all_fit(rest, &printed[n..]));
    }
    printed.split_first().is_some_and(|(line, more)| line_fits(first, line) && all_fit(rest, more))
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let shown = shown.replace("...", "…");
    let mut pieces = shown.split('…');
    let Some(mut left) = pieces.next().and_then(|first| printed.strip_prefix(first)) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return left.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return left.ends_with(piece);
        }
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    false
}

#[test]
fn blocks_are_read_with_what_they_print() {
    let page =
        "# T\n```sh\na\nb\n```\n```json\n{}\n```\n\n```sh retry\nc\n```\ntext\n```text\nno\n```\n";
    let steps = steps(page).unwrap();
    assert_eq!(steps.len(), 2);
    assert_eq!((steps[0].line, steps[0].script.as_str()), (2, "a\nb\n"));
    assert_eq!(steps[0].prints.as_deref(), Some("{}\n"));
    assert_eq!((&steps[1].way, &steps[1].prints), (&Way::Retry, &None));
}

#[test]
fn a_console_has_commands_and_what_they_print() {
    let page = "```console\n$ a \\\n> b\nx\ny\n$ c\n[exit code 2]\n```\n";
    let steps = steps(page).unwrap();
    assert_eq!(
        (steps[0].script.as_str(), steps[0].prints.as_deref()),
        ("a \\\nb\n", Some("x\ny\n"))
    );
    assert_eq!((steps[1].code, steps[1].prints.as_deref()), (2, Some("")));
}

#[test]
fn a_block_is_skipped_only_with_a_reason() {
    assert!(steps("```sh skip: needs an etcd\na\n```\n").is_ok());
    for wrong in ["```sh skip\na\n```\n", "```sh skip: no\na\n```\n", "```bash\na\n```\n"] {
        assert!(steps(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn numbers_can_be_others() {
    assert!(fits_alike("n4-1 took 5.7 s, 12,394 words.", "n5-1 took 10 s, 7 words."));
    assert!(!fits_alike("n4-1 took 5 s", "n4-1 took 5 h"));
    assert!(steps("```sh\na\n```\n```text alike\n1\n```\n").unwrap()[0].alike);
}

#[test]
fn dots_stand_for_anything() {
    assert!(fits("a … c\n", "a b c\n"));
    assert!(fits("a\n…\nd\n", "a\nb\nc\nd\n"));
    assert!(fits("took ... s, … MB", "took 1.2 s, 30 MB"));
    for (shown, printed) in [("a … c", "a b d"), ("a", "ab"), ("a\n…\nd", "a\nb"), ("a", "a\nb")]
    {
        assert!(!fits(shown, printed), "{shown:?} {printed:?}");
    }
}
