// Nodes, their peers, and the mesh: its members and its leader.

import { get } from "/assets/api.js";
import { h, show } from "/assets/dom.js";
import { live, listen } from "/assets/live.js";
import { work } from "/assets/ring.js";

const PEERS_SHOWN = 400;

function member(row, leader) {
  return h("tr", {},
    h("td", {}, h("span", { class: "id" }, row.address), h("div", { class: "soft" }, row.name)),
    h("td", {}, row.address === leader ? h("span", { class: "pill leader" }, "leader") : h("span", { class: `pill ${row.status}` }, row.status)),
    h("td", {}, [row.seed && "seed", row.votes && "votes", row.observer && "observer"].filter(Boolean).join(", ")),
    h("td", { class: "num" }, row.incarnation));
}

function meshPart(mesh) {
  if (mesh === null) return h("p", { class: "empty" }, "This node is in no mesh.");
  const leader = mesh.leader?.address;
  return [
    h("p", {}, leader ? [`Version ${mesh.version} is led by `, h("span", { class: "id", id: "leader" }, leader), mesh.leader.quality ? ` (${mesh.leader.quality})` : ""] : "No leader is known.",
      h("span", { class: "soft" }, ` This node is ${mesh.phase}.`)),
    h("table", {}, h("thead", {}, h("tr", {}, ["Member", "Status", "Part"].map((word) => h("th", {}, word)), h("th", { class: "num" }, "Incarnation"))),
      h("tbody", {}, mesh.members.map((row) => member(row, leader)))),
    mesh.suspicions.map((it) => h("p", { class: "why" }, `${it.observer} suspects ${it.suspect}: ${it.reason}`)),
  ];
}

// What a node says of its process; only nodes in a mesh hear it from each other.
function loadOf(card) {
  if (!card?.life) return "";
  return `${card.load["cpu-percent"]} %, ${Math.round(card.load["memory-bytes"] / 2 ** 20)} MiB`;
}

export function nodes(main) {
  const list = h("tbody", { id: "nodes" }), mesh = h("div", { id: "mesh", class: "stack" }), peers = h("tbody", { id: "peers" }), more = h("p", { class: "soft" });
  show(main,
    h("div", { class: "head" }, h("div", {}, h("h1", {}, "Nodes"), h("p", { class: "sub" }, "A node is a process; its peers take part in the ring."))),
    h("div", { class: "two" },
      h("div", { class: "stack" },
        h("section", { class: "card scroll" }, h("h2", {}, "Living nodes"), h("table", {},
          h("thead", {}, h("tr", {}, h("th", {}, "Node"), h("th", {}, "Says"), h("th", { class: "num" }, "Peers in"), h("th", { class: "num" }, "Load"), h("th", { class: "num" }, "Number"))), list)),
        h("section", { class: "card scroll" }, h("h2", {}, "Mesh"), mesh)),
      h("section", { class: "card scroll" }, h("h2", {}, "Peers"), h("table", {},
        h("thead", {}, h("tr", {}, h("th", {}, "Peer"), h("th", {}, "Runs"), h("th", { class: "wide" }, "Watches"))), peers), more)));
  const drawNodes = async () => {
    try {
      const { nodes: all } = await get("/v1/nodes");
      show(list, all.map((node) => h("tr", {}, h("td", { class: "id" }, node.name), h("td", {}, node.about?.label ?? ""), h("td", { class: "num" }, `${node.members} of ${node.about?.peers ?? "?"}`),
        h("td", { class: "num" }, loadOf(node.card)), h("td", { class: "num" }, node.card?.worker ?? ""))),
        all.length === 0 && h("tr", {}, h("td", { class: "empty", colspan: 5 }, "No node says that it lives.")));
    } catch (why) { show(list, h("tr", {}, h("td", { class: "reason" }, why.message))); }
    try { show(mesh, meshPart(await get("/v1/mesh"))); } catch (why) { show(mesh, why.status === 404 ? meshPart(null) : h("p", { class: "reason" }, why.message)); }
  };
  const drawPeers = () => {
    if (!live.replica) return;
    const runs = work(live.replica);
    show(peers, live.replica.peers.slice(0, PEERS_SHOWN).map((peer) => {
      const does = runs.get(peer);
      return h("tr", {}, h("td", { class: "id" }, peer),
        h("td", {}, does ? [does[1], " of ", h("a", { href: `#/jobs/${encodeURIComponent(does[0])}`, class: "id" }, does[0])] : h("span", { class: "soft" }, "idle")),
        h("td", { class: "id soft wide" }, live.replica.pairs[peer] ?? "nobody"));
    }));
    const left = live.replica.peers.length - PEERS_SHOWN;
    show(more, left > 0 ? `and ${left} more` : "");
  };
  const stop = listen((what) => { if (what === "cluster") drawPeers(); });
  const timer = setInterval(drawNodes, 3000);
  drawNodes(); drawPeers();
  return () => { stop(); clearInterval(timer); };
}
