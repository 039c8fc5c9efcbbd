// The mesh as a picture, and the same as a table.
import { age, draw, make, several, table } from "./make.js";

const MOST_ENGINES = 32; // more are not drawn

const linked = (member) => member.link === "up" || member.link === "self";

function readersOf(stream) {
  return stream.readers.split(",").filter((name) => name !== "");
}

function nodesAt(members) {
  const spots = new Map();
  members.forEach((member, i) => {
    const turn = 2 * Math.PI * i / members.length - Math.PI / 2;
    const one = members.length === 1;
    spots.set(member.name, [200 + (one ? 0 : 120) * Math.cos(turn), 85 + (one ? 0 : 55) * Math.sin(turn)]);
  });
  return spots;
}

function picture(status) {
  const members = status.members;
  const streams = status.streams ?? [];
  const spots = nodesAt(members);
  const self = spots.get(status.node);
  const engines = [...new Set(streams.map((stream) => stream.worker))];
  const shown = engines.length <= MOST_ENGINES ? engines : [];
  const engineAt = (id) => [400 * (shown.indexOf(id) + 0.5) / shown.length, 225];
  const path = (from, to, kind) => draw("path", { d: `M${from}L${to}`, class: kind });
  const reads = streams.filter((stream) => shown.includes(stream.worker)).flatMap((stream) =>
    readersOf(stream).filter((name) => spots.has(name)).map((name) =>
      path(spots.get(name), engineAt(stream.worker), "reads")));
  const links = members.filter((member) => member.link !== "self").map((member) =>
    path(self, spots.get(member.name), linked(member) ? undefined : "down"));
  return draw("svg", { viewBox: `0 0 400 ${shown.length > 0 ? 245 : 160}`, role: "img",
    "aria-label": `${several(members.length, "node")} and the engines whose events they read; the table tells the same` },
    ...reads, ...links,
    ...shown.map((id) => {
      const [left, top] = engineAt(id);
      return draw("rect", { x: left - 4, y: top - 4, width: 8, height: 8 }, draw("title", {}, id));
    }),
    ...members.flatMap((member) => {
      const [left, top] = spots.get(member.name);
      const kind = member.state !== "alive" ? "gone" : member.link === "self" ? "self" : "";
      return [draw("circle", { cx: left, cy: top, r: 9, class: kind }),
        draw("text", { x: left, y: top - 14 }, member.name)];
    }));
}

export function showMesh(place, status) {
  const streams = status.streams ?? [];
  if (status.members === undefined) {
    place.replaceChildren(make("p", { class: "note" }, "This node has no mesh: it is alone."));
    return;
  }
  const reading = (name) => streams.filter((stream) => readersOf(stream).includes(name)).length;
  const behind = streams.reduce((most, stream) => Math.max(most, stream.lag), 0);
  place.replaceChildren(picture(status), make("div", {},
    table([
      ["Node", (member) => member.name],
      ["State", (member) => member.state],
      ["For", (member) => age(member.since_s), true],
      ["Link", (member) => member.link === "self" ? "this node" : member.link],
      ["Reads", (member) => reading(member.name), true],
      ["Address", (member) => member.address],
    ], status.members, (member) => member.state === "alive" && linked(member) ? undefined : "bad"),
    make("p", { class: "note" }, `Cluster ${status.mesh.cluster}, ${status.mesh.tls ? "by TLS" : "in clear"}, ` +
      `${status.mesh.ready}; ${several(streams.length, "stream")} of events, the furthest ${behind} batches behind.` +
      (new Set(streams.map((stream) => stream.worker)).size > MOST_ENGINES
        ? " Engines are too many to be drawn: a worker tells who reads it." : ""))));
}
