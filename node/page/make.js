// Elements from what they are made of. Text is always text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else if (value !== false && value !== undefined) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

// columns: [[heading, of(row), isNumber], ...]
export function table(columns, rows, classOf = () => undefined) {
  const cell = (tag, column, text) =>
    make(tag, { class: column[2] ? "n" : undefined, scope: tag === "th" ? "col" : undefined }, text);
  return make("table", {},
    make("thead", {}, make("tr", {}, ...columns.map((c) => cell("th", c, c[0])))),
    make("tbody", {}, ...rows.map((row) =>
      make("tr", { class: classOf(row) }, ...columns.map((c) => cell("td", c, String(c[1](row))))))));
}

export function milliseconds(us) {
  if (!us) {
    return "–";
  }
  return us < 10000 ? `${(us / 1000).toFixed(1)} ms`
    : us < 1e6 ? `${Math.round(us / 1000)} ms` : `${(us / 1e6).toFixed(2)} s`;
}

export function percent(part, whole, digits = 0) {
  return whole > 0 ? `${(100 * part / whole).toFixed(digits)} %` : "–";
}

export function age(seconds) {
  return seconds < 120 ? `${seconds} s`
    : seconds < 7200 ? `${Math.floor(seconds / 60)} min`
    : seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;
}

export function count(number) {
  return number < 10000 ? String(number)
    : number < 1e7 ? `${(number / 1e3).toFixed(0)} k` : `${(number / 1e6).toFixed(1)} M`;
}

export function several(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}
