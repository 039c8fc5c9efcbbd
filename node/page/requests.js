// The last requests, as many as the filter lets through.
import { askJson } from "./ask.js";
import { make, milliseconds, table } from "./make.js";

const ASKED = 1000;
const SHOWN = 100;
const LIVE_MS = 3000;

const isTrouble = (row) =>
  row.status >= 400 || row.severed || row.cancelled || row.attempts > 1 || row.resumed > 0;

function matches(row, wanted) {
  const has = (key) => row[key].toLowerCase().includes(wanted.get(key).trim().toLowerCase());
  return has("worker") && has("model") && has("tenant") &&
    (wanted.get("mode") === "" || wanted.get("mode") === row.mode) &&
    (wanted.get("trouble") === null || isTrouble(row));
}

function ending(row) {
  const told = [row.status === 0 ? "–" : row.status];
  if (row.severed) {
    told.push("severed");
  }
  if (row.cancelled) {
    told.push("client left");
  }
  if (row.resumed > 0) {
    told.push("went on elsewhere");
  }
  return told.join(", ");
}

const columns = [
  ["Time", (row) => new Date(row.time_ms).toLocaleTimeString([], { hour12: false })],
  ["Model", (row) => row.model],
  ["Tenant", (row) => row.tenant],
  ["Worker", (row) => row.worker || "–"],
  ["Why", (row) => row.reason || row.mode],
  ["Status", ending],
  ["Tries", (row) => row.attempts, true],
  ["Prompt", (row) => row.prompt_tokens || "–", true],
  ["Expected", (row) => row.source === "mirror" ? row.predicted_tokens : `${row.overlap} of ${row.total} blocks`, true],
  ["Cached", (row) => row.cached_known ? row.cached_tokens : "–", true],
  ["First token", (row) => milliseconds(row.first_token_us || row.first_byte_us), true],
  ["Whole", (row) => milliseconds(row.duration_us), true],
  ["Id", (row) => row.id],
];

export function showRequests(form, place) {
  let asked = 0;
  async function show() {
    const turn = ++asked;
    let shown;
    try {
      const rows = await askJson(`/admin/decisions?count=${ASKED}`);
      const wanted = new FormData(form);
      const found = rows.filter((row) => matches(row, wanted));
      shown = found.length > 0
        ? table(columns, found.slice(0, SHOWN), (row) => isTrouble(row) ? "bad" : undefined)
        : make("p", { class: "note" }, rows.length > 0
          ? `None of the last ${rows.length} is like that.` : "There were none yet.");
    } catch (error) {
      shown = make("p", { class: "bad-text" }, error.message);
    }
    if (turn === asked) {
      place.replaceChildren(shown);
    }
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  form.addEventListener("change", show);
  setInterval(() => {
    if (!document.hidden && !place.matches(":hover, :focus")) {
      show(); // it stands still while somebody reads it
    }
  }, LIVE_MS);
  show();
}
