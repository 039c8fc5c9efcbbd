// What is wrong now, and what to do about it.
import { endsOf } from "./lines.js";
import { age, make, several } from "./make.js";

const BAD = "bad";
const WARN = "warn";
const MOST = 12;
const NAMED = 3; // workers with the same trouble

const drained = "Drained by an operator. Choose a worker below to let it take requests again.";
const ofState = {
  timeout: "No answer to checks: asked only where nothing else is left. The engine may hang, or be overloaded: look at its log.",
  connect: "Is the engine running, and does it listen on that address? kvasir doctor tries it.",
  draining: drained,
  drained,
  unresolved: "The name has no address: look at the name, and at the resolver.",
  new: "Not reached yet.",
  circuit_open: "Requests failed one after the other: look at the engine's log. Requests are tried there again by themselves.",
  circuit_half_open: "Requests had failed; a few are sent to see whether the engine is back.",
};

const RECENT = 12; // spans: a minute
const ofEnd = {
  no_worker: "No worker of that model takes requests. See what is said of workers.",
  all_attempts_failed: "Workers were tried and failed: choose trouble only below, and look at their logs.",
  all_workers_busy: "Workers refuse requests for now: add workers.",
  queue_full: "More wait than may: add workers.",
  queue_timeout: "They waited for a worker with room as long as they may: add workers.",
  overloaded: "A bound of this node is reached: its log says which.",
  answer_broke_off: "Workers end answers too early: choose trouble only below, and look at their logs.",
  other: "Look at this node's log.",
};

// Whether an operator sends nothing there.
export function isDrained(worker) {
  return worker.state === "draining" || worker.state === "drained";
}

function* ofNode(status) {
  if (status.draining) {
    yield [WARN, `${status.node} is draining`, "It ends when its requests have."];
  } else if (!status.ready) {
    yield [BAD, `${status.node} is not ready`, "GET /ready says why; it needs a worker that takes requests."];
  }
  if (status.model_files_differ > 0) {
    yield [WARN, `${status.node} has other model files than its peers`,
      "Put the same files on all nodes: their predictions differ."];
  }
  if ((status.mesh?.digest_mismatches ?? 0) > 0) {
    yield [WARN, `${several(status.mesh.digest_mismatches, "stream")} differed between nodes and came anew`,
      "This should not happen: please report it with the logs of both nodes."];
  }
  if (status.queue.waiting > 0) {
    yield [WARN, `${several(status.queue.waiting, "request")} wait for a worker with room, the oldest for ${age(Math.ceil(status.queue.oldest_ms / 1000))}`,
      "All workers are at their limit: add workers, or raise workers' limits if they have room."];
  }
  if (status.snapshot?.failing) {
    yield [BAD, "The last snapshot failed", "Look at data.dir: its disk may be full or not writable."];
  }
}

function* ofEnds(spans, history) {
  const found = endsOf(spans, history.last - RECENT + 1, history.last);
  for (const [reason, hint] of Object.entries(ofEnd)) {
    if (found.has(reason)) {
      yield [BAD, `requests of the last minute ended as ${reason}`, hint];
    }
  }
}

function* ofMembers(status) {
  for (const member of status.members ?? []) {
    if (member.state !== "alive") {
      yield [BAD, `${member.name} is ${member.state}, for ${age(member.since_s)} now`,
        `Is its process running? Can it be reached at ${member.address}?`];
    } else if (member.link !== "up" && member.link !== "self") {
      yield [BAD, `no good link to ${member.name}: ${member.link}`,
        `Is ${member.address} reachable both ways? Do the certificates or secrets match?`];
    }
  }
}

// Rows with the same trouble, together: of many workers the first ones are named.
function alike(rows, troubleOf) {
  const groups = new Map();
  for (const row of rows) {
    const trouble = troubleOf(row);
    groups.set(trouble, [...(groups.get(trouble) ?? []), row]);
  }
  return groups;
}

