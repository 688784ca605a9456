// The page: a list of jobs, and one job in tabs. All it shows comes from /api as JSON.

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const TABS = { "": "Overview", plan: "Plan", timeline: "What happened", output: "Output",
  table: "Current rows", late: "Late rows", dead_letters: "Dead letters" };
const INFINITE = 9223372036854775807n;
let list = { jobs: [], unread: {}, can_change: false };
let shown = "";

// ---- talking to the server

const token = () => sessionStorage.getItem("token") || "";

async function ask(path, options = {}) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) document.getElementById("sign-in").hidden = false;
  return answer;
}

async function read(path) {
  const answer = await ask(path);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

// fetch and not EventSource, which cannot send a token
async function follow() {
  for (;;) {
    try {
      const answer = await ask("api/events");
      if (!answer.ok) throw new Error((await answer.json()).error);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        if (events.length) {
          list = JSON.parse(events.at(-1).slice("data: ".length));
          connection.textContent = `live, ${new Date().toLocaleTimeString()}`;
          await refresh();
        }
      }
      throw new Error("the server has ended");
    } catch (error) {
      connection.textContent = `not connected: ${error.message}`;
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
}

// ---- making elements: text is always set as text

function make(tag, attributes = {}, ...children) {
  const space = ["svg", "g", "rect", "text", "path", "title", "polyline"].includes(tag);
  const node = space ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "click") node.addEventListener("click", value);
    else if (value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function table(caption, heads, rows) {
  const cell = (tag, value) => {
    const isNumber = typeof value === "number";
    const content = isNumber ? value.toLocaleString("en") : value ?? "";
    return make(tag, isNumber ? { class: "number" } : {}, content);
  };
  const isNumber = heads.map((_, i) => rows.length > 0 && rows.every((row) => typeof row[i] === "number"));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, `${caption} (${rows.length})`),
      make("thead", {}, make("tr", {},
        ...heads.map((head, i) => make("th", { scope: "col", class: isNumber[i] ? "number" : undefined }, head)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((value) => cell("td", value)))))));
}

const time = (us) => us === null || us === undefined ? ""
  : new Date(Number(us) / 1000).toISOString().replace("T", " ").slice(0, 19);
const watermark = (us) => BigInt(us) >= INFINITE ? "the end"
  : Math.abs(Number(us)) > 8e18 ? "the beginning" : time(us);
const seconds = (s) => s === null || s === undefined ? "" : s < 120 ? `${s.toFixed(1)} s`
  : s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
const bytes = (n) => n === null || n === undefined ? "" : `${(n / 2 ** 20).toFixed(1)} MiB`;

function spark(looks, column, label) {
  const points = looks.slice(1).map((look, i) =>
    (look[column] - looks[i][column]) / Math.max((look[0] - looks[i][0]) / 1e6, 1e-3));
  if (points.length < 2) return make("span", {}, "");
  const most = Math.max(...points, 1);
  const line = points.map((y, i) => `${(i * 120) / (points.length - 1)},${28 - (26 * y) / most}`).join(" ");
  return make("svg", { width: 120, height: 30, role: "img", "aria-label": `${label}: ${Math.round(points.at(-1)).toLocaleString("en")} per s, at most ${Math.round(most).toLocaleString("en")}` },
    make("polyline", { class: "spark", points: line }));
}

function rate(looks, column) {
  if (looks.length < 2) return 0;
  const first = looks.at(Math.max(-6, -looks.length)), last = looks.at(-1);
  return Math.round((last[column] - first[column]) / Math.max((last[0] - first[0]) / 1e6, 1e-3));
}

function findings(rows) {
  return make("ul", { class: "findings" }, ...rows.map((row) => make("li", { class: row.gravity },
    make("p", {}, make("span", { class: `state ${row.gravity}` }, `${row.gravity}: `), row.what,
      row.since_us ? ` (since ${time(row.since_us)} UTC)` : ""),
    row.advice ? make("p", { class: "advice" }, row.advice) : null)));
}

// ---- the list of jobs

