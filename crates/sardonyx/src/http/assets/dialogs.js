// Questions to the person: submit a job, kill one, collect what is over, log in.

import { ask, post } from "/assets/api.js";
import { h, show } from "/assets/dom.js";

function open(title, words, parts, actions) {
  const faults = h("ul", { class: "faults", role: "alert" });
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h("form", { method: "dialog" }, h("h1", {}, title), words && h("p", { class: "soft" }, words), parts, faults,
    h("div", { class: "actions" }, cancel, actions));
  const dialog = h("dialog", {}, form);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  const refuse = (why) => show(faults,
    h("li", {}, why.message, why.advice && `: ${why.advice}`),
    (why.faults ?? []).map((fault) => h("li", {}, h("code", {}, fault.place || "job"), ` ${fault.what}`)));
  return { dialog, form, refuse, clear: () => show(faults) };
}

/** Asks before doing something that cannot be taken back. */
export function confirm(title, words, verb, work, parts) {
  const go = h("button", { class: "main", type: "submit", id: "confirm" }, verb);
  const { dialog, form, refuse } = open(title, words, parts, go);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    try { await work(); dialog.close(); } catch (why) { refuse(why); go.disabled = false; }
  });
}

export function kill(job) {
  const reason = h("input", { id: "reason", placeholder: "for whoever reads the log", maxlength: 1000 });
  confirm(`Kill ${job}?`, "It ends now and its peers are freed. What was committed stays. This cannot be taken back.", "Kill it",
    () => post(`/v1/jobs/${encodeURIComponent(job)}/kill`, { reason: reason.value }), h("label", {}, "Why", reason));
}

export function collect(done) {
  confirm("Collect what is over?", "Ended jobs are forgotten, the cluster is stored as it is, and the log before it is trimmed.", "Collect",
    async () => done(await post("/v1/gc", {})));
}

const EXAMPLE = `name = "nap"
workflow = [["in", "out"]]

[catalog.in]
type = "input"
plugin = "wait"
for = "20s"

[catalog.out]
type = "output"
plugin = "wait"
for = "2s"
`;

export function submit() {
  const text = h("textarea", { id: "job-text", rows: 16, spellcheck: "false", "aria-label": "The job, in TOML or JSON", value: EXAMPLE });
  const id = h("input", { id: "job-id", placeholder: "left out: its name and a few letters", maxlength: 200 });
  const kind = () => (text.value.trimStart().startsWith("{") ? "application/json" : "application/toml");
  const send = (query) => post(ask("/v1/jobs", query), text.value, kind());
  const check = h("button", { type: "button", id: "check" }, "Check");
  const go = h("button", { class: "main", type: "submit", id: "send" }, "Submit");
  const well = h("p", { class: "soft", role: "status" });
  const parts = [h("label", {}, "Job, in TOML or JSON", text), h("label", {}, "Id", id), well];
  const { dialog, form, refuse, clear } = open("Submit a job", "It is checked whole before anything runs.", parts, [check, go]);
  check.addEventListener("click", async () => {
    clear(); show(well);
    try { const { tasks } = await send({ check: true }); show(well, `No faults. Tasks: ${tasks.join(", ")}`); } catch (why) { refuse(why); }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clear(); show(well);
    try {
      const taken = await send({ id: id.value.trim() });
      dialog.close();
      location.hash = `#/jobs/${encodeURIComponent(taken.id)}`;
    } catch (why) { refuse(why); }
  });
}

export function login(done) {
  const token = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  confirm("Who are you?", "This server wants a token, as `sardonyx token` prints it.", "Log in",
    async () => { await post("/v1/login", { token: token.value.trim() }); done(); }, h("label", {}, "Token", token));
}
