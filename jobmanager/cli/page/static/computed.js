// Views that the server computes on request: why a row is there, any moment, a deployment.

import { findings, make, rowTable, table, time, watermark } from "./parts.js";
import { ask, read, refusal } from "./server.js";

export async function why(base, condition, answer) {
  answer.replaceChildren(make("p", {}, `Computing why the row with ${condition} is there ...`));
  answer.scrollIntoView({ block: "start" });
  try {
    const found = await read(`${base}/why?row=${encodeURIComponent(condition)}`);
    const text = (row) => Object.fromEntries(Object.entries(row).map(([k, v]) => [k, typeof v === "string" ? v : JSON.stringify(v)]));
    answer.replaceChildren(make("h3", {}, "Why this row"), rowTable("The row", [text(found.row)]),
      ...Object.entries(found.inputs).map(([vertex, rows]) => rowTable(`Input rows of ${vertex} that make it`, rows.map(text))),
      table("Its way through the plan", ["vertex", "events in", "events out"], found.stages),
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
  if (!answer.ok) return button.replaceWith(refusal(answer, await answer.json()));
  const href = URL.createObjectURL(await answer.blob());
  const link = make("a", { href, download: "capsule.zip" }, "capsule.zip");
  button.replaceWith(link);
  return link.click();
}

export async function moments(base) {
  const [range, drawn] = await Promise.all([read(`${base}/moments`), read(`${base}/plan`)]);
  if (range.from_us === null) return [make("p", {}, "The answer has no rows yet.")];
  const span = range.until_us - range.from_us;
  const stamp = (us) => new Date(us / 1000).toISOString().slice(0, 23);
  const answer = make("section", { "aria-live": "polite" });
  const moment = make("input", { id: "moment", type: "text", value: stamp(range.from_us + span / 2), size: 26 });
  const slide = (event) => { moment.value = stamp(range.from_us + (span * event.target.value) / 1000); };
  const slider = make("input", { id: "slider", type: "range", min: 0, max: 1000, value: 500, oninput: slide });
  const what = make("select", { id: "what" }, ...range.outputs.map((one) => make("option", { value: `output ${one}` }, range.outputs.length > 1 ? `rows of ${one}, valid then` : "rows valid then")),
    ...drawn.stages.map((s) => make("option", { value: `stage ${s.stage}` }, `state of ${s.stage}`)));
  const compute = async (event) => {
    event.preventDefault();
    answer.replaceChildren(make("p", {}, "Computing ..."));
    try {
      const [kind, one] = [what.value.slice(0, what.value.indexOf(" ")), what.value.slice(what.value.indexOf(" ") + 1)];
      const us = Math.round(Date.parse(`${moment.value}Z`) * 1000);
      if (Number.isNaN(us)) throw new Error(`${moment.value} is not a time: write 2026-01-31T10:30:00`);
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

function differences(found) {
  if (found.equal) return [make("p", { class: "state" }, `Both versions give the same ${found.old_rows} rows.`)];
  const text = (row) => Object.fromEntries(Object.entries(row).map(([k, v]) => [k, String(v)]));
  const { changed, only_old, only_new } = found.samples;
  const pairs = changed.flatMap(({ old, new: now, columns }) => columns.map((column) => [found.keys.map((key) => `${key} ${old[key]}`).join(", "), column, String(old[column]), String(now[column])]));
  return [make("p", { class: "state" }, `${found.differing} rows differ: ${found.changed} changed, ${found.only_old} only in the old answer, ${found.only_new} only in the new one.`),
    pairs.length ? table("Changed rows", ["row", "column", "old", "new"], pairs) : null,
    only_old.length ? rowTable("Only in the old answer", only_old.map(text)) : null,
    only_new.length ? rowTable("Only in the new answer", only_new.map(text)) : null].filter(Boolean);
}

export async function changes(base, canChange) {
  const [saved, job] = await Promise.all([read(`${base}/savepoints`), read(base)]);
  const answer = make("section", { "aria-live": "polite" });
  const file = make("input", { id: "file", type: "text", size: 40, placeholder: "/srv/queries/new.py" });
  const asked = async (what, show) => {
    answer.replaceChildren(make("p", {}, "Comparing ..."));
    const reply = await ask(`${base}/${what}?file=${encodeURIComponent(file.value)}`, { method: "POST" });
    const found = await reply.json();
    if (!reply.ok) return answer.replaceChildren(make("p", { class: "waiting" }, refusal(reply, found)));
    return show(found);
  };
  const compare = (found) => {
    const lost = found.stages.filter((row) => !["kept", "converted", "started"].includes(row.verdict));
    return answer.replaceChildren(
      make("p", { class: "state" }, found.refused.length ? "This deployment is refused." : lost.length ? `${lost.length} ${lost.length === 1 ? "stage would lose its" : "stages would lose their"} state.` : "Every stage keeps its state."),
      ...(found.refused.length ? [findings(found.refused.map((what) => ({ gravity: "degraded", what })))] : []),
      table("What a deployment would change", ["stage", "was", "its state is", "why"], found.stages.map((row) => [row.stage, row.former, row.verdict, row.reason])),
      make("p", { class: "note" }, "To deploy it: ", make("code", {}, `jobmanager deploy ${file.value} ${job.status.root ?? "ROOT"} --approve ${found.hash}`)));
  };
  const submit = (event) => { event.preventDefault(); asked("compare", compare); };
  const differ = () => asked("diff", (found) => answer.replaceChildren(...differences(found)));
  const form = make("form", { class: "moment", onsubmit: submit }, make("label", { for: "file" }, "File of the new query, its path on the server"), file, make("button", {}, "Compare"),
    make("button", { type: "button", click: differ }, "Which rows change?"));
  const open = job.status.change;
  return [open ? findings([{ gravity: "waiting", what: `a ${open.kind} is requested and not done` }]) : null,
    make("h3", {}, "Savepoints"),
    saved.length ? table("Savepoints, the oldest first", ["name", "event time (UTC)", "taken (UTC)", "vertices", "plan"], saved.map((row) =>
      [row.undone ? `${row.name} (undone)` : row.name, watermark(row.time_us), time(row.created_us), row.vertices, row.plan_hash.slice(0, 12)])) : make("p", {}, `No savepoint yet. To take one: jobmanager savepoint ${job.status.root ?? "ROOT"}`),
    make("h3", {}, "What would a deployment change?"),
    canChange ? form : make("p", { class: "note" }, "To compare a new query here, serve the page with --token-file: it runs that file. In a terminal: jobmanager deploy NEW.py ROOT --dry-run"), answer];
}
