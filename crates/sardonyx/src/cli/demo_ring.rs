//! The ring, drawn with letters: who watches whom, in the direction of the arrows.

/// How many peers stand in one row; a longer ring has two rows, one for each way.
const ROW_MAX: usize = 8;

/// How many peers are drawn; of a larger ring the rest is counted.
const DRAWN_MAX: usize = 16;

/// Draws a ring of these peers, in the order in which each watches the next.
pub(super) fn draw(ring: &[String]) -> Vec<String> {
    match ring {
        [] => vec!["(nobody)".into()],
        [one] => vec![format!("{one}  (alone: nobody to watch)")],
        _ => rows(&shortened(ring)),
    }
}

/// The first peers of a long ring, how many are left out, and the last ones.
fn shortened(ring: &[String]) -> Vec<String> {
    if ring.len() <= DRAWN_MAX {
        return ring.to_vec();
    }
    let n_first = DRAWN_MAX / 2;
    let n_last = DRAWN_MAX - n_first - 1;
    let left_out = ring.len() - n_first - n_last;
    let mut shown = ring[..n_first].to_vec();
    shown.push(format!("… {left_out} more …"));
    shown.extend_from_slice(&ring[ring.len() - n_last..]);
    shown
}

fn rows(ring: &[String]) -> Vec<String> {
    let n_top = if ring.len() <= ROW_MAX { ring.len() } else { ring.len().div_ceil(2) };
    let (there, back) = ring.split_at(n_top);
    let top = format!("┌─▶ {} ─┐", there.join(" ─▶ "));
    let mut way_back = back.to_vec();
    way_back.reverse();
    let way_back = match way_back.is_empty() {
        true => String::new(),
        false => format!(" {} ◀", way_back.join(" ◀─ ")),
    };
    // Both ends stand under each other, whichever row is longer.
    let width = top.chars().count().max(way_back.chars().count() + 4);
    let missing = width - top.chars().count();
    let top = format!("┌─▶ {} {}┐", there.join(" ─▶ "), "─".repeat(missing + 1));
    let line = "─".repeat(width - 3 - way_back.chars().count());
    vec![top, format!("└─{way_back}{line}┘")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(n: usize) -> Vec<String> {
        (1..=n).map(|n| format!("n{n}")).collect()
    }

    #[track_caller]
    fn check(ring: &[String], expected: &[&str]) {
        assert_eq!(draw(ring), expected, "\n{}", draw(ring).join("\n"));
    }

    #[test]
    fn a_ring_goes_round() {
        check(&peers(0), &["(nobody)"]);
        check(&peers(1), &["n1  (alone: nobody to watch)"]);
        check(&peers(3), &["┌─▶ n1 ─▶ n2 ─▶ n3 ─┐", "└───────────────────┘"]);
    }

    #[test]
    fn a_longer_one_comes_back_in_a_second_row() {
        let expected = ["┌─▶ n1 ─▶ n2 ─▶ n3 ─▶ n4 ─▶ n5 ─┐", "└─ n9 ◀─ n8 ◀─ n7 ◀─ n6 ◀───────┘"];
        check(&peers(9), &expected);
    }

    #[test]
    fn of_a_large_one_the_rest_is_counted() {
        let drawn = draw(&peers(40));
        assert!(drawn[0].contains("n8") && drawn[1].contains("n34 ◀─ … 25 more … ◀"), "{drawn:?}");
        for row in &drawn {
            assert_eq!(row.chars().count(), drawn[0].chars().count(), "{drawn:?}");
        }
    }
}
