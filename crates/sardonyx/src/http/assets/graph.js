// A job as a graph: tasks in layers from left to right, with what goes through them.

import { count, s, several } from "/assets/dom.js";

const BOX = { width: 196, height: 104 }, GAP = { x: 66, y: 22 }, EDGE = 6;

/** Which layer each task stands in: one behind the last of those before it. */
export function layers(tasks, edges) {
  const depth = new Map(tasks.map((task) => [task, 0]));
  for (let round = 0; round < tasks.length; round += 1) {
    let moved = false;
    for (const [from, to] of edges) {
      const wanted = (depth.get(from) ?? 0) + 1;
      if (depth.has(to) && depth.get(to) < wanted) { depth.set(to, wanted); moved = true; }
    }
    if (!moved) break;
  }
  const rows = [];
  for (const task of tasks) (rows[depth.get(task)] ??= []).push(task);
  return rows.filter(Boolean);
}

function place(tasks, edges) {
  const columns = layers(tasks, edges);
  const tallest = Math.max(...columns.map((column) => column.length), 1);
  const height = tallest * (BOX.height + GAP.y) - GAP.y + 2 * EDGE;
  const spots = new Map();
  columns.forEach((column, index) => {
    const free = height - 2 * EDGE - (column.length * (BOX.height + GAP.y) - GAP.y);
    column.forEach((task, row) => spots.set(task, {
      x: EDGE + index * (BOX.width + GAP.x), y: EDGE + free / 2 + row * (BOX.height + GAP.y),
    }));
  });
  return { spots, width: columns.length * (BOX.width + GAP.x) - GAP.x + 2 * EDGE, height };
}

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function box(task, { x, y }) {
  const measured = task.measured;
  const waiting = task.queues.reduce((sum, queue) => sum + queue.ready + queue["in-flight"], 0);
  const kind = task.state === "done" ? "done" : measured?.["rows-failed"] > 0 ? "failing" : task.peers.length === 0 ? "idle" : "";
  const text = (dy, words, style) => s("text", { x: x + 15, y: y + dy, class: style }, words);
  const end = (dy, words, style) => s("text", { x: x + BOX.width - 15, y: y + dy, class: style, "text-anchor": "end" }, words);
  const rate = measured ? Math.max(measured["in-per-second"], measured["out-per-second"]) : 0;
  const total = measured ? Math.max(measured["rows-in"], measured["rows-out"]) : 0;
  const status = task.state === "done" ? ["done", "good"] : task.state === "sealing" ? ["sealing", "warn"] : [several(task.peers.length, "peer", "peers"), ""];
  return s("g", { "data-task": task.id },
    s("title", {}, `${task.id}: ${task.peers.join(", ") || "no peers"}`),
    s("rect", { class: `box ${kind}`, x, y, width: BOX.width, height: BOX.height, rx: 13 }),
    text(27, short(task.id, 17), "name"), end(27, status[0], status[1]),
    text(46, short([task.kind, task.runs].filter(Boolean).join(" · "), 26)),
    text(71, measured ? `${count(rate)}/s` : task.peers.length > 0 ? "nothing told yet" : "–", "rate"), end(71, total ? `${count(total)} segments` : ""),
    text(90, waiting > 0 ? `${count(waiting)} waiting` : "nothing waits"),
    measured?.["rows-failed"] > 0 && end(90, `${count(measured["rows-failed"])} failed`, "bad"));
}

/** The drawing of a job. */
export function graph(job) {
  const tasks = job["task-list"];
  const { spots, width, height } = place(tasks.map((task) => task.id), job.edges);
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const lines = job.edges.filter(([from, to]) => spots.has(from) && spots.has(to)).map(([from, to]) => {
    const a = spots.get(from), b = spots.get(to);
    const [x1, y1, x2, y2] = [a.x + BOX.width, a.y + BOX.height / 2, b.x, b.y + BOX.height / 2];
    const bend = Math.max(30, (x2 - x1) / 2);
    const flows = byId.get(to).measured?.["in-per-second"] > 0;
    return s("path", { class: `edge ${flows ? "flows" : ""}`, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
  });
  return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `The tasks of ${job.id}` },
    lines, tasks.map((task) => box(task, spots.get(task.id))));
}
