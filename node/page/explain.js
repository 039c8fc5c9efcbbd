// /admin/explain as a form: where a request would go, and every candidate.
import { askJson } from "./ask.js";
import { count, make, percent, table } from "./make.js";

function example(model) {
  return JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }, null, 2);
}

const columns = [
  ["Worker", (row) => row.worker],
  ["Verdict", (row) => row.verdict],
  ["Left out for", (row) => row.filter ?? ""],
  ["Held", (row) => row.overlap, true],
  ["By", (row) => row.source],
  ["To compute", (row) => count(row.unread_tokens), true],
  ["Waiting before it", (row) => count(row.queued_tokens + row.queued_tokens_peers), true],
  ["Open", (row) => row.load, true],
  ["Limit", (row) => row.limit || "–", true],
  ["Slowness", (row) => row.slowness.toFixed(2), true],
  ["KV cache", (row) => percent(row.kv_usage, 1), true],
  ["Trust", (row) => row.source === "mirror" ? percent(row.trust, 1) : "–", true],
  ["Cost", (row) => row.cost, true],
];

function result(told) {
  const where = told.worker ? `${told.worker}: ${told.reason}` : `Nowhere: ${told.reason}`;
  return [
    make("p", {}, make("b", {}, where), ` (${told.mode}; ${told.overlap} of ${told.total} ${told.unit} are held there)`),
    table(columns, told.candidates, (row) => row.verdict === "chosen" ? "chosen" : undefined),
    make("details", {}, make("summary", {}, "All that was told"),
      make("pre", {}, JSON.stringify(told, null, 2))),
  ];
}

// An example to begin with, of a model that is served here.
export function fillExplain(form, status) {
  const body = form.elements.body;
  if (body.value === "") {
    body.value = example(status.workers.flatMap((worker) => worker.models)[0] ?? "");
  }
}

export function showExplain(form, place) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const told = await askJson(`/admin/explain?path=${form.elements.path.value}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: form.elements.body.value,
      });
      place.replaceChildren(...result(told));
    } catch (error) {
      place.replaceChildren(make("p", { class: "bad-text" }, error.message));
    }
  });
}
