// What the page knows: the overview, the cluster now, and what has just happened.

import { get } from "/assets/api.js";
import { calmly } from "/assets/dom.js";

export const live = {
  overview: null,
  replica: null,
  position: null,
  first: null,
  rates: null,
  news: [],
};

const listeners = new Set();

/** Calls `hear` whenever something changed; gives back what stops that. */
export function listen(hear) {
  listeners.add(hear);
  return () => listeners.delete(hear);
}

function tell(what) {
  for (const hear of listeners) hear(what);
}

export const refresh = calmly(400, async () => {
  try {
    const [overview, now] = await Promise.all([get("/v1/overview"), get("/v1/replica")]);
    live.overview = overview;
    live.replica = now.replica;
    live.position = now.position;
    live.first = now.first;
    tell("cluster");
  } catch (why) {
    tell(why);
  }
});

const NEWS_MAX = 60;

function note(change) {
  const { diff, to } = change;
  const add = (kind, text) => live.news.unshift({ at: to, kind, text });
  const few = (names) => (names.length > 4 ? `${names.length} peers` : names.join(", "));
  const { joined = [], left = [] } = diff.peers ?? {};
  if (joined.length) add("joined", `${few(joined)} joined`);
  if (left.length) add("left", `${few(left)} left`);
  for (const [job, { from, to: state }] of Object.entries(diff.jobs ?? {})) {
    if (state === null) add("job", `${job} was collected`);
    else if (from === null) add("job", `${job} was submitted`);
    else add("job", `${job} is ${state}`);
  }
  for (const { job, task } of diff.completions ?? []) add("job", `${task} of ${job} is done`);
  live.news.length = Math.min(live.news.length, NEWS_MAX);
}

/** Follows the cluster; comes back by itself when the connection is lost. */
export function follow(onState) {
  const source = new EventSource("/v1/events");
  source.addEventListener("begin", () => { onState("on"); refresh(); });
  source.addEventListener("change", (event) => {
    const change = JSON.parse(event.data);
    live.position = change.to;
    live.first = change.first;
    note(change);
    tell(change);
    refresh();
  });
  source.addEventListener("rates", (event) => {
    live.rates = JSON.parse(event.data);
    tell("rates");
  });
  source.onerror = () => {
    onState("off");
    // The browser tries again by itself unless it was refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(onState), 3000);
    refresh();
  };
}
