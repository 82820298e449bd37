//! Jobs over HTTP: submitted, refused, watched, waited for, killed.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_submitted_waited_for_and_remembered() {
    let served = Served::start(Terms::default()).await;
    let taken = served.post("/v1/jobs?id=s1", TOML, SHORT).await.json();
    assert_eq!((taken["id"].as_str(), taken["applied"].as_bool()), (Some("s1"), Some(true)));
    let ended = served.get("/v1/jobs/s1/wait").await.json();
    assert_eq!(ended["state"], "completed", "{ended}");
    let again = served.post("/v1/jobs?id=s1", TOML, SHORT).await;
    assert_eq!((again.status, again.json()["code"].as_str()), (409, Some("rejected")));
    let as_json = r#"{"name": "j", "workflow": [["a", "b"]], "catalog": {
        "a": {"type": "input", "plugin": "wait", "for": "1ms"},
        "b": {"type": "output", "plugin": "wait", "for": "1ms"}}}"#;
    let taken = served.post("/v1/jobs", JSON, as_json).await.json();
    assert!(taken["id"].as_str().unwrap().starts_with("j-"), "{taken}");
    let list = served.get("/v1/jobs").await.json();
    assert_eq!(list["jobs"].as_array().unwrap().len(), 2);
    let behind = served.get("/v1/jobs?after=s1").await.json();
    assert_eq!(behind["jobs"][0]["id"], taken["id"]);
    let newest = served.get("/v1/jobs?newest=true&limit=1").await.json();
    assert_eq!((&newest["jobs"][0]["id"], newest["more"].as_bool()), (&taken["id"], Some(true)));
    let behind = format!("/v1/jobs?newest=true&after={}", taken["id"].as_str().unwrap());
    let older = served.get(&behind);
    assert_eq!(older.await.json()["jobs"][0]["id"], "s1");
    served.get(&format!("/v1/jobs/{}/wait", taken["id"].as_str().unwrap())).await;
    let collected = served.post("/v1/gc", JSON, "").await.json();
    assert_eq!(collected["jobs"], 2, "{collected}");
    let shown = served.until("/v1/jobs/s1", |it| it["collected"] == true).await;
    assert_eq!(shown["state"], "completed");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_line_ends_is_told_how_to_send_them() {
    let served = Served::start(Terms::default()).await;
    let refused = served.post("/v1/jobs", TOML, &SHORT.replace('\n', "")).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("curl --data-binary @FILE"), "{}", refused.text());
    let refused = served.post("/v1/jobs", TOML, "name = \n").await;
    assert!(!refused.text().contains("data-binary"), "{}", refused.text());
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_shows_its_graph_and_can_be_killed_once() {
    let served = Served::start(Terms::default()).await;
    served.post("/v1/jobs?id=e1", TOML, ENDLESS).await;
    let shown = served.until("/v1/jobs/e1", |it| it["state"] == "running").await;
    assert_eq!(shown["edges"], serde_json::json!([["in", "out"]]));
    assert_eq!(shown["name"], "endless");
    assert_eq!(shown["task-list"][0]["kind"], "input");
    assert_eq!(shown["task-list"][0]["runs"], "wait");
    let still = served.get("/v1/jobs/e1/wait?seconds=0").await.json();
    assert_eq!(still["state"], "running");
    let killed = served.post("/v1/jobs/e1/kill", JSON, r#"{"reason": "enough"}"#).await;
    assert_eq!(killed.json()["applied"], true);
    let shown = served.until("/v1/jobs/e1", |it| it["state"] == "killed").await;
    assert_eq!(shown["reason"], "enough");
    let twice = served.post("/v1/jobs/e1/kill", JSON, "").await;
    assert_eq!(twice.status, 409, "{}", twice.text());
    for senseless in ["[]", "{", "7", r#"{"why": "x"}"#, r#"{"reason": 1}"#] {
        let refused = served.post("/v1/jobs/e1/kill", JSON, senseless).await;
        assert_eq!(refused.status, 400, "{senseless}");
    }
    assert_eq!(served.post("/v1/jobs/e1/kill", TOML, "reason = 1").await.status, 415);
    assert_eq!(served.post("/v1/jobs/nobody/kill", JSON, "").await.status, 404);
    assert_eq!(served.get("/v1/jobs/nobody").await.status, 404);
    assert_eq!(served.get("/v1/jobs/nobody/wait").await.status, 404);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn why_a_job_waits_is_part_of_the_answer() {
    let served = Served::start(Terms::default()).await;
    let wants_many = ENDLESS.replace("cell = \"never\"", "cell = \"never\"\nmin-peers = 50");
    served.post("/v1/jobs?id=w1", TOML, &wants_many).await;
    let shown = served.get("/v1/jobs/w1").await.json();
    assert_eq!(shown["state"], "pending");
    assert_eq!(shown["waiting"], "needs 50 peers, 3 available");
    let list = served.get("/v1/jobs").await.json();
    assert_eq!(list["jobs"][0]["waiting"], "needs 50 peers, 3 available");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_job_is_said_with_its_place() {
    let served = Served::start(Terms::default()).await;
    let before = served.get("/v1/overview").await.json()["position"].clone();
    let faulty = SHORT.replace("plugin = \"wait\"\nfor = \"10ms\"\n[", "plugin = \"wiat\"\n[");
    for path in ["/v1/jobs", "/v1/jobs?check=true"] {
        let answer = served.post(path, TOML, &faulty).await;
        assert_eq!(answer.status, 422);
        let refusal = answer.json();
        assert_eq!(refusal["code"], "faulty-job");
        assert!(
            refusal["faults"][0]["place"].as_str().unwrap().contains("catalog.in"),
            "{refusal}"
        );
        assert!(!refusal["do"].as_str().unwrap().is_empty());
    }
    let checked = served.post("/v1/jobs?check=true", TOML, SHORT).await.json();
    assert_eq!(checked["tasks"], serde_json::json!(["in", "out"]));
    for (kind, body, status) in
        [(JSON, SHORT, 422), (TOML, "", 422), (TOML, "\u{0}", 422), ("", SHORT, 415)]
    {
        assert_eq!(served.post("/v1/jobs", kind, body).await.status, status, "{kind} {body}");
    }
    assert_eq!(served.post("/v1/jobs?id=", TOML, SHORT).await.status, 400);
    assert_eq!(served.post("/v1/jobs?ID=x", TOML, SHORT).await.status, 400);
    assert_eq!(served.get("/v1/overview").await.json()["position"], before);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_look_like_markup_are_text() {
    let served = Served::start(Terms::default()).await;
    let id = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let taken = served.post(&format!("/v1/jobs?id={id}"), TOML, SHORT).await;
    assert_eq!(taken.status, 200, "{}", taken.text());
    let shown = served.get(&format!("/v1/jobs/{id}")).await;
    assert_eq!(shown.json()["id"], "<script>alert(1)</script>");
    assert_eq!(shown.header("content-type"), Some("application/json"));
    let metrics = served.get("/metrics").await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain"));
    served.stop().await;
}
