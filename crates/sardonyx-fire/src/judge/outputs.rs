//! Nothing lost, nothing made up, nothing twice: what is in an output beside what must be.

use std::cmp::Ordering;

/// Compares lines, both sorted; says what is wrong with those that were found.
pub fn compare(name: &str, wanted: &[String], found: &[String]) -> Vec<String> {
    let mut broken = Vec::new();
    let (mut at, mut last) = (0, None);
    for line in found {
        if last == Some(line) && wanted.get(at).is_none_or(|it| it != line) {
            broken.push(format!("{name}: twice: {line}"));
            continue;
        }
        last = Some(line);
        while let Some(next) = wanted.get(at).filter(|it| (*it).cmp(line) == Ordering::Less) {
            broken.push(format!("{name}: lost: {next}"));
            at += 1;
        }
        match wanted.get(at) {
            Some(next) if next == line => at += 1,
            _ => broken.push(format!("{name}: made up: {line}")),
        }
    }
    broken.extend(wanted[at..].iter().map(|line| format!("{name}: lost: {line}")));
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn equal_is_well() {
        assert_eq!(compare("j", &lines("a b b c"), &lines("a b b c")), [""; 0]);
        assert_eq!(compare("j", &[], &[]), [""; 0]);
    }

    #[test]
    fn what_is_lost_is_found() {
        assert_eq!(compare("j", &lines("a b c"), &lines("a c")), ["j: lost: b"]);
        assert_eq!(compare("j", &lines("a b"), &[]), ["j: lost: a", "j: lost: b"]);
        assert_eq!(compare("j", &lines("a b b"), &lines("a b")), ["j: lost: b"]);
    }

    #[test]
    fn what_is_there_twice_is_found() {
        assert_eq!(compare("j", &lines("a b c"), &lines("a b b c")), ["j: twice: b"]);
        assert_eq!(compare("j", &lines("a"), &lines("a a")), ["j: twice: a"]);
    }

    #[test]
    fn what_is_made_up_is_found() {
        assert_eq!(compare("j", &lines("a c"), &lines("a b c")), ["j: made up: b"]);
        assert_eq!(compare("j", &[], &lines("z")), ["j: made up: z"]);
    }
}
