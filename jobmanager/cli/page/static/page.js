// The page: a list of jobs, and one job in tabs. All it shows comes from /api as JSON.

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const TABS = { "": "Overview", plan: "Plan", timeline: "What happened", logs: "Logs", output: "Output",
  table: "Current rows", at: "Any moment", late: "Late rows", dead_letters: "Dead letters",
  changes: "Savepoints and changes" };
const SILENT_S = 8;
// A column of more stages than this has small boxes.
const COMPACT_ROWS = 12;
const INFINITE = 9223372036854775807n;
let list = { jobs: [], unread: {}, can_change: false, trouble: "", bundle: {} };
let shown = "", heard = 0;
const closed = new Set();

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
          heard = Date.now();
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
    connection.textContent = `live, ${new Date(heard).toLocaleTimeString()}${list.export_trouble ? `; an export fails: ${list.export_trouble}` : ""}`;
  }
}

// ---- making elements: text is always set as text

function make(tag, attributes = {}, ...children) {
  const space = ["svg", "g", "rect", "text", "path", "title", "polyline"].includes(tag);
  const node = space ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "click") node.addEventListener("click", value);
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

function later(summary, rows) {
  const remember = (event) => (event.target.open ? closed.delete(summary) : closed.add(summary));
  return rows.length ? make("details", { open: !closed.has(summary), ontoggle: remember }, make("summary", {}, `${summary} (${rows.length})`), findings(rows)) : null;
}

// ---- the list of jobs

function showList() {
  if (!heard) return [make("p", {}, "Reading the jobs ...")];
  const all = list.jobs.flatMap((job) => job.findings.map((row) => ({ ...row, what: `${job.name}: ${row.what}` })));
  const needs = ["degraded", "waiting"].flatMap((gravity) => all.filter((row) => row.gravity === gravity));
  const jobs = list.jobs.map((job) => [
    make("a", { href: `#/${encodeURIComponent(job.name)}` }, job.name),
    make("span", { class: `state ${job.health}` }, job.health === "ok" ? job.state : `${job.state}, ${job.health}`),
    job.events_in ?? 0, job.events_out ?? 0, rate(job.looks, 1), spark(job.looks, 1, "events in"),
    job.late_events ?? 0, job.bad_rows ?? 0, job.restarts ?? 0]);
  const outputs = list.jobs.flatMap((job) => job.outputs.map((out) => [
    make("a", { href: `#/${encodeURIComponent(job.name)}` }, job.name), out.output, out.state,
    out.watermark_us === undefined ? "" : watermark(out.watermark_us),
    out.lag_s !== undefined ? seconds(out.lag_s) : `${(out.lag_items ?? 0).toLocaleString("en")} items`, out.held_by]));
  return [
    make("h2", {}, "What needs you"),
    needs.length ? findings(needs) : make("p", {}, list.jobs.length ? "Nothing: all jobs are well." : "There is no job in this folder."),
    later("Worth knowing: rows that are missing, idle inputs, what failed in the last day", all.filter((row) => row.gravity === "note")),
    ...Object.entries(list.unread).map(([path, why]) => make("p", { class: "waiting" }, `${path} cannot be looked into: ${why}`)),
    make("h2", {}, "Freshness"),
    table("Outputs: event time reached, and how far it is behind", ["job", "output", "state", "watermark (UTC)", "behind", "held back by"], outputs),
    make("h2", {}, "Jobs"),
    table("Jobs in this folder", ["job", "state", "events in", "out", "in per s", "events in per s, 1 min", "late", "bad", "restarts"], jobs)];
}

// ---- one job

async function showJob(name, tab) {
  const base = `api/jobs/${encodeURIComponent(name)}`;
  const tabs = make("nav", { class: "tabs", "aria-label": "Views of the job" },
    ...Object.entries(TABS).map(([key, title]) => make("a", {
      href: `#/${encodeURIComponent(name)}${key && `/${key}`}`, "aria-current": key === tab ? "page" : undefined }, title)));
  const views = { "": overview, plan, timeline, logs, at: moments, changes };
  const stage = tab === "plan" && place().stage;
  const content = stage ? await stageDetail(base, name, stage)
    : views[tab] ? await views[tab](base, name) : await rows(base, tab, name);
  return [make("h2", {}, name), tabs, ...content];
}

