// The ring, drawn: peers in the order in which they watch each other, joiners outside it, and the
// ghosts of those who have just left.

import { colour, h, s, several, show } from "/assets/dom.js";

const SIZE = 480, CENTRE = SIZE / 2, RADIUS = 200;
const DOTS_MAX = 96, TICKS_MAX = 1440, GHOST_MS = 2600;

/** The peers as the ring leads through them. */
export function order(replica) {
  const [first] = replica.peers ?? [];
  const found = [], seen = new Set();
  for (let at = first; at !== undefined && !seen.has(at); at = replica.pairs[at]) {
    seen.add(at);
    found.push(at);
  }
  const rest = (replica.peers ?? []).filter((peer) => !seen.has(peer));
  return { found, rest };
}

/** What each peer runs: peer to [job, task]. */
export function work(replica) {
  const runs = new Map();
  for (const job of replica.jobs ?? []) {
    for (const [task, peers] of Object.entries(job.allocations)) {
      for (const peer of peers) runs.set(peer, [job.id, task]);
    }
  }
  return runs;
}

/** Who is being stitched in, and at whom. */
function joiners(replica) {
  const inRing = new Set(replica.peers);
  return [...Object.entries(replica.prepared ?? {}), ...Object.entries(replica.accepted ?? {})]
    .map(([one, other]) => (inRing.has(one) ? { anchor: one, joiner: other } : { anchor: other, joiner: one }));
}

const at = (angle, radius) => [CENTRE + radius * Math.sin(angle), CENTRE - radius * Math.cos(angle)];

export class Ring {
  constructor() {
    this.places = new Map();
    this.known = null;
    this.track = s("circle", { class: "track", cx: CENTRE, cy: CENTRE, r: RADIUS });
    this.peers = s("g", {});
    this.outside = s("g", {});
    this.ghosts = s("g", {});
    this.count = s("text", { class: "count", x: CENTRE, y: CENTRE + 6 });
    this.words = s("text", { class: "words", x: CENTRE, y: CENTRE + 32 });
    this.title = s("title", {}, "The ring of peers");
    this.drawing = s("svg", { class: "ring", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img" },
      this.title, this.track, this.peers, this.outside, this.ghosts, this.count, this.words);
    this.legend = h("div", { class: "legend" });
    this.element = h("div", {}, this.drawing, this.legend);
  }

  /** Draws a cluster. With `isLive`, those who are new or gone since the last one are shown as such. */
  draw(replica, isLive) {
    const { found, rest } = order(replica);
    const all = [...found, ...rest];
    // In the order of submission, whoever looks first.
    for (const job of replica.jobs ?? []) colour(job.id);
    const runs = work(replica);
    const arrived = (peer) => isLive && this.known !== null && !this.known.has(peer);
    const places = new Map(all.map((peer, index) => [peer, (index / all.length) * 2 * Math.PI]));
    if (isLive && this.known !== null) this.haunt(places);
    show(this.peers, all.length <= DOTS_MAX ? this.dots(all, places, runs, arrived) : this.ticks(all, runs));
    show(this.outside, joiners(replica).slice(0, DOTS_MAX).map(({ anchor, joiner }) => {
      const [x, y] = at((places.get(anchor) ?? 0) + 0.03, RADIUS + 25);
      return s("circle", { class: "joiner", cx: x, cy: y, r: 7, "data-joiner": joiner }, s("title", {}, `${joiner} is joining`));
    }));
    this.places = places;
    this.known = new Set(all);
    this.speak(replica, all, rest, runs);
  }

  dots(all, places, runs, arrived) {
    const radius = Math.max(4.5, Math.min(13, 470 / Math.max(all.length, 1)));
    return all.map((peer) => {
      const [x, y] = at(places.get(peer), RADIUS);
      const does = runs.get(peer);
      const kind = `peer ${does ? colour(does[0]) : ""} ${arrived(peer) ? "new" : ""}`;
      const words = does ? `${peer}: ${does[1]} of ${does[0]}` : `${peer}: idle`;
      return s("circle", { class: kind, cx: x.toFixed(1), cy: y.toFixed(1), r: radius.toFixed(1), "data-peer": peer }, s("title", {}, words));
    });
  }

  /** Many peers: a line for each, or for a few neighbours together, in the colour of most of them. */
  ticks(all, runs) {
    const n = Math.min(all.length, TICKS_MAX);
    const width = Math.max(1, ((2 * Math.PI * RADIUS) / n) * 0.82);
    const lines = [];
    for (let index = 0; index < n; index += 1) {
      const group = all.slice(Math.floor((index * all.length) / n), Math.floor(((index + 1) * all.length) / n));
      const votes = new Map();
      for (const peer of group) {
        const job = runs.get(peer)?.[0];
        votes.set(job, (votes.get(job) ?? 0) + 1);
      }
      const [job] = [...votes].sort((a, b) => b[1] - a[1])[0];
      const angle = (index / n) * 2 * Math.PI;
      const [x1, y1] = at(angle, RADIUS - 13), [x2, y2] = at(angle, RADIUS + 13);
      lines.push(s("line", {
        class: `tick ${job === undefined ? "" : colour(job)}`, x1: x1.toFixed(1), y1: y1.toFixed(1), x2: x2.toFixed(1), y2: y2.toFixed(1),
        "stroke-width": width.toFixed(2), "data-peer": group[0],
      }));
    }
    return lines;
  }

  haunt(places) {
    for (const peer of this.known) {
      if (places.has(peer)) continue;
      const [x, y] = at(this.places.get(peer) ?? 0, RADIUS);
      const ghost = s("circle", { class: "ghost", cx: x, cy: y, r: 9, "data-ghost": peer });
      this.ghosts.append(ghost);
      setTimeout(() => ghost.remove(), GHOST_MS);
    }
  }

  speak(replica, all, rest, runs) {
    show(this.count, String(all.length));
    const isWhole = rest.length === 0;
    const words = all.length === 0 ? "no peers" : isWhole ? `${all.length === 1 ? "peer" : "peers in one ring"}` : "not one ring";
    this.words.setAttribute("class", isWhole ? "words" : "words bad");
    show(this.words, words);
    show(this.title, `${several(all.length, "peer", "peers")}, ${runs.size} at work`);
    const jobs = new Map();
    for (const [job] of runs.values()) jobs.set(job, (jobs.get(job) ?? 0) + 1);
    const top = [...jobs].sort((a, b) => b[1] - a[1]).slice(0, 8);
    const swatch = (kind) => s("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, s("circle", { class: kind, cx: 5, cy: 5, r: 5 }));
    const idle = all.length - runs.size;
    show(this.legend,
      top.map(([job, n]) => h("span", {}, swatch(colour(job)), `${job} · ${n}`)),
      idle > 0 && h("span", {}, swatch("swatch-idle"), `idle · ${idle}`));
  }
}
