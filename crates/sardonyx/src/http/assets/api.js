// Speaking with the server: one way to ask, one way to fail.

export class Refused extends Error {
  constructor(status, answer) {
    super(answer.what ?? "the server did not say why");
    this.status = status;
    this.code = answer.code ?? "unknown";
    this.advice = answer.do ?? "";
    this.faults = answer.faults ?? [];
  }
}

async function read(response) {
  const text = await response.text();
  let answer = {};
  try { answer = JSON.parse(text); } catch { answer = { what: text || response.statusText }; }
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}

export async function get(path, options) {
  return read(await fetch(path, { ...options, headers: { accept: "application/json" } }));
}

export async function post(path, body, kind = "application/json") {
  const sent = kind === "application/json" && typeof body !== "string" ? JSON.stringify(body ?? {}) : body;
  return read(await fetch(path, { method: "POST", body: sent, headers: { "content-type": kind } }));
}

/** A path with what is asked of it. */
export function ask(path, query) {
  const parts = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(parts).toString();
  return text ? `${path}?${text}` : path;
}
