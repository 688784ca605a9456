// Parts of the page: elements, tables, findings and small plots. Text is always set as text.

const INFINITE = 9223372036854775807n;
const NUMBER = /^-?[\d,]+(\.\d+)?( (s|min|h|MiB|%|items))?$/;
// Cells up to this length stay on one line; longer than the second, they get a minimum width.
const SHORT = 32, LONG = 60;
const SVG = ["svg", "g", "rect", "text", "path", "title", "polyline"];

export function make(tag, attributes = {}, ...children) {
  const node = SVG.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "click") node.addEventListener("click", value);
    else if (value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const isEmpty = (value) => value === "" || value === null || value === undefined;
const isNumber = (value) => typeof value === "number" || (typeof value === "string" && NUMBER.test(value));

// `first`: only that many rows were read, there may be more.
export function table(caption, heads, rows, first = Infinity) {
  const count = rows.length < first ? `(${rows.length})` : `(the first ${rows.length})`;
  const isNumeric = heads.map((_, i) => rows.some((row) => isNumber(row[i])) && rows.every((row) => isEmpty(row[i]) || isNumber(row[i])));
  const cell = (value, i) => {
    const length = (value?.textContent ?? String(value ?? "")).length;
    const kind = isNumeric[i] ? "number" : length <= SHORT ? "short" : length > LONG ? "long" : undefined;
    return make("td", { class: kind }, typeof value === "number" ? value.toLocaleString("en") : value ?? "");
  };
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, make("span", {}, `${caption} ${count}`)),
      make("thead", {}, make("tr", {},
        ...heads.map((head, i) => make("th", { scope: "col", class: isNumeric[i] ? "number" : undefined }, head)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell))))));
}

export function rowTable(title, found, last, first) {
  const heads = Object.keys(found[0]);
  return table(title, last ? [...heads, last.head] : heads, found.map((row, i) => [...heads.map((head) => row[head]), ...(last ? [last.cell(i)] : [])]), first);
}

export const time = (us) => us === null || us === undefined ? ""
  : new Date(Number(us) / 1000).toISOString().replace("T", " ").slice(0, 19);
export const watermark = (us) => BigInt(us) >= INFINITE ? "the end"
  : Math.abs(Number(us)) > 8e18 ? "the beginning" : time(us);
// Like watermark, to the microsecond.
export const precise = (us) => {
  const rest = ((BigInt(us) % 1000000n) + 1000000n) % 1000000n, text = watermark(us);
  return rest && !text.startsWith("the ") ? `${text}.${String(rest).padStart(6, "0")}` : text;
};
export const seconds = (s) => s === null || s === undefined ? "" : s < 120 ? `${s.toFixed(1)} s`
  : s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
export const bytes = (n) => n === null || n === undefined ? "" : `${(n / 2 ** 20).toFixed(1)} MiB`;
export const percent = (share) => share === undefined ? "" : `${Math.round(100 * share)} %`;

export function spark(looks, column, label) {
  const points = looks.slice(1).map((look, i) =>
    (look[column] - looks[i][column]) / Math.max((look[0] - looks[i][0]) / 1e6, 1e-3));
  if (points.length < 2) return make("span", {}, "");
  const most = Math.max(...points, 1);
  const line = points.map((y, i) => `${(i * 120) / (points.length - 1)},${18 - (16 * y) / most}`).join(" ");
  return make("svg", { width: 120, height: 20, role: "img", "aria-label": `${label}: ${Math.round(points.at(-1)).toLocaleString("en")} per s, at most ${Math.round(most).toLocaleString("en")}` },
    make("polyline", { class: "spark", points: line }));
}

export function rate(looks, column) {
  if (looks.length < 2) return 0;
  const first = looks.at(Math.max(-6, -looks.length)), last = looks.at(-1);
  return Math.round((last[column] - first[column]) / Math.max((last[0] - first[0]) / 1e6, 1e-3));
}

// `gravity` colours a row, `word` names it. `isAway`: the page is not that of the `job`, so link to it.
export function findings(rows) {
  const link = (row, tab, text) => make("a", { href: `#/${encodeURIComponent(row.job)}${tab && `/${tab}`}` }, text);
  const more = (row) => row.kind === "late rows" ? link(row, "late", "Show the late rows")
    : row.word === "failed" ? link(row, "logs", "Show the log with the trace") : null;
  return make("ul", { class: "findings" }, ...rows.map((row) => make("li", { class: row.gravity },
    make("p", {}, make("span", { class: `state ${row.gravity}` }, `${row.word ?? row.gravity}: `),
      ...(row.isAway ? [link(row, "", row.job), ": "] : []), row.what,
      row.since_us ? `, ${row.word === "failed" ? "at" : "since"} ${time(row.since_us)} UTC` : ""),
    row.advice ? make("p", { class: "advice" }, row.advice) : null,
    row.job && more(row) ? make("p", {}, more(row)) : null)));
}

// A failed job has failed: it is not degraded. Its last status has the time.
export function named(rows, job, name, isAway = false) {
  return rows.map((row) => {
    const isEnd = job.state === "failed" && row.gravity === "degraded";
    return { ...row, job: name, isAway, ...(isEnd ? { word: "failed", since_us: row.since_us ?? job.written_us } : {}) };
  });
}
