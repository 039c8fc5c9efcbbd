// The whole in one sentence.
import { percent, several } from "./make.js";

function sum(spans, key) {
  let total = 0;
  for (const span of spans.values()) {
    total += span[key];
  }
  return total;
}

// In which share of the answers, without rounding a miss away.
function share(part, whole) {
  return part === whole ? "in all" : `in ${percent(Math.floor(1000 * part / whole), 1000, 1)}`;
}

function ofCaches(spans) {
  const prompts = sum(spans, "prompt_tokens");
  if (prompts === 0) {
    return "no answer of the last 15 minutes said what came from cache";
  }
  const cached = percent(sum(spans, "cached_tokens"), prompts);
  const expected = percent(sum(spans, "predicted_tokens"), prompts);
  const compared = sum(spans, "compared");
  const exact = compared === 0 ? ""
    : `; predictions exact ${share(sum(spans, "exact"), compared)} of ${several(compared, "answer")}`;
  return `${cached} of prompt tokens from cache, where ${expected} was expected${exact}`;
}

export function sentence(status, spans) {
  const taking = status.workers.filter((worker) => worker.eligible).length;
  const members = status.members ?? [];
  const alive = members.filter((member) => member.state === "alive").length;
  const nodes = members.length === 0 ? "one node"
    : alive === members.length ? several(alive, "node") : `${alive} of ${several(members.length, "node")}`;
  const all = status.workers.length;
  const workers = all === 0 ? "no workers"
    : taking === all ? `${several(all, "worker")}, ${all === 1 ? "it takes" : "all take"} requests`
    : `${several(all, "worker")}, ${taking === 0 ? "none takes" : `${taking} take${taking === 1 ? "s" : ""}`} requests`;
  return `${nodes}, ${workers}; ${ofCaches(spans)}.`;
}
