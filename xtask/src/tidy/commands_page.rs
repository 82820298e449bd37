//! `docs/commands.md` says what the code says.
//!
//! It is written from the doc comments, so that there is one text about a command and it stands
//! where the command is changed. A page that lags behind is worse than none: it is believed.

use super::Fault;
use crate::{docs, tree::Tree};

/// The page is what `cargo xtask docs` would write.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let fresh = match docs::page(tree) {
        Ok(fresh) => fresh,
        Err(faults) => return faults,
    };
    let stored = tree.text(docs::PAGE);
    if stored == fresh {
        return Vec::new();
    }
    let same = stored.lines().zip(fresh.lines()).take_while(|(old, new)| old == new).count();
    vec![Fault::new(docs::PAGE, same + 1, "out of date from here on: run `cargo xtask docs`")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{our_tree_keeps, places};

    #[test]
    fn our_page_is_up_to_date() {
        our_tree_keeps(check);
    }

    #[test]
    fn a_page_that_lags_behind_is_found() {
        let code = [
            ("crates/sardonyx-core/src/command.rs", "const NAMES: [&str; 1] = [\"gc\"];\n"),
            (
                "crates/sardonyx-core/src/command/gc.rs",
                "//! `gc`: forgets.\n\n/// Forgets old jobs.\npub struct Gc;\n",
            ),
        ];
        let page = docs::page(&Tree::of(&code)).unwrap();
        let with_page = |page: &str| places(check, &[code[0], code[1], (docs::PAGE, page)]);
        assert_eq!(with_page(&page), [""; 0]);
        assert_eq!(with_page(&page.replacen("# ", "# x", 1)), ["docs/commands.md:1"]);
        assert_eq!(with_page(""), ["docs/commands.md:1"]);
    }
}
