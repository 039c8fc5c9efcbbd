// The page: hears what the node tells, and shows it.
import { watch } from "./ask.js";
import { age } from "./make.js";
import { fillExplain, showExplain } from "./explain.js";
import { showLines } from "./lines.js";
import { looks, showLooks } from "./looks.js";
import { showMesh } from "./mesh.js";
import { sentence } from "./sentence.js";
import { showRequests } from "./requests.js";
import { showWorkers } from "./workers.js";

const at = (id) => document.getElementById(id);
const spans = new Map(); // by their number
let history = { last: 0, kept: 180, span_ms: 5000 };
let status = null;

function takeHistory(told) {
  if (told.last < history.last) {
    spans.clear(); // the node has started anew
  }
  history = told;
  for (const span of told.spans) {
    spans.set(span.number, span);
  }
  for (const number of spans.keys()) {
    if (number <= told.last - told.kept) {
      spans.delete(number);
    }
  }
  showLines(at("lines"), at("cursor"), spans, history);
}

function takeStatus(told) {
  status = told;
  const found = looks(status, spans, history);
  document.title = `${found.length > 0 ? `(${found.length}) ` : ""}${status.node} – Kvasir`;
  at("node").textContent = `${status.node} ${status.version}, up ${age(status.uptime_s)}`;
  at("sentence").textContent = sentence(status, spans);
  showLooks(at("look"), found);
  showWorkers(at("workers"), at("worker"), status);
  showMesh(at("mesh"), status);
  fillExplain(at("explain"), status);
}

function say(fault) {
  at("connection").textContent = fault === null ? "live" :
    `Not live: ${fault}. What is shown is what it said last.`;
  at("connection").className = fault === null ? "" : "bad-text";
}

showRequests(at("filter"), at("requests"));
showExplain(at("explain"), at("explained"));
watch("/admin/live", (name, data) => {
  if (name === "history") {
    takeHistory(data);
  } else if (name === "status") {
    takeStatus(data);
  }
}, say);
