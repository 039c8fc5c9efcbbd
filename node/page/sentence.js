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
  const cached = sum(spans, "cached_tokens");
  const possible = sum(spans, "possible_tokens");
  const all = possible === 0 ? ", and no worker had any"
    : `, ${percent(Math.floor(100 * cached / possible), 100)} of what was possible`;
  const compared = sum(spans, "compared");
  const exact = compared === 0 ? ""
    : `; predictions exact ${share(sum(spans, "exact"), compared)} of ${several(compared, "answer")}`;
  return `${percent(cached, prompts)} of prompt tokens from cache${all}${exact}`;
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
