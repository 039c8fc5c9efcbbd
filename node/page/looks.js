// What is wrong now, and what to do about it.
import { endsOf } from "./lines.js";
import { age, make, several } from "./make.js";

const BAD = "bad";
const WARN = "warn";
const MOST = 12;

const drained = "An operator drains it. Choose it below to let it take requests again.";
const ofState = {
  timeout: "It answers no checks, and is asked only where nothing else is left. It may hang, or be overloaded: look at its log.",
  connect: "Is the engine running, and does it listen on that address? kvasir doctor tries it.",
  draining: drained,
  drained,
  unresolved: "Its name has no address: look at the name, and at the resolver.",
  new: "It was not reached yet.",
  circuit_open: "Requests there failed one after the other: look at the engine's log. It is tried again.",
  circuit_half_open: "Requests there had failed; a few are sent to see whether it is back.",
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

function* ofWorkers(status) {
  for (const worker of status.workers) {
    if (!worker.eligible) {
      const reason = worker.reason ? ` (${worker.reason})` : "";
      yield [isDrained(worker) ? WARN : BAD, `${worker.id} takes no requests: ${worker.state}${reason}`,
        ofState[worker.reason] ?? ofState[worker.state] ?? "kvasir doctor tries it and names what is missing."];
    }
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
  for (const stream of status.streams ?? []) {
    if (stream.state !== "complete" && !down.has(stream.worker)) {
      yield [WARN, `not all that ${stream.worker} rank ${stream.rank} holds is known: ${stream.state}`,
        "It fills up by itself with what the engine stores from now on, and by what answers show."];
    }
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