async function overview(base, name) {
  const job = await read(base), found = job.findings;
  const s = job.status;
  const logs = (s.vertices ?? []).flatMap((v) => (v.logs ?? []).map((log) => [
    stageLink(name, v.stage), String(log.partition), log.state + (log.holds_back ? ", holds time back" : ""),
    log.lag_rows ?? "", seconds(log.lag_s), watermark(log.frontier_us)]));
  const vertices = vertexRows(job, s.vertices ?? [], name);
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
    table("Per second, the last minutes", ["events in", "events in, plotted", "events out", "events out, plotted"], [[rate(job.looks, 1), spark(job.looks, 1, "events in"), rate(job.looks, 2), spark(job.looks, 2, "events out")]]),
    ...(logs.length ? [table("Partitions of live inputs", ["stage", "partition", "state", "rows left", "age of the newest row", "time reached (UTC)"], logs)] : []),
    table("Outputs", ["output", "state", "watermark (UTC)", "behind", "held back by"], job.outputs.map((out) => [out.output, out.state,
      out.watermark_us === undefined ? "" : watermark(out.watermark_us),
      out.lag_s !== undefined ? seconds(out.lag_s) : `${(out.lag_items ?? 0).toLocaleString("en")} items`, out.held_by])),
    table("Vertices", VERTEX_HEADS, vertices),
    ...(deliveries.length ? [table("Deliveries", ["delivery", "partition", "state", "rows", "items left", "error"], deliveries)] : []),
    table("Hosts", ["host", "state", "machine", "pid", "memory", "limit", "drain"], hosts)];
}

const VERTEX_HEADS = ["vertex", "state", "host", "events in", "out", "in per s", "busy", "in user code", "watermark (UTC)", "lag", "state", "in memory", "restarts"];
const percent = (share) => share === undefined ? "" : `${Math.round(100 * share)} %`;

function vertexRows(job, rows, name) {
  return rows.map((v) => {
    const share = job.shares[v.vertex] ?? {};
    return [stageLink(name, v.stage, v.vertex), v.state + (v.blocked ? ", waits for its readers" : ""), v.host, v.events_in, v.events_out,
      Math.round(share.in_per_s ?? 0), percent(share.busy), percent(share.user), watermark(v.cti_us), seconds(v.cti_lag_s), bytes(v.state_bytes), bytes(v.tail_bytes), v.restarts];
  });
}

function stageLink(name, stage, text = stage) {
  return make("a", { href: `#/${encodeURIComponent(name)}/plan/${encodeURIComponent(stage)}` }, text);
}

function buttons(name, state) {
  const verbs = { savepoint: "Take a savepoint", stop: "Stop, keep the state", finish: "Finish: end its sources", rescale: "Rescale", cancel: "Cancel", retry: "Retry deliveries" };
  const isOpen = !["finished", "failed", "cancelled", "stopped", "interrupted", "broken", "unknown"].includes(state);
  if (!isOpen) return null;
  if (!list.can_change) return make("p", { class: "note" }, "This page only shows: serve it with --token-file to change jobs from it.");
  return make("div", { class: "buttons" }, ...Object.entries(verbs).map(([verb, title]) =>
    make("button", { click: () => act(name, verb) }, title)));
}

async function act(name, verb, host = "") {
  const dialog = document.getElementById("confirm");
  const number = document.getElementById("number"), isRescale = verb === "rescale";
  document.getElementById("question").textContent = `${verb} ${host || name}?`;
  number.hidden = !isRescale;
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  if (dialog.returnValue !== "yes") return;
  const asked = isRescale ? `vertices=${number.firstElementChild.value}&stage=` : "host=";
  const told = document.getElementById("answer");
  told.textContent = `${verb} ${host || name}: requested`;
  const answer = await ask(`api/jobs/${encodeURIComponent(name)}/${verb}?${asked}${encodeURIComponent(host)}`, { method: "POST" });
  const found = await answer.json();
  told.textContent = `${verb} ${host || name}: ${answer.ok ? found.requested : found.error}`;
}

