// The page: a list of jobs, and one job in tabs. All it shows comes from /api as JSON.

import { changes, moments, why } from "./computed.js";
import { bytes, findings, make, named, percent, precise, rate, rowTable, seconds, spark, table, time, watermark } from "./parts.js";
import { ask, read, refusal } from "./server.js";

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const TABS = { "": "Overview", plan: "Plan", timeline: "What happened", logs: "Logs", output: "Output",
  table: "Current rows", at: "Any moment", late: "Late rows", dead_letters: "Dead letters",
  changes: "Deploy and savepoints" };
const OUTPUT_HEADS = ["output", "state", "watermark (UTC)", "behind", "held back by"];
const SILENT_S = 8;
// A column of more stages than this has small boxes.
const COMPACT_ROWS = 12;
// Rows of an output that a view reads, at most.
const ROWS = 200;
const NO_ROWS = { output: "No rows yet.", table: "No row is valid now. The tab Output has all rows.",
  late: "No late rows.", dead_letters: "No dead letters." };
const CLOSED = ["finished", "failed", "cancelled", "stopped", "interrupted", "broken", "unknown"];
let list = { jobs: [], unread: {}, can_change: false, trouble: "", bundle: {} };
let shown = "", heard = 0, begin;
// Resolved with the first list: only that says whether the page may change jobs.
const begun = new Promise((resolve) => { begin = resolve; });
const closed = new Set();

// ---- news from the server

