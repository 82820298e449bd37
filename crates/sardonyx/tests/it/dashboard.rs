//! The dashboard in a real browser, on nodes that are processes of their own.
//!
//! Pictures are kept below the target directory, in `dashboard/`, or where `DASHBOARD_PICTURES` says; a
//! picture of an empty page is too small, and fails.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{
    chrome::Chrome,
    node::{Node, SOON, alone, ring_of},
};

const N_PEERS: usize = 6;

/// A job that takes as long as somebody looks at it, with numbers in every task.
const STREAM: &str = r#"
name = "orders"
workflow = [["orders", "large"], ["orders", "by-city"], ["large", "alert"], ["by-city", "totals"]]

[catalog.orders]
type = "input"
plugin = "generate"
rate = 4000
[catalog.orders.shape]
n = "sequence"
city = { text = "c{0..9}" }

[catalog.large]
type = "function"
fn = "sql"
query = "select n, city from segments where n % 100 = 0"

[catalog.by-city]
type = "function"
fn = "count"
group-by = ["city"]
trigger = "1s"

[catalog.alert]
type = "output"
plugin = "null"

[catalog.totals]
type = "output"
plugin = "null"
"#;

/// Two nodes on one store, the first of them with a dashboard, and a browser.
struct Scene {
    store: String,
    first: Node,
    second: Node,
    chrome: Chrome,
    url: String,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn start() -> Scene {
        let chrome = Chrome::start(1360, 940);
        let dir = tempfile::tempdir().expect("a directory");
        let peers = N_PEERS.to_string();
        let here = format!("embedded:{}", dir.path().display());
        let first = Node::start(&[
            "--peers",
            &peers,
            "--store",
            &here,
            "--listen",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--session",
            "2s",
        ]);
        let said = |event: &str, key: &str| {
            until(event, || {
                let events = first.events();
                let it = events.iter().find(|it| it["event"] == event)?;
                Some(it[key].as_str()?.to_owned())
            })
        };
        let (store, url) = (said("start", "serves"), said("http", "url"));
        let second = Scene::second(&store);
        ring_of(&store, 2 * N_PEERS, SOON, |_| true);
        Scene { store, first, second, chrome, url, _dir: dir }
    }

    fn second(store: &str) -> Node {
        Node::start(&["--peers", &N_PEERS.to_string(), "--store", store, "--session", "2s"])
    }

    fn open(&mut self, place: &str) {
        let url = format!("{}{place}", self.url);
        self.chrome.open(&url);
    }

    /// Takes a picture, which must show something.
    fn picture(&mut self, name: &str) {
        let bytes = self.chrome.picture(&pictures().join(format!("{name}.png")));
        assert!(bytes > 12_000, "{name} has only {bytes} bytes: it is empty");
    }

