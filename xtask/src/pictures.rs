//! The guide's pictures: taken by the tests of the dashboard, and copied to where the guide shows them.

use std::fs;

use crate::{
    run::{call, cargo},
    tree::{self, Tree},
};

/// The page that shows them, and where it finds them.
const PAGE: &str = "docs/guide/http.md";
const FOLDER: &str = "docs/guide/pictures";

/// Runs the dashboard in a browser, and copies what the page shows.
pub(crate) fn take(tree: &Tree) -> Result<(), String> {
    let names = shown(tree.text(PAGE));
    let (root, taken) = (tree::root(), tree::root().join("target/pictures"));
    let mut test = cargo();
    test.args(["test", "-p", "sardonyx", "--test", "it", "--", "dashboard::"]);
    test.env("DASHBOARD_PICTURES", &taken);
    if !call(&mut test)? {
        return Err("the dashboard's tests failed; see above".to_owned());
    }
    fs::create_dir_all(root.join(FOLDER)).map_err(|why| format!("{FOLDER}: {why}"))?;
    for name in names {
        fs::copy(taken.join(&name), root.join(FOLDER).join(&name))
            .map_err(|why| format!("{PAGE} shows {name}, which no test takes: {why}"))?;
    }
    eprintln!("{FOLDER} is up to date");
    Ok(())
}

/// The files that a page shows as `pictures/NAME`.
fn shown(page: &str) -> Vec<String> {
    let after = page.split("(pictures/").skip(1);
    after.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_page_names_its_pictures() {
        let page = "![the ring](pictures/ring.png)\ntext (not) ![job](pictures/job.png)";
        assert_eq!(super::shown(page), ["ring.png", "job.png"]);
    }
}
