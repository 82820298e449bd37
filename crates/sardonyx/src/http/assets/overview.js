// The overview: the cluster in a few numbers, its ring, its jobs, what has just happened.

import { count, h, several, show, whose } from "/assets/dom.js";
import { live, listen } from "/assets/live.js";
import { Ring } from "/assets/ring.js";
import { spark } from "/assets/spark.js";
import { get } from "/assets/api.js";
import { submit } from "/assets/dialogs.js";

function tile(name) {
  const big = h("div", { class: "big" }, "–"), sub = h("div", { class: "sub" }), extra = h("div", {});
  const element = h("section", { class: "card tile", "data-tile": name.toLowerCase() }, h("h2", {}, name), big, sub, extra);
  return { element, set(value, words, drawn) { show(big, value); show(sub, words ?? ""); if (drawn) show(extra, drawn); } };
}

function jobLine(job) {
  const peers = Object.values(job.allocations).flat().length;
  return h("tr", {},
    h("td", {}, h("a", { href: `#/jobs/${encodeURIComponent(job.id)}`, class: "id" }, job.id),
      job.waiting && h("div", { class: "why" }, job.waiting)),
    h("td", {}, h("span", { class: `pill ${job.state}` }, job.state)),
    h("td", { class: "num" }, `${job.completions.length} of ${job.tasks.length}`),
    h("td", { class: "num" }, peers));
}

export function overview(main) {
  const tiles = { peers: tile("Peers"), nodes: tile("Nodes"), jobs: tile("Jobs"), rate: tile("Segments a second") };
  const ring = new Ring();
  const jobs = h("tbody", { id: "jobs-short" }), feed = h("ol", { class: "feed", id: "feed" });
  const sub = h("p", { class: "sub" });
  const send = h("button", { class: "main", type: "button", id: "submit", onclick: submit }, "Submit a job");
  show(main,
    h("div", { class: "head" }, h("div", {}, h("h1", {}, "Overview"), sub), send),
    h("div", { class: "tiles" }, Object.values(tiles).map((it) => it.element)),
    h("div", { class: "two" },
      h("section", { class: "card" }, h("h2", {}, "Ring"), ring.element),
      h("div", { class: "stack" },
        h("section", { class: "card" }, h("h2", {}, "Jobs"), h("div", { class: "scroll" },
          h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Job"), h("th", {}, "State"), h("th", { class: "num" }, "Tasks done"), h("th", { class: "num" }, "Peers"))), jobs))),
        h("section", { class: "card" }, h("h2", {}, "What happens"), feed))));

  const drawCluster = () => {
    const { overview: now, replica } = live;
    if (!now || !replica) return;
    send.hidden = now.role === "read";
    show(sub, `${now["join-protocol"]} joins, ${now["job-scheduler"]} between jobs`);
    const joining = now.joining > 0 ? `, ${now.joining} joining` : "";
    tiles.peers.set(now.peers, `${now.peers - now.idle} at work, ${now.idle} idle${joining}`);
    tiles.jobs.set(now.jobs.running, `${several(now.jobs.pending, "waits", "wait")}, ${now.jobs.completed} completed, ${now.jobs.killed} killed`);
    ring.draw(replica, true);
    const newest = [...replica.jobs].reverse();
    const rank = { running: 0, pending: 1, completed: 2, killed: 2 };
    newest.sort((a, b) => rank[a.state] - rank[b.state]);
    show(jobs, newest.slice(0, 8).map(jobLine), newest.length === 0 && h("tr", {}, h("td", { class: "empty", colspan: 4 }, "No jobs yet.")));
  };
  const drawRates = () => {
    const rates = live.rates ?? live.overview;
    if (rates) tiles.rate.set(count(rates["in-per-second"]), whose(rates.sources), spark(rates.history ?? []));
  };
  const drawFeed = () => show(feed,
    live.news.slice(0, 30).map((it) => h("li", {}, h("span", { class: "at" }, it.at ?? ""), h("span", { class: it.kind }, it.text))),
    live.news.length === 0 && h("li", { class: "empty" }, "Nothing since you came."));
  const drawNodes = async () => {
    try {
      const { nodes } = await get("/v1/nodes");
      tiles.nodes.set(nodes.length, nodes.slice(0, 2).map((node) => node.about?.label ?? node.name).join(", "));
    } catch (why) { tiles.nodes.set("?", why.message); }
  };
  const nodesTimer = setInterval(drawNodes, 5000);
  const stop = listen((what) => {
    if (what === "cluster") drawCluster();
    else if (what === "rates") drawRates();
    else if (what?.diff) drawFeed();
  });
  drawCluster(); drawRates(); drawFeed(); drawNodes();
  return () => { stop(); clearInterval(nodesTimer); };
}
