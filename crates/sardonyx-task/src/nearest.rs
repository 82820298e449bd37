//! What somebody probably meant: known names in order of how few letters are different.

/// How many names a suggestion shows; the rest would hide the right one.
const NAMES_MAX: usize = 8;

/// `did you mean lower?`, or what there is if nothing is near.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let ordered = ordered(name, known);
    match ordered.first() {
        None => "there are none".into(),
        Some((distance, near)) if *distance <= near.chars().count().div_ceil(3) => {
            format!("did you mean {near}?")
        }
        Some(_) => format!("there are {}", list(ordered.iter().map(|(_, name)| *name))),
    }
}

/// All of them, nearest first: for a list in which everything may be meant.
pub fn nearest_first<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    ordered(name, known).into_iter().map(|(_, name)| name).collect()
}

/// `a, b, c and 4 more`.
pub fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown: Vec<&str> = names.take(NAMES_MAX).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn ordered<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<(usize, &'a str)> {
    let name = name.to_lowercase();
    let measure = |known: &'a str| (distance(&name, &known.to_lowercase()), known);
    let mut all: Vec<_> = known.into_iter().map(measure).collect();
    all.sort();
    all
}

/// How many letters must be changed, added or left out (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised() {
        assert_eq!(
            hint("spilt-words", ["pass", "split-words", "sql"]),
            "did you mean split-words?"
        );
        assert_eq!(hint("User", ["bytes", "user"]), "did you mean user?");
    }

    #[test]
    fn what_is_like_nothing_gets_the_list() {
        assert_eq!(hint("frobnicate", ["pass", "sql"]), "there are pass, sql");
        assert_eq!(hint("x", []), "there are none");
    }

    #[test]
    fn a_long_list_says_how_much_is_left_out() {
        let names: Vec<String> = (0..11).map(|n| format!("column_{n:02}")).collect();
        let shown = list(names.iter().map(String::as_str));
        assert!(shown.ends_with("column_07 and 3 more"), "{shown}");
    }
}
