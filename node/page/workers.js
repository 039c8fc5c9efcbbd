// Workers as a grid; the chosen one with all that is known of it.
import { change } from "./ask.js";
import { isDrained } from "./looks.js";
import { count, make, percent, table } from "./make.js";

const MANY = 60; // more than that are drawn small

let chosen = null;
let fault = "";
let latest = null; // what was told last, to show it once more

function stateOf(worker) {
  return worker.eligible ? "takes requests" : `${worker.state}${worker.reason ? ` (${worker.reason})` : ""}`;
}

function cell(worker, many, show) {
  const use = percent(worker.kv_usage, 1);
  const told = `${worker.inflight + worker.inflight_peers} open, cache ${use}`;
  const button = make("button", {
    type: "button",
    class: worker.eligible ? undefined : isDrained(worker) ? "aside" : "out",
    "aria-expanded": String(chosen === worker.id),
    "aria-controls": "worker",
    "aria-label": `${worker.id}: ${stateOf(worker)}, ${told}`,
    title: `${worker.id}: ${stateOf(worker)}, ${told}`,
    "data-worker": worker.id,
    onclick: () => {
      chosen = chosen === worker.id ? null : worker.id;
      fault = "";
      show();
    },
  }, make("b", {}, worker.id), many ? null : make("small", {}, worker.eligible ? told : stateOf(worker)));
  button.style.setProperty("--use", worker.kv_usage);
  return button;
}

function facts(worker) {
  const rows = [
    ["State", stateOf(worker)],
    ["Address", worker.url],
    ["Engine", worker.engine],
    ["Models", worker.models.join(", ") || "–"],
    ["Labels", Object.entries(worker.labels).map(([k, v]) => `${k} ${v}`).join(", ") || "–"],
    ["Named by", worker.from || "–"],
    ["Open here", worker.inflight],
    ["Open by peers", worker.inflight_peers],
    ["Open by others", worker.inflight_foreign],
    ["At most", worker.limit || "no limit"],
    ["Running, waiting in it", `${worker.running}, ${worker.waiting}`],
    ["Tokens that wait", count(worker.queued_tokens + worker.queued_tokens_peers)],
    ["KV cache in use", percent(worker.kv_usage, 1, 1)],
    ["Beside its model's median", `${worker.slowness.toFixed(2)} ×`],
    ["Prefill", worker.prefill_tokens_per_s ? `${count(worker.prefill_tokens_per_s)} tokens/s` : "not learned"],
    ["Tokens of chats", worker.renderer],
    ["Requests sent", count(worker.requests)],
    ["Failed, severed", `${worker.failures}, ${worker.streams_severed}`],
  ];
  return make("dl", {}, ...rows.map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, String(value)))));
}

function events(status, worker) {
  const streams = new Map((status.streams ?? []).map((s) => [`${s.worker} ${s.rank}`, s]));
  const rows = status.events.filter((row) => row.worker === worker.id);
  if (rows.length === 0) {
    return make("p", { class: "note" }, "It tells no events: where it stands is believed from what was sent there.");
  }
  const of = (row) => streams.get(`${row.worker} ${row.rank}`);
  return table([
    ["Rank", (row) => row.rank, true],
    ["Events", (row) => row.state],
    ["Mirror", (row) => of(row)?.state ?? "–"],
    ["Read by", (row) => of(row)?.readers ?? "this node"],
    ["Blocks", (row) => count(row.blocks), true],
    ["Batch", (row) => row.seq, true],
    ["Behind", (row) => of(row)?.lag ?? 0, true],
    ["Trust", (row) => percent(row.trust, 1), true],
    ["Exact", (row) => `${row.exact} of ${row.answers}`, true],
  ], rows);
}

function drainButton(worker, show) {
  const drains = isDrained(worker);
  return make("button", {
    type: "button",
    onclick: async () => {
      if (!drains && !window.confirm(`Send no more requests to ${worker.id}?`)) {
        return;
      }
      try {
        await change(drains ? "DELETE" : "POST", `/admin/workers/${worker.id}/drain`);
        fault = "";
      } catch (error) {
        fault = error.message;
      }
      show();
    },
  }, drains ? "Let it take requests again" : "Drain");
}

export function showWorkers(place, detail, status) {
  latest = status;
  const show = () => showWorkers(place, detail, latest);
  const many = status.workers.length > MANY;
  const focused = document.activeElement?.dataset?.worker;
  const inDetail = detail.contains(document.activeElement);
  place.className = many ? "grid many" : "grid";
  place.replaceChildren(...status.workers.map((worker) => cell(worker, many, show)));
  if (focused !== undefined) {
    [...place.children].find((button) => button.dataset.worker === focused)?.focus();
  }
  const worker = status.workers.find((one) => one.id === chosen);
  detail.hidden = worker === undefined;
  if (worker !== undefined) {
    detail.replaceChildren(make("h3", {}, worker.id), facts(worker), events(status, worker),
      make("p", {}, drainButton(worker, show), make("span", { class: "bad-text", role: "alert" }, ` ${fault}`)));
    if (inDetail) {
      detail.querySelector("button").focus();
    }
  }
}
