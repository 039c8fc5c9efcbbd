// The last quarter of an hour as lines, one span of five seconds a point.
import { draw, make, milliseconds, percent } from "./make.js";

const WIDE = 600;
const HIGH = 150;
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];

const perSecond = (key) => (span, ms) => span[key] * 1000 / ms;
const rate = (value) => (value < 10 ? value.toFixed(1) : Math.round(value)) + "/s";
const share = (key) => (span) => span.prompt_tokens > 0 ? span[key] / span.prompt_tokens : null;
const first = (of, key) => (span) => span[of][key] > 0 ? span[of][key] : null;

// How requests ended that got no good answer: how many of each reason, most first.
export function endsOf(spans, first, last) {
  const found = new Map();
  for (const span of spans.values()) {
    if (span.number >= first && span.number <= last) {
      for (const [reason, count] of Object.entries(span.ended)) {
        found.set(reason, (found.get(reason) ?? 0) + count);
      }
    }
  }
  return new Map([...found].sort((a, b) => b[1] - a[1]));
}

// Each line: its name, and its value of a span; null: there is none.
const figures = [
  { title: "Requests placed", told: rate, least: 1, lines: [
    ["where their prefix is", perSecond("affinity")],
    ["by load", perSecond("balance")],
    ["otherwise", perSecond("other")]] },
  { title: "Time to the first token", told: milliseconds, log: true, lines: [
    ["hit, p50", first("hit", "p50_us")],
    ["hit, p99", first("hit", "p99_us")],
    ["miss, p50", first("miss", "p50_us")],
    ["miss, p99", first("miss", "p99_us")]] },
  { title: "Prompt tokens from cache", told: (value) => percent(value, 1), most: 1, lines: [
    ["as it was", share("cached_tokens")],
    ["as was expected", share("predicted_tokens")]] },
  { title: "Not as they should end", told: rate, least: 1, why: true, lines: [
    ["5xx", perSecond("failed")],
    ["4xx", perSecond("refused")],
    ["severed", perSecond("severed")],
    ["left by the client", perSecond("cancelled")]] },
];

let chosen = null; // spans before the last one; null: the last one
let again = () => {};

// Where a value stands, 0 at the foot and 1 at the top.
function scaleOf(figure, values) {
  const there = values.filter((value) => value !== null);
  const top = figure.most ?? Math.max(figure.least ?? 0, ...there);
  if (!figure.log) {
    return { of: (value) => (top > 0 ? value / top : 0), ends: [0, top] };
  }
  const low = Math.log(Math.min(1e3, ...there));
  const high = Math.log(Math.max(1e6, ...there));
  return { of: (value) => (Math.log(value) - low) / (high - low), ends: [Math.exp(low), Math.exp(high)] };
}

const x = (i, kept) => i * WIDE / (kept - 1);
const y = (part) => HIGH - 6 - part * (HIGH - 14);

// A line breaks where there is no value; a lone value is a short dash.
function pieces(values, scale) {
  const found = [];
  let piece = null;
  values.forEach((value, i) => {
    if (value === null) {
      piece = null;
      return;
    }
    if (piece === null) {
      found.push(piece = []);
    }
    piece.push(`${x(i, values.length).toFixed(1)},${y(scale.of(value)).toFixed(1)}`);
  });
  return found.map((points) => points.length > 1 ? points
    : [points[0], points[0].replace(/^[^,]*/, (at) => Number(at) + 3)]);
}

const colour = (n) => `var(--${["one", "two", "three", "four"][n]})`;

function line(n, points) {
  const drawn = draw("polyline", { points: points.join(" "), "stroke-dasharray": DASHES[n] });
  drawn.style.setProperty("stroke", colour(n));
  return drawn;
}

function legend(figure, all, i) {
  return make("ul", {}, ...figure.lines.map(([name], n) => {
    const value = all[n][i];
    return make("li", {},
      draw("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" }, line(n, ["0,5", "30,5"])),
      `${name} `, make("b", {}, value === null ? "–" : figure.told(value)));
  }));
}

function show(figure, spans, history) {
  const { kept, last, span_ms } = history;
  const numbers = Array.from({ length: kept }, (_, i) => last - kept + 1 + i);
  const empty = { requests: 0, affinity: 0, balance: 0, other: 0, refused: 0, failed: 0, severed: 0,
    cancelled: 0, prompt_tokens: 0, cached_tokens: 0, predicted_tokens: 0, hit: {}, miss: {} };
  const all = figure.lines.map(([, of]) => numbers.map((number) => of(spans.get(number) ?? empty, span_ms)));
  const scale = scaleOf(figure, all.flat());
  const at = kept - 1 - (chosen ?? 1); // the last one has only begun
  const svg = draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    ...[0, 1].map((part) => draw("line", { x1: 0, x2: WIDE, y1: y(part), y2: y(part) })),
    ...(chosen === null ? [] : [draw("line", { class: "cursor", x1: x(at, kept), x2: x(at, kept), y1: 0, y2: HIGH })]),
    ...all.flatMap((values, n) => pieces(values, scale).map((points) => line(n, points))));
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    choose(Math.round((box.right - event.clientX) / box.width * (kept - 1)), kept);
  });
  svg.addEventListener("pointerleave", () => choose(null, kept));
  return make("figure", {},
    make("h3", {}, figure.title),
    make("div", {}, ...scale.ends.reverse().map((end) => make("span", {}, figure.told(end))), svg),
    make("figcaption", {}, legend(figure, all, at), figure.why ? why(spans, history) : null));
}

// The reasons, as kvasir_requests_total and the `code` of errors have them.
function why(spans, { last, kept }) {
  const at = last - (chosen ?? 0);
  const found = endsOf(spans, chosen === null ? last - kept + 1 : at, at);
  const told = [...found].map(([reason, count]) => `${count} ${reason}`).join(", ");
  return make("p", { class: "note", id: "why" },
    `${chosen === null ? "In 15 minutes" : "Then"}: ${told || "none"}`);
}

function choose(back, kept) {
  const wanted = back === null ? null : Math.max(0, Math.min(kept - 1, back));
  if (wanted !== chosen) {
    chosen = wanted;
    again();
  }
}

// The keys left and right look back and forth, and End returns to now.
function listen(place, kept) {
  place.tabIndex = 0;
  place.setAttribute("role", "group");
  place.setAttribute("aria-label", "Lines; left and right look back and forth, End returns to now");
  place.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: 1, ArrowRight: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      choose((chosen ?? 1) + step, kept);
    } else if (event.key === "End" || event.key === "Escape") {
      choose(null, kept);
    }
  });
}

export function showLines(place, cursor, spans, history) {
  if (place.tabIndex !== 0) {
    listen(place, history.kept);
  }
  again = () => {
    const ago = chosen * history.span_ms / 1000;
    cursor.textContent = chosen === null ? "" : `${Math.floor(ago / 60)} min ${ago % 60} s ago`;
    place.replaceChildren(...figures.map((figure) => show(figure, spans, history)));
  };
  again();
}