// fetch and not EventSource, which cannot send a token
async function follow() {
  for (;;) {
    try {
      const answer = await ask("api/events");
      if (!answer.ok) throw new Error(refusal(answer, await answer.json()));
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
          heard = Date.now();
          begin();
          tellConnection();
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

function tellConnection() {
  const silent = Math.round((Date.now() - heard) / 1000);
  connection.className = "";
  if (Object.keys(list.bundle ?? {}).length) {
    connection.textContent = `a bundle, written ${time(list.bundle.written_us)} UTC by release ${list.bundle.release}`;
  } else if (list.trouble) {
    connection.className = "degraded";
    connection.textContent = `the server cannot read its folder: ${list.trouble}; as of ${Math.round(list.age_s)} s ago`;
  } else if (heard && silent >= SILENT_S) {
    connection.className = "degraded";
    connection.textContent = `not live: no news from the server for ${silent} s`;
  } else if (heard) {
    connection.textContent = `live, ${time(heard * 1000).slice(11)} UTC${list.export_trouble ? `; an export fails: ${list.export_trouble}` : ""}`;
  }
}

// ---- the list of jobs

// A failed job is always "degraded": that adds nothing.
const stateOf = (job) => job.health === "ok" || job.state === "failed" ? job.state : `${job.state}, ${job.health}`;

function later(summary, rows) {
  const remember = (event) => (event.target.open ? closed.delete(summary) : closed.add(summary));
  return rows.length ? make("details", { open: !closed.has(summary), ontoggle: remember }, make("summary", {}, `${summary} (${rows.length})`), findings(rows)) : null;
}

function showList() {
  if (!heard) return [make("p", {}, "Reading the jobs ...")];
  const all = list.jobs.flatMap((job) => named(job.findings, job, job.name, true));
  const needs = ["degraded", "waiting"].flatMap((gravity) => all.filter((row) => row.gravity === gravity));
  const jobs = list.jobs.map((job) => [
    make("a", { href: `#/${encodeURIComponent(job.name)}` }, job.name),
    make("span", { class: `state ${job.health}` }, stateOf(job)),
    job.events_in ?? 0, job.events_out ?? 0, rate(job.looks, 1), spark(job.looks, 1, "events in"),
    job.late_events ?? 0, job.bad_rows ?? 0, job.restarts ?? 0]);
  const outputs = list.jobs.flatMap((job) => job.outputs.map((out) => [
    make("a", { href: `#/${encodeURIComponent(job.name)}` }, job.name), out.output, out.state,
    out.watermark_us === undefined ? "" : watermark(out.watermark_us),
    out.lag_s !== undefined ? seconds(out.lag_s) : `${(out.lag_items ?? 0).toLocaleString("en")} items`, out.held_by]));
  return [
    make("h2", {}, "What needs you"),
    needs.length ? findings(needs) : make("p", {}, list.jobs.length ? "Nothing: all jobs are well." : "There is no job in this folder."),
    later("Worth knowing: missing rows, idle inputs, failures of the last day", all.filter((row) => row.gravity === "note")),
    ...Object.entries(list.unread).map(([path, why]) => make("p", { class: "waiting" }, `${path} cannot be read: ${why}`)),
    make("h2", {}, "Freshness"),
    table("Outputs: watermark, and how far it is behind the newest row", ["job", ...OUTPUT_HEADS], outputs),
    make("h2", {}, "Jobs"),
    table("Jobs in this folder", ["job", "state", "events in", "out", "in per s", "in per s, 1 min", "late", "bad", "restarts"], jobs)];
}

// ---- one job

async function showJob(name, tab) {
  const base = `api/jobs/${encodeURIComponent(name)}`;
  const tabs = make("nav", { class: "tabs", "aria-label": "Views of the job" },
    ...Object.entries(TABS).map(([key, title]) => make("a", {
      href: `#/${encodeURIComponent(name)}${key && `/${key}`}`, "aria-current": key === tab ? "page" : undefined }, title)));
  const views = { "": overview, plan, timeline, logs, at: moments, changes: () => begun.then(() => changes(base, list.can_change)) };
  const stage = tab === "plan" && place().stage;
  const content = stage ? await stageDetail(base, name, stage)
    : views[tab] ? await views[tab](base, name) : await rows(base, tab, name);
  return [make("h2", {}, name), tabs, ...content];
}

async function overview(base, name) {
  const job = await read(base), s = job.status;
  const found = named(job.findings, s, name), isOpen = !CLOSED.includes(s.state);
  const logs = (s.vertices ?? []).flatMap((v) => (v.logs ?? []).map((log) => [
    stageLink(name, v.stage), String(log.partition), log.state + (log.holds_back ? ", holds time back" : ""),
    log.lag_rows ?? "", seconds(log.lag_s), watermark(log.frontier_us)]));
  const vertices = vertexRows(job, s.vertices ?? [], name);
  const deliveries = (s.deliveries ?? []).map((d) => [d.delivery, String(d.partition), d.state, d.rows, d.lag_items, d.error]);
  const hosts = (s.hosts ?? []).map((h) => [h.host, h.state, h.machine, String(h.pid ?? ""),
    h.memory ? bytes(h.memory.used_bytes) : "", h.memory ? bytes(h.memory.limit_bytes) : "",
    list.can_change && !h.cannot_drain ? make("button", { click: () => act(name, "drain", h.host) }, `Drain ${h.host}`) : ""]);
  return [
    make("p", {}, make("span", { class: `state ${s.health}` }, stateOf(s)),
      s.error && !found.some((row) => row.what.includes(s.error)) ? `: ${s.error}` : "",
      s.written_us ? ` (status of ${time(s.written_us)} UTC)` : ""),
    make("h3", {}, "Findings"),
    found.length ? findings(found) : make("p", {}, "Nothing is wrong."),
    buttons(name, isOpen),
    make("h3", {}, isOpen ? "Now" : "At its end"),
    ...(isOpen ? [table("Events per second, the last 5 min", ["direction", "now", "plotted"],
      [["in", 1], ["out", 2]].map(([way, column]) => [way, rate(job.looks, column), spark(job.looks, column, `events ${way}`)]))] : []),
    ...(logs.length ? [table("Partitions of live inputs", ["stage", "partition", "state", "rows left", "age of the newest row", "time reached (UTC)"], logs)] : []),
    table("Outputs: watermark, and how far it is behind the newest row", OUTPUT_HEADS, job.outputs.map((out) => [out.output, out.state,
      out.watermark_us === undefined ? "" : watermark(out.watermark_us),
      out.lag_s !== undefined ? seconds(out.lag_s) : `${(out.lag_items ?? 0).toLocaleString("en")} items`, out.held_by])),
    table("Vertices", VERTEX_HEADS, vertices), ...(job.states ?? []).map((line) => make("p", {}, line)),
    ...(deliveries.length ? [table("Deliveries", ["delivery", "partition", "state", "rows", "items left", "error"], deliveries)] : []),
    table("Hosts", ["host", "state", "machine", "pid", "memory", "limit", "drain"], hosts)];
}

const VERTEX_HEADS = ["vertex", "state", "host", "events in", "out", "in per s", "busy", "in user code", "watermark (UTC)", "lag", "state size", "unflushed", "restarts"];

// The last status of a job that has ended may still have its vertices as running.
function vertexState(job, v) {
  if (v.state !== "running" || !CLOSED.includes(job.status.state)) return v.state;
  return (job.status.error ?? "").startsWith(`${v.vertex}: `) ? "failed" : "stopped";
}

function vertexRows(job, rows, name) {
  return rows.map((v) => {
    const share = job.shares[v.vertex] ?? {};
    return [stageLink(name, v.stage, v.vertex), vertexState(job, v) + (v.blocked ? ", waits for its readers" : ""), v.host, v.events_in, v.events_out,
      Math.round(share.in_per_s ?? 0), percent(share.busy), percent(share.user), watermark(v.cti_us), seconds(v.cti_lag_s), bytes(v.state_bytes), bytes(v.tail_bytes), v.restarts];
  });
}

function stageLink(name, stage, text = stage) {
  return make("a", { href: `#/${encodeURIComponent(name)}/plan/${encodeURIComponent(stage)}` }, text);
}

const VERBS = { savepoint: "Take a savepoint", stop: "Stop, keep the state", finish: "End the sources", rescale: "Rescale", cancel: "Cancel", retry: "Retry deliveries" };
const EFFECTS = { stop: "The job stops and keeps its state. jobmanager resume continues exactly there.",
  finish: "Its sources end, open windows close, and the job finishes.",
  cancel: "The job ends at once. Durable data stays, and jobmanager resume can continue it." };

function buttons(name, isOpen) {
  if (!isOpen) return null;
  if (!list.can_change) return make("p", { class: "note" }, "This page only shows: serve it with --token-file to change jobs from it.");
  return make("div", { class: "buttons" }, ...Object.entries(VERBS).map(([verb, title]) =>
    make("button", { click: () => act(name, verb) }, title)));
}

async function act(name, verb, host = "") {
  const dialog = document.getElementById("confirm");
  const number = document.getElementById("number"), isRescale = verb === "rescale";
  document.getElementById("question").textContent = `${host || name}: ${(VERBS[verb] ?? verb).toLowerCase()}? ${EFFECTS[verb] ?? ""}`;
  number.hidden = !isRescale;
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  if (dialog.returnValue !== "yes") return;
  const asked = isRescale ? `vertices=${number.firstElementChild.value}&stage=` : "host=";
  const told = document.getElementById("answer");
  told.textContent = `${verb} ${host || name}: requested`;
  const answer = await ask(`api/jobs/${encodeURIComponent(name)}/${verb}?${asked}${encodeURIComponent(host)}`, { method: "POST" });
  const found = await answer.json();
  told.textContent = `${verb} ${host || name}: ${answer.ok ? found.requested : refusal(answer, found)}`;
}

async function plan(base, name) {
  const [found, job] = await Promise.all([read(`${base}/plan`), read(base)]);
  const by = {};
  for (const v of job.status.vertices ?? []) (by[v.stage] ??= []).push(v);
  const isWide = Math.max(...found.stages.map((s) => s.row)) >= COMPACT_ROWS;
  const W = 240, H = isWide ? 32 : 112, GAP = 90, at = {};
  for (const s of found.stages) at[s.stage] = [s.column * (W + GAP) + 8, s.row * (H + (isWide ? 6 : 22)) + 8];
  const width = Math.max(...found.stages.map((s) => at[s.stage][0] + W)) + 8;
  const height = Math.max(...found.stages.map((s) => at[s.stage][1] + H)) + 8;
  const share = (v, key) => (job.shares[v.vertex] ?? {})[key] ?? 0;
  const edges = found.stages.flatMap((s) => s.after.flatMap((other) => {
    const [x, y] = at[other], [a, b] = at[s.stage];
    const perS = Math.round((by[s.stage] ?? []).reduce((total, v) => total + share(v, "in_per_s"), 0));
    return [make("path", { class: "edge", d: `M${x + W},${y + H / 2} C${x + W + GAP / 2},${y + H / 2} ${a - GAP / 2},${b + H / 2} ${a},${b + H / 2}` }),
      make("text", { x: a - GAP + 6, y: (y + b) / 2 + H / 2 - 6, class: "soft" }, perS ? `${perS.toLocaleString("en")}/s` : "")];
  }));
  const stages = found.stages.map((s) => {
    const rows = by[s.stage] ?? [], [x, y] = at[s.stage];
    const lag = Math.max(...rows.map((v) => v.cti_lag_s ?? 0), 0);
    const total = (key) => rows.reduce((sum, v) => sum + (v[key] ?? 0), 0);
    const busy = Math.max(...rows.map((v) => share(v, "busy")), 0);
    const kind = rows.some((v) => ["failed", "lost"].includes(vertexState(job, v))) ? "bad" : rows.some((v) => v.blocked) || total("tail_bytes") > 2 ** 25 ? "late" : busy > 0.8 ? "hot" : rows.some((v) => vertexState(job, v) === "running") ? "busy" : "";
    const least = rows.length ? rows.reduce((a, v) => (v.cti_us < a.cti_us ? v : a)).cti_us : undefined;
    const lines = [`${s.stage}${s.parallelism > 1 ? `, ${s.parallelism} vertices` : ""}`, (s.operators[0] ?? "").slice(0, 30),
      `${total("events_in").toLocaleString("en")} in, ${total("events_out").toLocaleString("en")} out`,
      least === undefined ? "" : `at ${watermark(least)}, lag ${seconds(lag)}`,
      `${percent(busy)} busy, state ${bytes(total("state_bytes"))}`];
    if (isWide) lines.splice(0, lines.length, `${s.stage}: ${total("events_in").toLocaleString("en")} in, ${percent(busy)} busy`.slice(0, 34));
    return make("g", {}, make("title", {}, s.operators.join("\n")),
      make("rect", { class: `stage ${kind}`, x, y, width: W, height: H, rx: 6 }),
      ...lines.map((line, i) => make("text", { x: x + 10, y: y + 20 + i * 20, class: i === 1 ? "soft" : "" }, line)));
  });
  return [
    make("p", { class: "note" }, "Green: running. Blue: busy all the time. Orange: waits for its readers. Red: failed. Grey: ended."),
    make("div", { class: "scroll drawing", tabindex: "0", role: "region", "aria-label": "The plan, drawn" },
      make("svg", { width, height, role: "img", "aria-label": "The plan: stages from inputs to the output; the table below says the same" }, ...edges, ...stages)),
    table("Stages", ["stage", "vertices", "after", "does"], found.stages.map((s) =>
      [stageLink(name, s.stage), s.parallelism, s.after.join(", "), s.operators.join("; ")]))];
}

async function stageDetail(base, name, stage) {
  const [found, job] = await Promise.all([read(`${base}/plan`), read(base)]);
  const s = found.stages.find((one) => one.stage === stage);
  if (!s) return [make("p", {}, `There is no stage ${stage}.`)];
  const rows = (job.status.vertices ?? []).filter((v) => v.stage === stage);
  const about = job.findings.filter((row) => rows.some((v) => row.about.startsWith(v.vertex)) || row.about.includes(stage));
  const instances = rows.flatMap((v) => v.instances.map((i) => [v.vertex, i.role, i.state, i.host, String(i.pid ?? ""), String(i.epoch), i.checkpoint, i.inputs.join(", "), i.outputs.join(", "), i.durable.join(", ")]));
  const functions = rows.filter((v) => v.function).map((v) => [v.vertex, v.function, seconds(v.user_us / 1e6), seconds(v.busy_us / 1e6)]);
  return [make("h3", {}, `Stage ${stage}`),
    make("p", {}, s.after.length ? `It reads ${s.after.join(", ")}.` : "It reads an input."),
    make("ol", {}, ...s.operators.map((line) => make("li", {}, make("code", {}, line)))),
    ...(about.length ? [make("h4", {}, "Findings"), findings(named(about, job.status, name))] : []),
    list.can_change ? make("button", { click: () => act(name, "rescale", stage) }, `Rescale ${stage}`) : "",
    table("Vertices", VERTEX_HEADS, vertexRows(job, rows, name)),
    ...(functions.length ? [table("User code, sampled", ["vertex", "function", "time in it", "time of the vertex"], functions)] : []),
    table("Instances", ["vertex", "role", "state", "host", "pid", "epoch", "checkpoint", "read to", "written to", "durable to"], instances),
    make("p", {}, make("a", { href: `#/${encodeURIComponent(name)}/at` }, "Its state at any moment"))];
}

async function timeline(base) {
  const found = (await read(`${base}/timeline`)).reverse();
  const failures = found.filter((row) => row.failure);
  const cells = (row) => [time(row.at_us), row.failure ? make("span", { class: "degraded" }, row.text) : row.text];
  return [failures.length ? table("Failures, the latest first", ["time (UTC)", "what failed"], failures.map(cells)) : make("p", {}, "Nothing has failed."),
    table("What happened, the latest first", ["time (UTC)", "what"], found.map(cells))];
}

async function logs(base) {
  const found = (await read(`${base}/logs`)).reverse();
  return [make("p", { class: "note" }, "The log of the job with its checkpoints; jobmanager logs prints the same. A failure opens its trace."),
    table("Logs, the latest first", ["time (UTC)", "vertex", "what"], found.map((row) => [time(row.at_us), row.vertex,
      row.detail ? make("details", {}, make("summary", {}, row.text), make("pre", {}, row.detail)) : row.text]))];
}

async function rows(base, kind, name, output = place().stage) {
  const { rows: found, conditions, outputs } = await read(`${base}/rows/${kind}?n=${ROWS}&output=${encodeURIComponent(output)}`);
  const others = outputs.length > 1 ? make("nav", { class: "tabs", "aria-label": "Outputs, sources or deliveries of the job" },
    ...outputs.map((one, i) => make("a", { href: `#/${encodeURIComponent(name)}/${kind}/${encodeURIComponent(one)}`, "aria-current": one === output || (!output && !i) ? "page" : undefined }, one))) : null;
  if (!found.length) return [others, make("p", {}, NO_ROWS[kind])];
  const answer = make("section", { "aria-live": "polite" });
  const ask = (i) => make("button", { click: () => why(base, conditions[i], answer) }, "Why?");
  const can = conditions.length > 0 && !Object.keys(list.bundle ?? {}).length;
  const curve = kind !== "late" ? [] : (await read(base)).findings.filter((row) => row.kind === "late rows");
  return [others, ...(curve.length ? [findings(curve)] : []), answer,
    ...(kind === "late" ? [make("p", { class: "note" }, "_vs to _ve: when the row is valid. _frontier: the watermark of the source when the row came. All in UTC.")] : []),
    rowTable(TABS[kind], kind === "late" ? found.map(readable) : found, can ? { head: "why", cell: ask } : null, ROWS)];
}

// Late rows have their times as microseconds.
function readable(row) {
  const times = Object.fromEntries(["_vs", "_ve", "_frontier"].filter((key) => /^-?\d+$/.test(row[key] ?? "")).map((key) => [key, precise(row[key])]));
  return { ...row, ...times };
}

// ---- which view is shown

function place() {
  const [name = "", tab = "", stage = ""] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  return { name, tab: tab in TABS ? tab : "", stage };
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
  // Several links may share an address, such as those of one job: the k-th stays the k-th.
  const named = (node) => [node.tagName, node.getAttribute("href") ?? node.getAttribute("aria-label") ?? node.textContent].join(" ");
  const alike = (name) => [...main.querySelectorAll("a, button, summary, .scroll")].filter((node) => named(node) === name);
  const focused = document.activeElement, isInside = main.contains(focused) && focused !== main;
  const active = isInside ? named(focused) : "", order = isInside ? alike(active).indexOf(focused) : 0;
  const [top, left] = [scrollY, document.querySelector(".scroll")?.scrollLeft ?? 0];
  main.replaceChildren(...content.filter(Boolean));
  document.title = name ? `${name} - StreamScope` : "StreamScope";
  if (isNew && shown && shown !== (here || "#/")) main.focus();
  else if (active) alike(active).at(order)?.focus({ preventScroll: true });
  scrollTo(0, isNew ? 0 : top);
  const region = document.querySelector(".scroll");
  if (region && !isNew) region.scrollLeft = left;
  shown = here || "#/";
}

document.getElementById("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", document.getElementById("token").value);
  event.target.hidden = true;
  document.getElementById("answer").textContent = "";
  // Keep the entries of a form: only a view that could not be read is read again.
  if (!document.querySelector("main form")) refresh(true);
});
addEventListener("hashchange", () => refresh(true));
setInterval(tellConnection, 1000);
refresh(true);
follow();