async function plan(base, name) {
  const [found, job] = await Promise.all([read(`${base}/plan`), read(base)]);
  const by = {};
  for (const v of job.status.vertices ?? []) (by[v.stage] ??= []).push(v);
  const isWide = Math.max(...found.stages.map((s) => s.row)) >= COMPACT_ROWS;
  const W = 216, H = isWide ? 32 : 112, GAP = 90, at = {};
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
    const kind = rows.some((v) => ["failed", "lost"].includes(v.state)) ? "bad" : rows.some((v) => v.blocked) || total("tail_bytes") > 2 ** 25 ? "late" : busy > 0.8 ? "hot" : rows.some((v) => v.state === "running") ? "busy" : "";
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
    make("p", { class: "note" }, "Green: it runs. Blue: it is busy all the time. Orange: it waits for its readers. Red: it failed."),
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
    ...(about.length ? [make("h4", {}, "Findings"), findings(about)] : []),
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

function rowTable(title, found, last) {
  const heads = Object.keys(found[0]);
  return table(title, last ? [...heads, last.head] : heads, found.map((row, i) => [...heads.map((head) => row[head]), ...(last ? [last.cell(i)] : [])]));
}

async function rows(base, kind, name, output = place().stage) {
  const { rows: found, conditions, outputs } = await read(`${base}/rows/${kind}?n=200&output=${encodeURIComponent(output)}`);
  const others = outputs.length > 1 ? make("nav", { class: "tabs", "aria-label": "Outputs, sources or deliveries of the job" },
    ...outputs.map((one, i) => make("a", { href: `#/${encodeURIComponent(name)}/${kind}/${encodeURIComponent(one)}`, "aria-current": one === output || (!output && !i) ? "page" : undefined }, one))) : null;
  if (!found.length) return [others, make("p", {}, "There are no such rows.")];
  const answer = make("section", { "aria-live": "polite" });
  const ask = (i) => make("button", { click: () => why(base, conditions[i], answer) }, "Why?");
  const can = conditions.length > 0 && !Object.keys(list.bundle ?? {}).length;
  const curve = kind !== "late" ? [] : (await read(base)).findings.filter((row) => row.kind === "late rows");
  return [others, ...(curve.length ? [findings(curve)] : []), answer,
    rowTable(`${TABS[kind]}, the first 200`, found, can ? { head: "why", cell: ask } : null)];
}

async function why(base, condition, answer) {
  answer.replaceChildren(make("p", {}, `Computing why the row with ${condition} is there ...`));
  answer.scrollIntoView({ block: "start" });
  try {
    const found = await read(`${base}/why?row=${encodeURIComponent(condition)}`);
    const text = (row) => Object.fromEntries(Object.entries(row).map(([k, v]) => [k, typeof v === "string" ? v : JSON.stringify(v)]));
    answer.replaceChildren(make("h3", {}, "Why this row"), rowTable("The row", [text(found.row)]),
      ...Object.entries(found.inputs).map(([vertex, rows]) => rowTable(`Input rows of ${vertex} that make it`, rows.map(text))),
      table("Its way", ["vertex", "events in", "events out"], found.stages),
      make("p", {}, found.smallest ? "These rows alone give the row. Without any one of them it is missing." : "These rows alone give the row; fewer may do."),
      make("p", {}, make("button", { click: (event) => save(`${base}/capsule.zip?row=${encodeURIComponent(condition)}`, event.target) }, "Save as a capsule"),
        " with its input, plan and code. To open it anywhere: ", make("code", {}, "jobmanager replay capsule.zip --trust")),
      make("p", { class: "note" }, "In a terminal: ", make("code", {}, `jobmanager why ROOT --row "${condition.replaceAll('"', "")}"`)));
  } catch (error) {
    answer.replaceChildren(make("p", { class: "waiting" }, error.message));
  }
}

// fetch and not a plain link, which cannot send a token
async function save(path, button) {
  button.textContent = "Computing ...";
  const answer = await ask(path);
  if (!answer.ok) return button.replaceWith((await answer.json()).error);
  const href = URL.createObjectURL(await answer.blob());
  const link = make("a", { href, download: "capsule.zip" }, "capsule.zip");
  button.replaceWith(link);
  return link.click();
}

async function moments(base) {
  const [range, drawn] = await Promise.all([read(`${base}/moments`), read(`${base}/plan`)]);
  if (range.from_us === null) return [make("p", {}, "The answer has no rows yet.")];
  const span = range.until_us - range.from_us;
  const stamp = (us) => new Date(us / 1000).toISOString().slice(0, 23);
  const answer = make("section", { "aria-live": "polite" });
  const moment = make("input", { id: "moment", type: "text", value: stamp(range.from_us + span / 2), size: 26 });
  const slide = (event) => { moment.value = stamp(range.from_us + (span * event.target.value) / 1000); };
  const slider = make("input", { id: "slider", type: "range", min: 0, max: 1000, value: 500, oninput: slide });
  const what = make("select", { id: "what" }, ...range.outputs.map((one) => make("option", { value: `output ${one}` }, range.outputs.length > 1 ? `rows of ${one} that are valid then` : "rows of the answer that are valid then")),
    ...drawn.stages.map((s) => make("option", { value: `stage ${s.stage}` }, `state of ${s.stage}`)));
  const compute = async (event) => {
    event.preventDefault();
    answer.replaceChildren(make("p", {}, "Computing ..."));
    try {
      const [kind, one] = [what.value.slice(0, what.value.indexOf(" ")), what.value.slice(what.value.indexOf(" ") + 1)];
      const us = Math.round(Date.parse(`${moment.value}Z`) * 1000);
      if (Number.isNaN(us)) throw new Error(`${moment.value} is no time`);
      const { rows: found } = await read(`${base}/at?us=${us}&${kind}=${encodeURIComponent(one)}`);
      const title = `${what.selectedOptions[0].textContent}, at ${moment.value} UTC`;
      answer.replaceChildren(...groups(found).map(([name, rows]) => rowTable(name ? `${title}: ${name}` : title, rows)), found.length ? "" : make("p", {}, `${title}: nothing.`));
    } catch (error) {
      answer.replaceChildren(make("p", { class: "waiting" }, error.message));
    }
  };
  return [make("p", {}, `Any moment from ${time(range.from_us)} to ${time(range.until_us)} UTC can be computed again from what the job keeps.`),
    make("form", { class: "moment", onsubmit: compute },
      make("label", { for: "slider" }, "Move in time"), slider,
      make("label", { for: "moment" }, "Event time (UTC)"), moment,
      make("label", { for: "what" }, "Show"), what, make("button", {}, "Compute")), answer];
}

function groups(found) {
  const by = new Map();
  for (const { _table: name = "", ...row } of found) by.set(name, [...(by.get(name) ?? []), row]);
  return [...by];
}

async function changes(base, name) {
  const [saved, job] = await Promise.all([read(`${base}/savepoints`), read(base)]);
  const answer = make("section", { "aria-live": "polite" });
  const file = make("input", { id: "file", type: "text", size: 40, placeholder: "new_query.py" });
  const compare = async (event) => {
    event.preventDefault();
    answer.replaceChildren(make("p", {}, "Comparing ..."));
    const asked = await ask(`${base}/compare?file=${encodeURIComponent(file.value)}`, { method: "POST" });
    const found = await asked.json();
    if (!asked.ok) return answer.replaceChildren(make("p", { class: "waiting" }, found.error));
    const lost = found.stages.filter((row) => !["kept", "converted", "started"].includes(row.verdict));
    return answer.replaceChildren(
      make("p", { class: "state" }, found.refused.length ? "This deployment is refused." : lost.length ? `${lost.length} stages would lose their state.` : "Every stage keeps its state."),
      ...(found.refused.length ? [findings(found.refused.map((what) => ({ gravity: "degraded", what })))] : []),
      table("What a deployment would change", ["stage", "was", "its state is", "why"], found.stages.map((row) => [row.stage, row.former, row.verdict, row.reason])),
      make("p", { class: "note" }, "To deploy it: ", make("code", {}, `jobmanager deploy ${file.value} ROOT --approve ${found.hash}`)));
  };
  const form = make("form", { class: "moment", onsubmit: compare }, make("label", { for: "file" }, "File of the new query, on the server"), file, make("button", {}, "Compare"));
  const open = job.status.change;
  return [open ? findings([{ gravity: "waiting", what: `a ${open.kind} is requested and not done` }]) : null,
    make("h3", {}, "Savepoints"),
    saved.length ? table("Savepoints, the oldest first", ["name", "event time (UTC)", "taken (UTC)", "generation", "vertices", "plan"], saved.map((row) =>
      [row.name, watermark(row.time_us), time(row.created_us), row.generation, row.vertices, row.plan_hash.slice(0, 12)])) : make("p", {}, "There is none: jobmanager savepoint ROOT takes one."),
    make("h3", {}, "What would a deployment change?"),
    list.can_change ? form : make("p", { class: "note" }, "To compare a new query here, serve the page with --token-file: it runs that file. In a terminal: jobmanager deploy NEW.py ROOT --dry-run"), answer];
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
  const named = (node) => [node?.tagName, node?.getAttribute("href") ?? node?.getAttribute("aria-label") ?? node?.textContent].join(" ");
  const active = main.contains(document.activeElement) && document.activeElement !== main ? named(document.activeElement) : "";
  const [top, left] = [scrollY, document.querySelector(".scroll")?.scrollLeft ?? 0];
  main.replaceChildren(...content.filter(Boolean));
  document.title = name ? `${name} - StreamScope` : "StreamScope";
  if (isNew && shown && shown !== (here || "#/")) main.focus();
  else if (active) [...main.querySelectorAll("a, button, summary, .scroll")].find((node) => named(node) === active)?.focus({ preventScroll: true });
  scrollTo(0, isNew ? 0 : top);
  const region = document.querySelector(".scroll");
  if (region && !isNew) region.scrollLeft = left;
  shown = here || "#/";
}

document.getElementById("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", document.getElementById("token").value);
  event.target.hidden = true;
  refresh(true);
});
addEventListener("hashchange", () => refresh(true));
setInterval(tellConnection, 1000);
refresh(true);
follow();