function names(all) {
  const more = all.length - NAMED;
  const told = more > 0 ? [...all.slice(0, NAMED), several(more, "other")] : all;
  return told.length === 1 ? told[0] : `${told.slice(0, -1).join(", ")} and ${told.at(-1)}`;
}

function* ofWorkers(status) {
  const troubleOf = (worker) => worker.reason ? `${worker.state} (${worker.reason})` : worker.state;
  for (const [trouble, workers] of alike(status.workers.filter((w) => !w.eligible), troubleOf)) {
    const [{ state, reason }] = workers;
    const take = workers.length === 1 ? "takes" : "take";
    yield [isDrained(workers[0]) ? WARN : BAD, `${names(workers.map((w) => w.id))} ${take} no requests: ${trouble}`,
      ofState[reason] ?? ofState[state] ?? "kvasir doctor tries each worker and names what is missing."];
  }
  for (const left of status.left_out) {
    yield [WARN, `${left.worker} has no ${left.what} here: ${left.why}`, "A bound was reached; the log says which."];
  }
}

function* ofSources(status) {
  for (const source of status.worker_sources ?? []) {
    if (source.state !== "good") {
      yield [WARN, `${source.from} keeps its last list: ${source.why}`,
        "Its workers stay as they were. Look at the name or the file, and at the resolver."];
    }
    if (source.refused > 0) {
      yield [WARN, `${source.from} names ${several(source.refused, "worker")} that have no place`,
        "A bound was reached; the log says which."];
    }
  }
}

function* ofScale(status) {
  for (const group of status.scale?.groups ?? []) {
    if (group.desired > group.engines) {
      yield [WARN, `${group.model} should have ${several(group.desired, "engine")}, and has ${group.engines}: ${group.why}`,
        "Add engines. GET /admin/scale says what was measured."];
    }
  }
}

function* ofStreams(status) {
  const down = new Set(status.workers.filter((w) => !w.eligible).map((w) => w.id));
  const lacking = (status.streams ?? []).filter((s) => s.state !== "complete" && !down.has(s.worker));
  for (const [state, streams] of alike(lacking, (s) => s.state)) {
    const hold = streams.length === 1 ? "holds" : "hold";
    yield [WARN, `not all that ${names(streams.map((s) => `${s.worker} rank ${s.rank}`))} ${hold} is known: ${state}`,
      "It fills up by itself with what the engine stores from now on, and by what answers show."];
  }
  for (const events of status.events) {
    if (events.answers > 0 && events.trust < 0.9995 && !down.has(events.worker)) {
      yield [WARN, `what ${events.worker} rank ${events.rank} is said to hold counts ${(100 * events.trust).toFixed(0)} %`,
        `${events.over} answers found less than predicted, ${events.under} more: see the log of this worker.`];
    }
  }
}

function* ofModels(status) {
  for (const model of status.models) {
    if (model.why) {
      yield [WARN, `no tokens of ${model.model} are made here: ${model.why}`, "Its engines are asked instead."];
    }
  }
}

// [[severity, what, what to do], ...], the bad ones first.
export function looks(status, spans, history) {
  const found = [...ofEnds(spans, history),
    ...[ofNode, ofMembers, ofWorkers, ofSources, ofScale, ofStreams, ofModels].flatMap((of) => [...of(status)])];
  return found.sort((a, b) => (b[0] === BAD) - (a[0] === BAD));
}

let shown = "";

export function showLooks(place, found) {
  const told = JSON.stringify(found);
  if (told === shown) {
    return; // a screen reader would read it all again
  }
  shown = told;
  const items = found.slice(0, MOST).map(([severity, what, hint]) =>
    make("li", { class: severity }, what, make("span", {}, hint)));
  if (found.length === 0) {
    items.push(make("li", { class: "good" }, "Nothing: all is well."));
  } else if (found.length > MOST) {
    items.push(make("li", {}, `and ${found.length - MOST} more`));
  }
  place.replaceChildren(...items);
}
