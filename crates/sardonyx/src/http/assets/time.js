// Time: the cluster as it was at any position of the log, and the difference between two.

import { ask, get } from "/assets/api.js";
import { h, show } from "/assets/dom.js";
import { live, listen } from "/assets/live.js";
import { Ring } from "/assets/ring.js";

const AROUND = 12;

function chips(names, kind) {
  const shown = names.slice(0, 40).map((name) => h("span", { class: `chip ${kind}` }, name));
  return [shown, names.length > 40 && h("span", { class: "soft" }, `and ${names.length - 40} more`)];
}

function arrow(changes, words) {
  return Object.entries(changes ?? {}).map(([key, { from, to }]) => `${key}: ${words(from)} → ${words(to)}`);
}

function settings(diff) {
  const names = ["join-protocol", "job-scheduler", "limits", "origin"].filter((name) => diff[name]);
  return Object.fromEntries(names.map((name) => [name, diff[name]]));
}

/** A difference, for people. */
export function differences(diff) {
  const text = (value) => (value === null || value === undefined ? "–" : typeof value === "object" ? Object.values(value).join(" ") : String(value));
  const parts = [
    ["Joined", diff.peers?.joined ?? [], "plus"],
    ["Left", diff.peers?.left ?? [], "minus"],
    ["Jobs", arrow(diff.jobs, text), ""],
    ["Tasks done", (diff.completions ?? []).map(({ job, task }) => `${task} of ${job}`), "plus"],
    ["Who runs what", arrow(diff.assignments, (it) => (it ? `${it.task} of ${it.job}` : "idle")), ""],
    ["Who watches whom", arrow(diff.pairs, text), ""],
    ["Joins, first phase", arrow(diff.prepared, text), ""],
    ["Joins, last phase", arrow(diff.accepted, text), ""],
    ["Who seals", (diff.sealing ?? []).map(({ job, task, from, to }) => `${task} of ${job}: ${text(from)} → ${text(to)}`), ""],
    ["Settings", arrow(settings(diff), text), ""],
    ["Outcomes", arrow(diff.outcomes, text), ""],
  ].filter(([, names]) => names.length > 0);
  if (parts.length === 0) return h("p", { class: "empty" }, "Nothing changed.");
  return h("dl", { class: "diff" }, parts.map(([name, names, kind]) => h("div", {}, h("dt", {}, `${name} (${names.length})`), h("dd", {}, chips(names, kind)))));
}

function entryRow(entry, here) {
  const args = JSON.stringify(entry.args ?? {});
  return h("tr", { class: entry.id === here ? "here" : "" },
    h("td", {}, h("a", { class: "mono", href: `#/time/${entry.id}` }, entry.id)),
    h("td", { class: entry.applied ? "" : "no" }, entry.fn ?? "cannot be read"),
    h("td", { class: "args" }, args.length > 220 ? `${args.slice(0, 219)}…` : args,
      entry.rejected && h("div", {}, h("span", { class: "pill rejected" }, "rejected"), " ", entry.rejected)));
}

