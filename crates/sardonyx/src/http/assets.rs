//! The dashboard's files, built into the program.

use axum::{
    extract::Path,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::refusal::Refusal;

/// A file of the dashboard.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal $kind:literal),* $(,)?) => {
        &[$(Asset {
            name: $name,
            kind: $kind,
            bytes: include_bytes!(concat!("assets/", $name)),
        }),*]
    };
}

static ASSETS: &[Asset] = assets![
    "index.html" "text/html; charset=utf-8",
    "style.css" "text/css; charset=utf-8",
    "icon.svg" "image/svg+xml",
    "api.js" "text/javascript; charset=utf-8",
    "app.js" "text/javascript; charset=utf-8",
    "dialogs.js" "text/javascript; charset=utf-8",
    "dom.js" "text/javascript; charset=utf-8",
    "graph.js" "text/javascript; charset=utf-8",
    "ids.js" "text/javascript; charset=utf-8",
    "jobs.js" "text/javascript; charset=utf-8",
    "live.js" "text/javascript; charset=utf-8",
    "nodes.js" "text/javascript; charset=utf-8",
    "overview.js" "text/javascript; charset=utf-8",
    "ring.js" "text/javascript; charset=utf-8",
    "spark.js" "text/javascript; charset=utf-8",
    "time.js" "text/javascript; charset=utf-8",
];

pub(crate) async fn index(headers: HeaderMap) -> Response {
    send("index.html", &headers)
}

pub(crate) async fn file(Path(file): Path<String>, headers: HeaderMap) -> Response {
    send(&file, &headers)
}

/// Sends a file, or says that the browser has it already.
fn send(name: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        let refusal = Refusal::missing("the dashboard has no such file", "open /");
        return refusal.into_response();
    };
    let tag = format!("\"{}\"", blake3::hash(asset.bytes).to_hex());
    let head = [(header::ETAG, tag.as_str()), (header::CACHE_CONTROL, "no-cache")];
    let has = headers.get(header::IF_NONE_MATCH).is_some_and(|it| it.as_bytes() == tag.as_bytes());
    if has {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    (head, [(header::CONTENT_TYPE, asset.kind)], asset.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of a job is a text, whatever is in it: nothing here ever makes markup of a text, or
    /// code of one, and nothing comes from elsewhere.
    #[test]
    fn the_dashboard_makes_no_markup_of_text_and_loads_nothing_from_elsewhere() {
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for banned in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "DOMParser",
                "srcdoc",
                "javascript:",
                " style=",
                " onclick=",
                "import(",
                "@import",
                "url(http",
            ] {
                assert!(!text.contains(banned), "{} has {banned}", asset.name);
            }
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http://"), "{}", asset.name);
            assert!(!elsewhere.contains("https://"), "{}", asset.name);
        }
    }

    #[test]
    fn every_file_that_is_asked_for_is_there() {
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for part in text.split("/assets/").skip(1) {
                let name: String =
                    part.chars().take_while(|c| c.is_alphanumeric() || *c == '.').collect();
                assert!(ASSETS.iter().any(|it| it.name == name), "{} wants {name}", asset.name);
            }
        }
    }
}