function showList() {
  const wrong = list.jobs.filter((job) => job.health !== "ok");
  const needs = wrong.flatMap((job) => job.reasons.filter((r) => r.health !== "ok").map((r) => ({
    gravity: r.health, what: `${job.name}: ${r.reason}`, advice: r.advice, since_us: r.since_us })));
  const jobs = list.jobs.map((job) => [
    make("a", { href: `#/${encodeURIComponent(job.name)}` }, job.name),
    make("span", { class: `state ${job.health}` }, job.health === "ok" ? job.state : `${job.state}, ${job.health}`),
    job.events_in ?? 0, job.events_out ?? 0, rate(job.looks, 1), spark(job.looks, 1, "events in"),
    job.late_events ?? 0, job.bad_rows ?? 0, job.restarts ?? 0]);
  const outputs = list.jobs.flatMap((job) => job.outputs.map((out) => [
    make("a", { href: `#/${encodeURIComponent(job.name)}` }, job.name), out.output, out.state,
    out.watermark_us === undefined ? "" : watermark(out.watermark_us),
    out.lag_s !== undefined ? seconds(out.lag_s) : `${(out.lag_items ?? 0).toLocaleString("en")} items`]));
  return [
    make("h2", {}, "What needs you"),
    needs.length ? findings(needs) : make("p", {}, list.jobs.length ? "Nothing: all jobs are well." : "There is no job in this folder."),
    ...Object.entries(list.unread).map(([path, why]) => make("p", { class: "waiting" }, `${path} cannot be looked into: ${why}`)),
    make("h2", {}, "Freshness"),
    table("Outputs: event time reached, and how far it is behind", ["job", "output", "state", "watermark (UTC)", "behind"], outputs),
    make("h2", {}, "Jobs"),
    table("Jobs in this folder", ["job", "state", "events in", "out", "in per s", "events in per s, 1 min", "late", "bad", "restarts"], jobs)];
}

// ---- one job

async function showJob(name, tab) {
  const base = `api/jobs/${encodeURIComponent(name)}`;
  const tabs = make("nav", { class: "tabs", "aria-label": "Views of the job" },
    ...Object.entries(TABS).map(([key, title]) => make("a", {
      href: `#/${encodeURIComponent(name)}${key && `/${key}`}`, "aria-current": key === tab ? "page" : undefined }, title)));
  const views = { "": overview, plan, timeline };
  const content = views[tab] ? await views[tab](base, name) : await rows(base, tab);
  return [make("h2", {}, name), tabs, ...content];
}

async function overview(base, name) {
  const [job, found] = await Promise.all([read(base), read(`${base}/findings`)]);
  const s = job.status;
  const logs = (s.vertices ?? []).flatMap((v) => (v.logs ?? []).map((log) => [
    v.stage, String(log.partition), log.state + (log.holds_back ? ", holds time back" : ""),
    log.lag_rows ?? "", seconds(log.lag_s), watermark(log.frontier_us)]));
  const vertices = (s.vertices ?? []).map((v) => [v.vertex, v.state, v.host, v.events_in, v.events_out,
    watermark(v.cti_us), seconds(v.cti_lag_s), bytes(v.tail_bytes), v.restarts]);
  const deliveries = (s.deliveries ?? []).map((d) => [d.delivery, String(d.partition), d.state, d.rows, d.lag_items, d.error]);
  const hosts = (s.hosts ?? []).map((h) => [h.host, h.state, h.machine, String(h.pid ?? ""),
    h.memory ? bytes(h.memory.used_bytes) : "", h.memory ? bytes(h.memory.limit_bytes) : "",
    list.can_change && !h.cannot_drain ? make("button", { click: () => act(name, "drain", h.host) }, `Drain ${h.host}`) : ""]);
  return [
    make("p", {}, make("span", { class: `state ${s.health}` }, `${s.state}, ${s.health}`),
      s.error ? `: ${s.error}` : "", s.written_us ? ` (status of ${time(s.written_us)} UTC)` : ""),
    make("h3", {}, "Findings"),
    found.length ? findings(found) : make("p", {}, "Nothing is wrong."),
    buttons(name, s.state),
    make("h3", {}, "Rates"),
    table("Per second, the last minutes", ["events in", "", "events out", ""], [[rate(job.looks, 1), spark(job.looks, 1, "events in"), rate(job.looks, 2), spark(job.looks, 2, "events out")]]),
    ...(logs.length ? [table("Partitions of live inputs", ["stage", "partition", "state", "rows left", "age of the newest row", "time reached (UTC)"], logs)] : []),
    table("Vertices", ["vertex", "state", "host", "events in", "out", "watermark (UTC)", "lag", "in memory", "restarts"], vertices),
    ...(deliveries.length ? [table("Deliveries", ["delivery", "partition", "state", "rows", "items left", "error"], deliveries)] : []),
    table("Hosts", ["host", "state", "machine", "pid", "memory", "limit", "drain"], hosts)];
}

function buttons(name, state) {
  const verbs = { stop: "Stop, keep the state", finish: "Finish: end its sources", cancel: "Cancel", retry: "Retry deliveries" };
  const isOpen = !["finished", "failed", "cancelled", "stopped", "interrupted", "broken", "unknown"].includes(state);
  if (!isOpen) return null;
  if (!list.can_change) return make("p", { class: "note" }, "This page only shows: serve it with --token-file to change jobs from it.");
  return make("div", { class: "buttons" }, ...Object.entries(verbs).map(([verb, title]) =>
    make("button", { click: () => act(name, verb) }, title)));
}