    /// The browser had nothing to complain about, but for requests that were refused on purpose.
    fn was_content(&mut self) {
        let is_asked_for = |it: &&String| it.contains("\"source\":\"network\"");
        let wrong: Vec<_> = self.chrome.complaints.iter().filter(|it| !is_asked_for(it)).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

fn pictures() -> PathBuf {
    let given = std::env::var_os("DASHBOARD_PICTURES").map(PathBuf::from);
    given.unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard"))
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < SOON, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
}

const DOTS: &str = "document.querySelectorAll('.ring [data-peer]').length";

#[test]
fn the_ring_is_shown_and_changes_when_a_node_dies() {
    let _alone = alone();
    let mut scene = Scene::start();
    scene.open("");
    scene.chrome.wait(&format!("{DOTS} === {}", 2 * N_PEERS));
    scene.chrome.wait("document.querySelector('#live').classList.contains('on')");
    scene.chrome.wait("document.querySelector('[data-tile=nodes] .big').textContent === '2'");
    scene.picture("overview-quiet");
    scene.second.kill();
    scene.chrome.wait("document.querySelectorAll('.ring [data-ghost]').length > 0");
    scene.picture("ring-heals");
    scene.chrome.wait(&format!("{DOTS} === {N_PEERS}"));
    scene.chrome.wait("document.querySelector('#feed .left')");
    scene.chrome.wait("document.querySelector('.ring .words').textContent.includes('one ring')");
    // Another comes: live, without loading anything again.
    scene.second = Scene::second(&scene.store);
    scene.chrome.wait(&format!("{DOTS} === {}", 2 * N_PEERS));
    scene.chrome.wait("document.querySelector('#feed .joined')");
    scene.was_content();
    // Without the server the page says so.
    scene.first.kill();
    scene.chrome.wait("document.querySelector('#live').classList.contains('off')");
}

#[test]
fn a_job_is_submitted_watched_and_killed() {
    let _alone = alone();
    let mut scene = Scene::start();
    scene.open("#/jobs");
    scene.chrome.click("#submit");
    scene.chrome.fill("#job-text", "name = \"broken\"");
    scene.chrome.click("#check");
    scene.chrome.wait("document.querySelectorAll('.faults li').length > 1");
    scene.picture("job-with-faults");
    scene.chrome.fill("#job-text", STREAM);
    scene.chrome.fill("#job-id", "orders-1");
    scene.chrome.click("#check");
    scene.chrome.wait("document.querySelector('dialog').textContent.includes('No faults')");
    scene.chrome.click("#send");
    scene.chrome.wait("document.querySelector('#main').dataset.view === 'job'");
    scene.chrome.wait("document.querySelector('#job-state')?.textContent === 'running'");
    scene.chrome.wait("document.querySelectorAll('.graph [data-task]').length === 5");
    let flows =
        "[...document.querySelectorAll('.graph .rate')].some(it => parseInt(it.textContent) > 0)";
    scene.chrome.wait(flows);
    std::thread::sleep(std::time::Duration::from_secs(6));
    scene.picture("job");
    scene.open("#/");
    scene.chrome.wait("document.querySelectorAll('.legend span').length >= 1");
    scene.picture("overview");
    scene.chrome.dark(true);
    scene.picture("overview-dark");
    scene.chrome.resize(390, 844);
    scene.picture("overview-narrow");
    let overflow = "document.documentElement.scrollWidth <= innerWidth";
    for place in ["#/", "#/jobs", "#/jobs/orders-1", "#/time", "#/nodes", "#/ids"] {
        scene.open(place);
        scene.chrome.wait(overflow);
    }
    scene.chrome.resize(1360, 940);
    scene.open("#/jobs/orders-1");
    scene.chrome.wait("document.querySelectorAll('.graph [data-task]').length === 5");
    scene.picture("job-dark");
    scene.chrome.dark(false);
    scene.chrome.click("#kill");
    scene.chrome.fill("#reason", "seen enough");
    scene.picture("kill");
    scene.chrome.click("#confirm");
    scene.chrome.wait("document.querySelector('#job-state')?.textContent === 'killed'");
    scene.chrome.wait("document.querySelector('#reason-shown')?.textContent === 'seen enough'");
    scene.open("#/jobs");
    scene.chrome.click("#gc");
    scene.chrome.click("#confirm");
    scene
        .chrome
        .wait("document.querySelector('[role=status].sub')?.textContent.includes('collected')");
    scene.was_content();
}

#[test]
fn the_slider_shows_the_cluster_as_it_was() {
    let _alone = alone();
    let mut scene = Scene::start();
    scene.open("#/time");
    scene.chrome.wait("document.querySelector('#main').dataset.shown");
    scene.chrome.wait(&format!("{DOTS} === {}", 2 * N_PEERS));
    scene.chrome.fill("#slider", "9");
    scene.chrome.wait("document.querySelector('#main').dataset.shown === '9'");
    scene.chrome.wait(&format!("{DOTS} < {}", 2 * N_PEERS));
    let expected = scene.chrome.eval(
        "fetch('/v1/replica?at=9').then(it => it.json()).then(it => it.replica.peers.length)",
    );
    assert_eq!(scene.chrome.eval(DOTS), expected);
    scene.chrome.wait("document.querySelector('#entries tr.here')");
    scene.chrome.fill("#from", "0");
    scene.chrome.wait("document.querySelector('#difference .chip.plus')");
    scene.picture("time");
    // By keyboard: an arrow moves the slider by one entry.
    scene.chrome.eval("document.querySelector('#slider').focus()");
    scene.chrome.key("ArrowRight", 39);
    scene.chrome.wait("document.querySelector('#main').dataset.shown === '10'");
    scene.chrome.click("#now");
    scene.chrome.wait(&format!("{DOTS} === {}", 2 * N_PEERS));
    scene.chrome.eval("document.activeElement.blur()");
    for (key, code, view) in
        [("j", 74, "jobs"), ("n", 78, "nodes"), ("i", 73, "ids"), ("o", 79, "overview")]
    {
        scene.chrome.key(key, code);
        scene.chrome.wait(&format!("document.querySelector('#main').dataset.view === '{view}'"));
    }
    scene.open("#/nodes");
    scene.chrome.wait("document.querySelectorAll('#nodes tr').length === 2");
    scene.picture("nodes");
    scene.open("#/ids");
    scene.chrome.wait("document.querySelectorAll('#workers tr').length >= 1");
    scene.picture("ids");
    scene.was_content();
}

/// What a name may try; each is the id and the name of a job, of a task, of a function, and why it was
/// killed, and is shown everywhere.
fn payloads() -> Vec<String> {
    let bodies = ["window.pwned=1", "parent.pwned=1", "top['pwned']=1", "globalThis.pwned=1"];
    let shapes = [
        "<script>X</script>",
        "<img src=x onerror=X>",
        "<svg onload=X>",
        "\"><script>X</script>",
        "'><svg/onload=X>",
        "</title><script>X</script>",
        "</textarea><img src=x onerror=X>",
        "javascript:X",
        "<iframe srcdoc='<script>X</script>'>",
        "<a href=javascript:X>a</a>",
        "{{constructor.constructor('X')()}}",
        "${X}",
        "<body onpageshow=X>",
        "<details open ontoggle=X>",
        "<input autofocus onfocus=X>",
        "<math><mi xlink:href=javascript:X>",
        "<style>*{x:expression(X)}</style>",
        "<object data=javascript:X>",
        "<embed src=javascript:X>",
        "--><script>X</script>",
        "]]><script>X</script>",
        "<noscript><p title='</noscript><img src=x onerror=X>'>",
        "<template><script>X</script></template>",
        "<video><source onerror=X>",
        "<marquee onstart=X>",
        "<IMG SRC=x OnErRoR=X>",
        "<svg><script>X</script></svg>",
        "<svg><animate onbegin=X attributeName=x dur=1s>",
        "<img src=x onerror=\"X\">",
        "<img src='x' onerror='X'//",
        "<<script>X//<</script>",
        "<script src=data:text/javascript,X></script>",
        "<link rel=stylesheet href=javascript:X>",
        "<meta http-equiv=refresh content='0;url=javascript:X'>",
        "<base href='javascript:X//'>",
        "<form action=javascript:X><button autofocus>b</button></form>",
        "<button onclick=X autofocus onfocus=X>b</button>",
        "<select autofocus onfocus=X>",
        "<textarea autofocus onfocus=X>",
        "<audio src=x onerror=X>",
        "<div style=\"background:url(javascript:X)\">",
        "<div onmouseover=X style=position:fixed;inset:0>",
        "\" onmouseover=X x=\"",
        "' onfocus=X autofocus x='",
        "`-X-`",
        "\\u003cscript\\u003eX\\u003c/script\\u003e",
        "&lt;script&gt;X&lt;/script&gt;",
        "&#60;img src=x onerror=X&#62;",
        "%3Cscript%3EX%3C/script%3E",
        "<xss id=x tabindex=1 onfocus=X></xss>",
    ];
    shapes.iter().flat_map(|shape| bodies.iter().map(|body| shape.replace('X', body))).collect()
}

/// How many elements of the page nobody of ours has put there: such as run something, and any that has
/// code for an event. Without the rules for scripts this would be what runs.
const STRANGE: &str = "[...document.querySelectorAll('main *')].filter(it => \
    ['SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'IMG', 'STYLE', 'LINK', 'META', 'BASE', 'FORM', 'VIDEO', \
     'AUDIO', 'MARQUEE', 'XSS', 'TEMPLATE', 'NOSCRIPT', 'MATH'].includes(it.tagName.toUpperCase()) \
    || [...it.attributes].some(a => a.name.startsWith('on') \
    || ['href', 'src', 'action', 'formaction', 'xlink:href', 'data', 'srcdoc'].includes(a.name) \
       && /^\\s*javascript:/i.test(a.value)) \
    ).length";

#[test]
fn names_that_try_to_be_code_stay_text() {
    let _alone = alone();
    let mut scene = Scene::start();
    scene.open("");
    let names = payloads();
    assert_eq!(names.len(), 200);
    let job = "name = NAME\nworkflow = [[\"in\", NAME], [NAME, \"out\"]]\n[catalog.in]\n\
               type = \"input\"\nplugin = NAME\nmin-peers = 1000\n[catalog.NAME]\n\
               type = \"function\"\nfn = NAME\nparams = { NAME = NAME }\n[catalog.out]\n\
               type = \"output\"\nplugin = NAME\n";
    let submit = format!(
        "(async () => {{ for (const name of {names}) {{ \
         const sent = await fetch('/v1/jobs?any-names=true&id=' + encodeURIComponent(name), {{method: 'POST', \
         headers: {{'content-type': 'application/toml'}}, body: {job}.replaceAll('NAME', () => JSON.stringify(name))}}); \
         if (!sent.ok) throw new Error(name + await sent.text()); \
         if (name.length % 2) await fetch('/v1/jobs/' + encodeURIComponent(name) + '/kill', \
         {{method: 'POST', headers: {{'content-type': 'application/json'}}, body: JSON.stringify({{reason: name}})}}); \
         }} return true; }})()",
        names = json!(names),
        job = json!(job),
    );
    assert_eq!(scene.chrome.eval(&submit), true);
    scene.open("#/jobs");
    scene.chrome.wait("document.querySelectorAll('#jobs tr').length === 200");
    for name in &names {
        let shown = format!(
            "[...document.querySelectorAll('#jobs a.id')].some(it => it.textContent === {})",
            json!(name)
        );
        assert_eq!(scene.chrome.eval(&shown), true, "{name}");
        let coded = scene.chrome.eval(&format!("encodeURIComponent({})", json!(name)));
        scene.chrome.go(&format!("#/jobs/{}", coded.as_str().expect("a text")));
        scene.chrome.wait("document.querySelector('#job-state')");
        scene
            .chrome
            .wait(&format!("document.querySelector('h1.id').textContent === {}", json!(name)));
        scene.chrome.wait(&format!(
            "document.querySelector('.graph [data-task]') && \
             document.querySelector('#main').textContent.includes({})",
            json!(name)
        ));
        assert_eq!(scene.chrome.eval(STRANGE), 0, "{name}");
        scene.chrome.go("#/jobs");
        scene.chrome.wait("document.querySelectorAll('#jobs tr').length === 200");
    }
    for (place, view) in [("#/", "overview"), ("#/time", "time"), ("#/nodes", "nodes")] {
        scene.chrome.go(place);
        scene.chrome.wait(&format!("document.querySelector('#main').dataset.view === '{view}'"));
        scene.chrome.wait("document.querySelector('#main .ring, #main #peers')");
    }
    assert_eq!(scene.chrome.eval("window.pwned === undefined"), true);
    assert_eq!(scene.chrome.eval(STRANGE), 0);
    scene.picture("names");
    scene.was_content();
}