export function time(main, wanted) {
  let at = wanted === undefined ? null : Number(wanted);
  let asking = null;
  const ring = new Ring();
  const position = h("b", { id: "position" }, "–"), words = h("span", { class: "soft", id: "position-words" });
  const slider = h("input", { type: "range", id: "slider", min: 0, max: 0, step: 1, "aria-label": "Position in the log" });
  const number = h("input", { type: "number", id: "at", class: "narrow", min: 0, "aria-label": "Go to a position" });
  const first = h("span", {}), last = h("span", {});
  const from = h("input", { type: "number", id: "from", class: "narrow", min: 0, "aria-label": "Compare with this position" });
  const difference = h("div", { id: "difference" }), entries = h("tbody", { id: "entries" }), jobs = h("div", { id: "jobs-then" });
  const step = (by) => go(Math.max(Number(slider.min), Math.min(Number(slider.max), current() + by)));
  const button = (id, label, text, work) => h("button", { type: "button", id, "aria-label": label, onclick: work }, text);
  show(main,
    h("div", { class: "head" }, h("div", {}, h("h1", {}, "Time"), h("p", { class: "sub" }, "The cluster is a value: every position of the log has one."))),
    h("section", { class: "card timebar" },
      h("div", { class: "where" }, position, words),
      h("div", {}, slider, h("div", { class: "ends" }, first, last)),
      h("div", { class: "row" }, button("back", "One entry back", "◀", () => step(-1)), button("forth", "One entry on", "▶", () => step(1)),
        button("now", "As it is now", "Now", () => go(null)), number,
        h("span", { class: "soft" }, "compared with"), from, button("compare", "Show the difference", "Compare", () => compare()))),
    h("div", { class: "two spaced" },
      h("section", { class: "card" }, h("h2", {}, "The ring then"), ring.element, jobs),
      h("div", { class: "stack" },
        h("section", { class: "card" }, h("h2", { id: "difference-title" }, "What the entry changed"), difference),
        h("section", { class: "card scroll" }, h("h2", {}, "Log"), h("table", { class: "entries" }, entries)))));

  const current = () => at ?? live.position ?? 0;
  const fail = (why) => { if (why.name !== "AbortError") show(words, h("span", { class: "reason" }, `${why.message}${why.advice ? `: ${why.advice}` : ""}`)); };

  function bounds() {
    const low = live.first ?? 0, high = live.position ?? 0;
    slider.min = low; slider.max = high;
    if (document.activeElement !== slider || at === null) slider.value = current();
    show(first, low); show(last, high);
  }

  async function draw() {
    asking?.abort();
    const mine = (asking = new AbortController());
    const here = current();
    const options = { signal: mine.signal };
    show(position, `Entry ${here}`);
    if (document.activeElement !== number) number.value = here;
    try {
      const before = Math.max(live.first ?? 0, here - 1);
      const [then, diff, page] = await Promise.all([
        get(ask("/v1/replica", { at: here }), options),
        get(ask("/v1/diff", { from: before, to: here }), options),
        get(ask("/v1/log", { before: here + AROUND / 2, limit: AROUND }), options),
      ]);
      ring.draw(then.replica, false);
      show(words, at === null ? "now" : `of ${live.position}`);
      main.dataset.shown = String(here);
      show(document.getElementById("difference-title") ?? h("i"), `What entry ${here} changed`);
      show(difference, differences(diff.diff));
      show(entries, page.entries.reverse().map((entry) => entryRow(entry, here)));
      show(jobs, then.replica.jobs.length > 0 && h("p", { class: "legend" },
        then.replica.jobs.slice(-6).map((job) => h("span", {}, h("span", { class: `pill ${job.state}` }, job.state), job.id))));
    } catch (why) { fail(why); }
  }

  async function compare() {
    try {
      const [one, other] = [Number(from.value), current()];
      const { diff } = await get(ask("/v1/diff", { from: one, to: other }));
      show(document.getElementById("difference-title"), `From ${one} to ${other}`);
      show(difference, differences(diff));
    } catch (why) { fail(why); }
  }

  function go(to) {
    at = to;
    history.replaceState(null, "", to === null ? "#/time" : `#/time/${to}`);
    bounds();
    draw();
  }

  slider.addEventListener("input", () => { at = Number(slider.value); bounds(); draw(); });
  slider.addEventListener("change", () => history.replaceState(null, "", `#/time/${at}`));
  number.addEventListener("change", () => go(Number(number.value)));
  from.addEventListener("change", compare);
  const stop = listen((what) => {
    if (what !== "cluster") return;
    bounds();
    if (at === null || main.dataset.shown === undefined) draw();
  });
  delete main.dataset.shown;
  if (live.position !== null) { bounds(); draw(); }
  return () => { stop(); asking?.abort(); delete main.dataset.shown; };
}
