// The page: which view is shown, whether we are connected, what went wrong.

import { get } from "/assets/api.js";
import { h, show } from "/assets/dom.js";
import { follow, listen, live } from "/assets/live.js";
import { login } from "/assets/dialogs.js";
import { overview } from "/assets/overview.js";
import { job, jobs } from "/assets/jobs.js";
import { time } from "/assets/time.js";
import { nodes } from "/assets/nodes.js";
import { ids } from "/assets/ids.js";

const main = document.getElementById("main");
const notice = document.getElementById("notice");
let leave = () => {};

function route() {
  leave();
  show(notice); notice.hidden = true;
  const [, view = "", ...rest] = location.hash.replace(/^#/, "").split("/");
  const argument = rest.length > 0 ? decodeURIComponent(rest.join("/")) : undefined;
  const views = {
    "": [overview, "overview"], jobs: [argument === undefined ? jobs : job, "jobs"], time: [time, "time"], nodes: [nodes, "nodes"], ids: [ids, "ids"],
  };
  const [draw, name] = views[view] ?? views[""];
  main.dataset.view = argument !== undefined && view === "jobs" ? "job" : name;
  for (const link of document.querySelectorAll("[data-nav]")) {
    if (link.dataset.nav === name) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  document.title = `${name[0].toUpperCase()}${name.slice(1)} · Sardonyx`;
  leave = draw(main, argument) ?? (() => {});
}

function complain(why) {
  if (why.status === 401) return askWho();
  notice.hidden = false;
  show(notice, h("b", {}, why.message), why.advice ? ` ${why.advice}` : "");
}

let isAsking = false;
function askWho() {
  if (isAsking) return;
  isAsking = true;
  login(() => location.reload());
}

function state(is) {
  const element = document.getElementById("live");
  element.className = `live ${is}`;
  show(document.getElementById("live-text"), is === "on" ? "live" : "connection lost");
}

function foot() {
  const now = live.overview;
  if (!now) return;
  show(document.getElementById("foot-cluster"), `${now.cluster} · answered by ${now.node} · version ${now.version}`);
  show(document.getElementById("foot-position"), live.position === null ? "before the first entry" : `entry ${live.position}`);
}

function theme() {
  const root = document.documentElement;
  const kept = localStorage.getItem("theme");
  if (kept) root.dataset.theme = kept;
  document.getElementById("theme").addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  });
}

const KEYS = { o: "#/", j: "#/jobs", t: "#/time", n: "#/nodes", i: "#/ids" };
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select, dialog");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  location.hash = KEYS[event.key];
});

listen((what) => {
  if (what instanceof Error) return complain(what);
  if (what === "cluster") { notice.hidden = true; foot(); }
  if (what?.diff) {
    foot();
    const [newest] = live.news;
    if (newest?.at === what.to) show(document.getElementById("announce"), newest.text);
  }
});

theme();
window.addEventListener("hashchange", route);
route();
get("/v1/overview").then(() => follow(state), complain);
