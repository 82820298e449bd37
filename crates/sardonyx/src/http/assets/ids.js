// Worker numbers: who makes ids with which.

import { get } from "/assets/api.js";
import { h, show } from "/assets/dom.js";

function row(it) {
  const left = it["mark-minus-now-ms"];
  return h("tr", {},
    h("td", { class: "num" }, it.number),
    h("td", {}, h("span", { class: `pill ${it.state}` }, it.state)),
    h("td", {}, it.owner ?? h("span", { class: "soft" }, "nobody")),
    h("td", {}, it.since ? new Date(it.since).toLocaleString() : ""),
    h("td", { class: "num" }, left === null ? "never used" : `${(left / 1000).toFixed(1)} s`),
    h("td", { class: "num" }, `${it["clock-offset-ms"]} ms`));
}

export function ids(main) {
  const rows = h("tbody", { id: "workers" }), floor = h("p", { class: "sub" });
  show(main,
    h("div", { class: "head" }, h("div", {}, h("h1", {}, "Ids"), floor)),
    h("section", { class: "card scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { class: "num" }, "Number"), ["State", "Held by", "Since"].map((word) => h("th", {}, word)), h("th", { class: "num" }, "May make ids for"), h("th", { class: "num" }, "Clock ahead"))), rows)));
  const draw = async () => {
    try {
      const it = await get("/v1/ids");
      show(floor, it.floor === null ? "Worker numbers: ten bits of every id that say who made it." : `No ids from before ${new Date(it.floor).toLocaleString()}.`);
      show(rows, it.workers.map(row), it.workers.length === 0 && h("tr", {}, h("td", { class: "empty", colspan: 6 }, "Nobody has made ids yet.")));
    } catch (why) { show(rows, h("tr", {}, h("td", { class: "reason" }, why.message))); }
  };
  const timer = setInterval(draw, 2000);
  draw();
  return () => clearInterval(timer);
}
