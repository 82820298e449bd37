// The list of jobs, and one of them.

import { calmly, count, h, several, show, whose } from "/assets/dom.js";
import { live, listen } from "/assets/live.js";
import { get } from "/assets/api.js";
import { collect, kill, submit } from "/assets/dialogs.js";
import { graph } from "/assets/graph.js";
import { spark } from "/assets/spark.js";

const mayDo = (role) => ["read", "submit", "admin"].indexOf(live.overview?.role ?? "read") >= ["read", "submit", "admin"].indexOf(role);

function line(job) {
  const share = job.tasks > 0 ? (job.done / job.tasks) * 100 : 0;
  const bar = h("i", {});
  bar.style.width = `${share}%`;
  return h("tr", { "data-job": job.id },
    h("td", {}, h("a", { class: "id", href: `#/jobs/${encodeURIComponent(job.id)}` }, job.id),
      job.waiting && h("div", { class: "why" }, job.waiting), job.reason && h("div", { class: "reason" }, job.reason)),
    h("td", {}, h("span", { class: `pill ${job.state}` }, job.state)),
    h("td", {}, `${job.done} of ${job.tasks}`, h("div", { class: "progress" }, bar)),
    h("td", { class: "num" }, job.peers));
}

export function jobs(main) {
  const rows = h("tbody", { id: "jobs" }), more = h("p", { class: "soft" });
  const said = h("p", { class: "sub", role: "status" });
  const actions = h("div", { class: "row" });
  show(main,
    h("div", { class: "head" }, h("div", {}, h("h1", {}, "Jobs"), said), actions),
    h("section", { class: "card scroll" },
      h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Job"), h("th", {}, "State"), h("th", {}, "Tasks done"), h("th", { class: "num" }, "Peers"))), rows), more));
  const draw = calmly(500, async () => {
    show(actions,
      mayDo("admin") && h("button", { type: "button", id: "gc", onclick: () => collect((it) =>
        show(said, it.origin === null ? "Somebody else has just done that." : `${several(it.jobs, "job", "jobs")} collected; the log begins at entry ${it.origin}.`)) }, "Collect ended"),
      mayDo("submit") && h("button", { type: "button", class: "main", id: "submit", onclick: submit }, "Submit a job"));
    const page = await get("/v1/jobs?newest=true");
    show(rows, page.jobs.map(line), page.jobs.length === 0 && h("tr", {}, h("td", { class: "empty", colspan: 4 }, "No jobs yet.")));
    show(more, page.more ? "There are more; these are the newest 1000." : "");
  });
  const stop = listen((what) => { if (what === "cluster") draw(); });
  draw();
  return stop;
}

function taskRow(task) {
  const measured = task.measured;
  const waits = task.queues.map((queue) => `${queue.from || "splits"}: ${count(queue.ready)} + ${count(queue["in-flight"])} in hand`).join(", ");
  const peers = task.peers.length > 6 ? several(task.peers.length, "peer", "peers") : task.peers.join(", ");
  return h("tr", {},
    h("td", {}, h("b", {}, task.id), h("div", { class: "soft" }, [task.kind, task.runs].filter(Boolean).join(" · "))),
    h("td", {}, h("span", { class: `pill ${task.state === "open" && task.peers.length ? "running" : task.state}` }, task.state === "open" ? (task.peers.length ? "runs" : "no peers") : task.state),
      h("div", { class: "id soft" }, peers)),
    h("td", {}, measured ? spark(measured.history, 120, 24) : null, h("div", { class: "soft" }, measured ? `${count(measured["in-per-second"])}/s in, ${count(measured["out-per-second"])}/s out` : "nothing told yet")),
    h("td", { class: "num" }, measured ? count(measured["rows-in"]) : "–"),
    h("td", { class: "num" }, measured ? count(measured["rows-out"]) : "–"),
    h("td", {}, waits || h("span", { class: "soft" }, "–")),
    h("td", {}, measured?.["rows-failed"] > 0 ? h("span", { class: "reason" }, `${count(measured["rows-failed"])} failed`) : h("span", { class: "soft" }, "none"),
      task["dead-letters"] && h("div", { class: "soft" }, `kept in ${task["dead-letters"]}`)));
}

export function job(main, id) {
  const body = h("div", { class: "stack" });
  show(main, h("div", { class: "head" }, h("div", {}, h("h1", { class: "id" }, id))), body);
  const head = main.firstElementChild;
  const draw = calmly(700, async () => {
    let it;
    try { it = await get(`/v1/jobs/${encodeURIComponent(id)}`); } catch (why) {
      return show(body, h("section", { class: "card empty" }, why.message, ". ", h("a", { href: "#/jobs" }, "All jobs")));
    }
    const isLive = it.state === "running" || it.state === "pending";
    show(head,
      h("div", {}, h("h1", { class: "id" }, it.id), h("p", { class: "sub" }, h("span", { class: `pill ${it.state}`, id: "job-state" }, it.state), " ",
        it.name && it.name !== it.id ? `${it.name}, ` : "", `${it.done} of ${it.tasks} tasks done, `, several(it.peers, "peer", "peers"),
        it.submitted !== null && [", submitted at ", h("a", { href: `#/time/${it.submitted}` }, `entry ${it.submitted}`)])),
      isLive && mayDo("submit") && h("button", { type: "button", class: "bad", id: "kill", onclick: () => kill(it.id) }, "Kill"));
    const tasks = it["task-list"];
    show(body,
      it.waiting && h("section", { class: "card" }, h("h2", {}, "Why it waits"), h("p", { class: "why", id: "waiting" }, it.waiting)),
      it.reason && h("section", { class: "card" }, h("h2", {}, "Why it was killed"), h("p", { class: "reason", id: "reason-shown" }, it.reason)),
      it.collected && h("section", { class: "card empty" }, "It was collected; only how it ended is left."),
      tasks.length > 0 && h("section", { class: "card" }, h("h2", {}, "Tasks"), h("div", { class: "graph", tabindex: 0, "aria-label": "The graph of tasks" }, graph(it))),
      tasks.length > 0 && h("section", { class: "card scroll" }, h("h2", { id: "sources" }, `What goes through them, ${whose(it.sources)}`), h("table", {},
        h("thead", {}, h("tr", {}, ["Task", "Peers", "Last minute"].map((word) => h("th", {}, word)), h("th", { class: "num" }, "In"), h("th", { class: "num" }, "Out"), h("th", {}, "Waiting"), h("th", {}, "Errors"))),
        h("tbody", {}, tasks.map(taskRow)))));
  });
  const stop = listen((what) => { if (what === "cluster" || what === "rates") draw(); });
  draw();
  return stop;
}
