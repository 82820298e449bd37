//! Every complaint, by its words: they are what a person gets.

use super::*;

const GOOD: &str = r#"
name = "word-count"
workflow = [["read", "split"], ["split", "count"], ["count", "write"], ["split", "write"]]
task-scheduler = "round-robin"
percentage = 33.25

[catalog.read]
type = "input"
plugin = "wait"
for = "2s"

[catalog.split]
type = "function"
fn = "wait"
max-peers = 4

[catalog.write]
type = "output"
plugin = "wait"

[catalog.count]
type = "function"
fn = "wait"
group-by = ["word"]
"#;

fn complaints(text: &str) -> Vec<String> {
    let read = Job::read(text, Language::Toml, &BuiltIn);
    read.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// The good job with one line exchanged.
fn with(from: &str, to: &str) -> Vec<String> {
    assert!(GOOD.contains(from), "{from} is not there");
    complaints(&GOOD.replacen(from, to, 1))
}

#[test]
fn a_good_job_has_its_tasks_in_topological_order() {
    let job = Job::read(GOOD, Language::Toml, &BuiltIn).unwrap();
    let tasks: Vec<_> = job.tasks().iter().map(|task| task.as_str()).collect();
    assert_eq!(tasks, ["read", "split", "count", "write"]);
    assert_eq!(job.name(), "word-count");
    let again = Job::read(job.text().as_str(), Language::Json, &BuiltIn).unwrap();
    assert_eq!(again, job);
    let terms = sardonyx_core::wire::terms_from_json(job.text().as_str(), job.tasks()).unwrap();
    assert_eq!(terms.percentage.unwrap().hundredths(), 3325);
}

#[test]
fn a_job_may_be_a_single_task() {
    let text = "name = \"one\"\n[catalog.only]\ntype = \"input\"\nplugin = \"wait\"";
    assert_eq!(complaints(text), Vec::<String>::new());
}

#[test]
fn each_mistake_is_named_with_its_place_and_what_to_write() {
    let cases = [
        (
            "name = \"word-count\"",
            "nam = \"x\"",
            vec![
                "nam: there is no such key; did you mean name?",
                "name: write a text: name = \"word-count\"",
            ],
        ),
        (
            "max-peers = 4",
            "max_peers = 4",
            vec!["catalog.split.max_peers: there is no such key; did you mean max-peers?"],
        ),
        (
            "max-peers = 4",
            "max-peers = 0",
            vec!["catalog.split.max-peers: write a whole number, at least 1"],
        ),
        (
            "max-peers = 4",
            "max-peers = 2\nmin-peers = 3",
            vec!["catalog.split.min-peers: 3 is above max-peers, which is 2"],
        ),
        (
            "percentage = 33.25",
            "percentage = 100.01",
            vec!["percentage: write a number from 0 to 100 with at most two decimals"],
        ),
        (
            "task-scheduler = \"round-robin\"",
            "task-scheduler = \"fair\"",
            vec!["task-scheduler: write \"greedy\", \"round-robin\" or \"percentage\""],
        ),
        (
            "[\"split\", \"write\"]",
            "[\"count\", \"split\"]",
            vec!["workflow: runs in a circle: split → count → split; take one edge out"],
        ),
        (
            "[\"split\", \"write\"]",
            "[\"write\", \"count\"]",
            vec![
                "catalog.write: an output ends, but it leads to count: make it a function",
                "workflow: runs in a circle: write → count → write; take one edge out",
            ],
        ),
        (
            "[\"split\", \"write\"]",
            "[\"split\", \"read\"]",
            vec![
                "catalog.read: an input begins, but split leads to it: make it a function",
                "workflow: runs in a circle: read → split → read; take one edge out",
            ],
        ),
        (
            "[\"split\", \"write\"]",
            "[\"split\"]",
            vec!["workflow[3]: an edge is two names: [\"read\", \"write\"]"],
        ),
        (
            "[\"split\", \"write\"]",
            "[\"split\", \"split\"]",
            vec!["workflow[3]: split cannot follow itself"],
        ),
        (
            "[\"split\", \"write\"]",
            "[\"split\", \"count\"]",
            vec!["workflow[3]: split to count is there twice"],
        ),
        (
            "[\"split\", \"write\"]",
            "[\"split\", \"sink\"]",
            vec!["catalog.sink: is missing, but the workflow names it"],
        ),
        (
            "[\"count\", \"write\"], [\"split\", \"write\"]",
            "[\"split\", \"write\"]",
            vec!["catalog.count: it leads nowhere: end with an output"],
        ),
        (
            "[\"read\", \"split\"], ",
            "",
            vec![
                "catalog.count: no input leads to it",
                "catalog.read: the workflow does not name it: add an edge, or take it out",
                "catalog.split: nothing leads to it: begin with an input",
                "catalog.write: no input leads to it",
            ],
        ),
        (
            "plugin = \"wait\"\nfor = \"2s\"",
            "plugin = \"kafka\"",
            vec!["catalog.read.plugin: this build has no input \"kafka\"; what there is: \"wait\""],
        ),
        (
            "for = \"2s\"",
            "for = \"soon\"",
            vec!["catalog.read.plugin: \"soon\" is no duration: write 500ms, 2s, 5m or 1h"],
        ),
        (
            "fn = \"wait\"\nmax-peers",
            "plugin = \"wait\"\nmax-peers",
            vec![
                "catalog.split.fn: write what it runs: fn = \"…\"",
                "catalog.split.plugin: a function has fn instead",
            ],
        ),
        (
            "type = \"output\"",
            "type = \"sink\"",
            vec!["catalog.write.type: write \"input\", \"function\" or \"output\""],
        ),
        (
            "group-by = [\"word\"]",
            "group-by = \"word\"",
            vec!["catalog.count.group-by: write the names of fields: [\"word\"]"],
        ),
        (
            "task-scheduler = \"round-robin\"",
            "task-scheduler = 1979-05-27",
            vec!["task-scheduler: write the time as a text: \"1979-05-27\""],
        ),
    ];
    for (from, to, expected) in cases {
        assert_eq!(with(from, to), expected, "{from} becomes {to}");
    }
}

#[test]
fn shares_need_a_percentage_for_each_task() {
    let found = with("task-scheduler = \"round-robin\"", "task-scheduler = \"percentage\"");
    assert_eq!(found.len(), 4);
    assert!(found[0].starts_with("catalog.count.percentage: is missing"), "{}", found[0]);
}

#[test]
fn tasks_that_no_input_reaches_are_named() {
    let island = "[\"read\", \"split\"], [\"x\", \"y\"], [\"y\", \"x\"], ";
    let mut text = GOOD.replacen("[\"read\", \"split\"], ", island, 1);
    text += "[catalog.x]\ntype = \"function\"\nfn = \"wait\"\n";
    text += "[catalog.y]\ntype = \"function\"\nfn = \"wait\"\n";
    let found = complaints(&text);
    assert_eq!(found[0], "catalog.x: no input leads to it");
    assert_eq!(found[1], "catalog.y: no input leads to it");
}

#[test]
fn what_is_no_toml_says_where() {
    let found = complaints("name = \n");
    assert!(found[0].starts_with("this is no TOML: ") && found[0].contains("line 1"), "{found:?}");
    let found = Job::read("{\"name\": }", Language::Json, &BuiltIn).unwrap_err();
    assert!(found[0].what.starts_with("this is no JSON: "), "{found:?}");
}

#[test]
fn the_longest_job_is_read_and_a_longer_one_is_not() {
    let longest = format!("{GOOD}#{}", " ".repeat(JOB_BYTES_MAX - GOOD.len() - 1));
    assert_eq!(complaints(&longest), Vec::<String>::new());
    let found = complaints(&format!("{longest} "));
    assert_eq!(found, ["a job has at most 1048576 bytes, this one has 1048577"]);
}

#[test]
fn durations_have_a_unit() {
    assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
    assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
    assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
    for wrong in ["", "5", "s", "1.5s", "-1s", "1d", "99999999999999999999h", "9999999999999999h"] {
        assert!(duration(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_job_has_as_many_tasks_as_it_may_have_and_no_more() {
    use sardonyx_core::replica::job::TASKS_MAX;
    let job = |n: usize| {
        let edges: Vec<_> = (1..n).map(|at| format!("[\"t{}\", \"t{at}\"]", at - 1)).collect();
        let mut text = format!("name = \"long\"\nworkflow = [{}]\n", edges.join(", "));
        for at in 0..n {
            let what = match at {
                0 => "type = \"input\"\nplugin = \"wait\"",
                _ if at == n - 1 => "type = \"output\"\nplugin = \"wait\"",
                _ => "type = \"function\"\nfn = \"wait\"",
            };
            text += &format!("[catalog.t{at}]\n{what}\n");
        }
        complaints(&text)
    };
    assert_eq!(job(TASKS_MAX), Vec::<String>::new());
    assert_eq!(job(TASKS_MAX + 1), ["catalog: a job has at most 1000 tasks"]);
}

#[test]
fn the_example_has_no_faults() {
    let text = include_str!("../../../../examples/nap.toml");
    assert_eq!(complaints(text), Vec::<String>::new());
}