async function act(name, verb, host = "") {
  const dialog = document.getElementById("confirm");
  document.getElementById("question").textContent = `${verb} ${host || name}?`;
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  if (dialog.returnValue !== "yes") return;
  const answer = await ask(`api/jobs/${encodeURIComponent(name)}/${verb}?host=${encodeURIComponent(host)}`, { method: "POST" });
  const found = await answer.json();
  connection.textContent = answer.ok ? `${verb}: ${found.requested}` : `${verb}: ${found.error}`;
}

async function plan(base) {
  const [found, job] = await Promise.all([read(`${base}/plan`), read(base)]);
  const by = {};
  for (const v of job.status.vertices ?? []) (by[v.stage] ??= []).push(v);
  const W = 210, H = 92, GAP = 60, at = {};
  for (const s of found.stages) at[s.stage] = [s.column * (W + GAP) + 8, s.row * (H + 22) + 8];
  const width = Math.max(...found.stages.map((s) => at[s.stage][0] + W)) + 8;
  const height = Math.max(...found.stages.map((s) => at[s.stage][1] + H)) + 8;
  const edges = found.stages.flatMap((s) => s.after.map((other) => {
    const [x, y] = at[other], [a, b] = at[s.stage];
    return make("path", { class: "edge", d: `M${x + W},${y + H / 2} C${x + W + GAP / 2},${y + H / 2} ${a - GAP / 2},${b + H / 2} ${a},${b + H / 2}` });
  }));
  const stages = found.stages.map((s) => {
    const rows = by[s.stage] ?? [], [x, y] = at[s.stage];
    const lag = Math.max(...rows.map((v) => v.cti_lag_s ?? 0), 0);
    const tail = rows.reduce((sum, v) => sum + v.tail_bytes, 0);
    const kind = rows.some((v) => ["failed", "lost"].includes(v.state)) ? "bad" : tail > 2 ** 25 ? "late" : rows.some((v) => v.state === "running") ? "busy" : "";
    const sum = (key) => rows.reduce((total, v) => total + v[key], 0).toLocaleString("en");
    const lines = [`${s.stage}${s.parallelism > 1 ? `, ${s.parallelism} vertices` : ""}`, (s.operators[0] ?? "").slice(0, 28),
      `${sum("events_in")} in, ${sum("events_out")} out`, `lag ${seconds(lag)}, ${bytes(tail)} in memory`];
    return make("g", {}, make("title", {}, s.operators.join("\n")),
      make("rect", { class: `stage ${kind}`, x, y, width: W, height: H, rx: 6 }),
      ...lines.map((line, i) => make("text", { x: x + 10, y: y + 20 + i * 20, class: i === 1 ? "soft" : "" }, line)));
  });
  return [
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The plan, drawn" },
      make("svg", { width, height, role: "img", "aria-label": "The plan: stages from inputs to the output; the table below says the same" }, ...edges, ...stages)),
    table("Stages", ["stage", "vertices", "after", "does"], found.stages.map((s) =>
      [s.stage, s.parallelism, s.after.join(", "), s.operators.join("; ")]))];
}

async function timeline(base) {
  const found = await read(`${base}/timeline`);
  return [table("What happened, the latest first", ["time (UTC)", "what"], found.reverse().map((row) => [time(row.at_us), row.text]))];
}

async function rows(base, kind) {
  const found = await read(`${base}/rows/${kind}?n=200`);
  if (!found.length) return [make("p", {}, "There are no such rows.")];
  const heads = Object.keys(found[0]);
  return [table(`${TABS[kind]}, the first 200`, heads, found.map((row) => heads.map((head) => row[head])))];
}

// ---- which view is shown

function place() {
  const [name = "", tab = ""] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  return { name, tab: tab in TABS ? tab : "" };
}

async function refresh(isNew = false) {
  const { name, tab } = place(), here = location.hash;
  if (!isNew && (document.querySelector("dialog[open]") || (name && tab && tab !== "plan"))) return;
  let content;
  try {
    content = name ? await showJob(name, tab) : showList();
  } catch (error) {
    content = [make("h2", {}, name), make("p", { class: "waiting" }, error.message),
      make("p", {}, make("a", { href: `#/${encodeURIComponent(name)}` }, "Back to the job"))];
  }
  if (here !== location.hash) return;
  const focused = document.activeElement?.getAttribute("href");
  const [top, left] = [scrollY, document.querySelector(".scroll")?.scrollLeft ?? 0];
  main.replaceChildren(...content.filter(Boolean));
  document.title = name ? `${name} - StreamScope` : "StreamScope";
  if (isNew && shown !== here) main.focus();
  else if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  scrollTo(0, isNew ? 0 : top);
  const region = document.querySelector(".scroll");
  if (region && !isNew) region.scrollLeft = left;
  shown = here;
}

document.getElementById("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", document.getElementById("token").value);
  event.target.hidden = true;
  refresh(true);
});
addEventListener("hashchange", () => refresh(true));
refresh(true);
follow();
