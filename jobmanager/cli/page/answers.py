"""Data of one job for the page, besides its status: plan, log, savepoints, rows, moments.

All data is read from the files of the root, so this also works for jobs that have ended.
"""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from jobmanager.cli.page.layout import laid_out
from jobmanager.delivery.answer import Answer
from jobmanager.driver.running.side_output import read_dead_letters, read_late, side_names
from jobmanager.errors import NoJobError
from jobmanager.state.held_time import time_of
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.state.sentences import sentence
from jobmanager.storage.root import JobRoot, display_uri
from jobmanager.storage.savepoints import list_with_undone
from planner.explain.json import document
from rstream.items.json_text import json_text, plain_rows
from rstream.types import INF_TIME, MIN_TIME
from rvertex import messages as sent
from rvertex.events.side_output import DEAD_LETTERS, LATE

if TYPE_CHECKING:
    from jobmanager.state.messages import Notice
    from planner.physical.plan import PhysicalPlan

#: Most sentences of a log (the latest), and most rows, in one response.
SENTENCES_MAX, ROWS_MAX = 1_000, 1_000
#: Notices that arrive every few seconds and would fill a timeline.
_ROUTINE = (sent.CheckpointTaken,)
_FAILURES = ("VertexFailed", "HostLost", "OutputDamaged", "OutputLost", "ItemsLost")

_MOMENTS = ("from_us", "until_us")

Notices = list[tuple[int, "Notice"]]


def plan_of(root: str) -> PhysicalPlan:
    """Return the plan of a job. Raises NoJobError."""
    plan = JobRoot(root).read_plan()
    if plan is None:
        raise NoJobError(display_uri(root))
    return plan


def drawn_plan(root: str) -> dict[str, Any]:
    """Return the plan as a graph with positions."""
    shown = document(plan_of(root))
    return shown | {"stages": laid_out(shown["stages"])}


def timeline_of(notices: Notices) -> list[dict[str, Any]]:
    """Return the log as sentences, oldest first, without checkpoints. Losses are marked."""
    rows = []
    for at_us, notice in notices:
        text = "" if isinstance(notice, _ROUTINE) else sentence(notice)
        if text:
            kind = type(notice).__name__
            has_left = getattr(notice, "reason", "") == "stopped"  # the host was requested to stop
            is_failure = kind in _FAILURES and not has_left
            rows.append({"at_us": at_us, "kind": kind, "text": text, "failure": is_failure})
    return rows[-SENTENCES_MAX:]


def log_lines(notices: Notices) -> list[dict[str, Any]]:
    """Return the log with checkpoints, and the traces of failures, the latest last."""
    lines = []
    for at_us, notice in notices:
        text = sentence(notice)
        if text:
            detail = notice.detail.rstrip() if isinstance(notice, sent.VertexFailed) else ""
            vertex = str(getattr(notice, "vertex", ""))
            lines.append({"at_us": at_us, "vertex": vertex, "text": text, "detail": detail})
    return lines[-SENTENCES_MAX:]


def savepoints_of(root: str) -> list[dict[str, Any]]:
    """Return the savepoints of a job, the oldest first."""
    keys = ("name", "created_us", "time_us", "plan_hash")
    return [
        {key: getattr(one, key) for key in keys}
        | {"vertices": len(one.vertices), "undone": is_undone}
        for one, is_undone in list_with_undone(JobRoot(root))
    ]


def rows_of(root: str, kind: str, count: int, output: str = "") -> dict[str, Any]:
    """Return rows as texts. If the job has one output, each row has the SQL condition for ``why``.

    ``output``: the name of an output, or of a source, step or delivery; empty: the first one.
    """
    count = min(count, ROWS_MAX)
    if kind == "output":
        plan = plan_of(root)
        names = [one.name for one in plan.of_outputs]
        table = Answer(plan.output_named(output or names[0])).first(count)
        known = conditions(table) if len(names) == 1 else []
        return {**shown_rows(table, count, names), "conditions": known}
    names = side_names(root, {"late": LATE, "dead_letters": DEAD_LETTERS}[kind])
    if not names:  # this job cannot have rows of that kind
        return {"outputs": [], "conditions": [], "rows": []}
    table = {"late": read_late, "dead_letters": read_dead_letters}[kind](root, output or names[0])
    return shown_rows(table, count, names)


def shown_rows(table: pa.Table, count: int, outputs: list[str]) -> dict[str, Any]:
    """Return rows of a table as :func:`rows_of` returns them."""
    rows = _shown(table.slice(0, min(count, ROWS_MAX)))
    return {"outputs": outputs, "conditions": [], "rows": rows}


def moments_of(root: str) -> dict[str, Any]:
    """Return the first and the last event time of a job's rows, us.

    The state at any moment between them can be recomputed.
    """
    outputs = plan_of(root).of_outputs
    least, most = int(INF_TIME), int(MIN_TIME)
    for output in outputs:
        for batch in Answer(output).batches():
            times = _us(batch.column(0))
            least = min(least, int(times.min(initial=INF_TIME)))
            most = max(most, int(times[times < INF_TIME].max(initial=MIN_TIME)))
    moments = {"from_us": least, "until_us": most} if least <= most else dict.fromkeys(_MOMENTS)
    return {**moments, "outputs": [output.name for output in outputs]}


def _us(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return np.asarray(column.cast(pa.int64(), safe=False).fill_null(INF_TIME))


def conditions(table: pa.Table) -> list[str]:
    """Return, per row, a SQL condition on its exact columns: times, integers, texts, Booleans."""
    parts: list[list[str]] = [[] for _ in range(table.num_rows)]
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not _is_exact(column.type):
            continue
        quoted = '"' + name.replace('"', '""') + '"'
        for row, value in zip(parts, column.to_pylist(), strict=True):
            if value is None:
                row.append(f"{quoted} IS NULL")
            else:
                row.append(f"{quoted} = {_literal(value)}")
    return [" AND ".join(row) for row in parts]


def _is_exact(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean)
    return any(test(kind) for test in tests) or pa.types.is_timestamp(kind)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    at = value if value.tzinfo is None else value.astimezone(UTC)
    return f"TIMESTAMP '{at:%Y-%m-%d %H:%M:%S.%f}{'' if value.tzinfo is None else '+00:00'}'"


def _shown(table: pa.Table) -> list[dict[str, str]]:
    """Return rows with all values as texts, because a browser would round large numbers."""
    return [{key: _text(value) for key, value in row.items()} for row in plain_rows(table)]


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json_text(value)
    is_quoted = not isinstance(value, str) and text.startswith('"')  # for example a time
    return str(json.loads(text)) if is_quoted else text


def text_rows(lines: list[str]) -> list[dict[str, str]]:
    """Return rows that a command printed as JSON, with all values as texts."""
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    return [{k: v if isinstance(v, str) else json.dumps(v) for k, v in r.items()} for r in rows]


def freshness(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Return, per output, its watermark or its delivery's position, and the cause of a delay."""
    is_running = status["state"] in OPEN_STATES
    vertices = status.get("vertices", [])
    last = vertices[-1]["stage"] if vertices else ""
    sinks = sorted((r for r in vertices if r["stage"] == last), key=lambda row: row["cti_us"])
    lags = {row["cti_us"]: row["cti_lag_s"] for row in vertices}
    rows = []
    for row in status.get("outputs") or [{"output": "the answer", **row} for row in sinks[:1]]:
        state = row["state"] if is_running else status["state"]
        line = {"output": row["output"], "watermark_us": row["cti_us"], "state": state}
        rows.append({**line, "lag_s": lags.get(row["cti_us"]), "held_by": holder(status)})
    for row in status.get("deliveries", ()):
        name = f"{row['delivery']}, partition {row['partition']}"
        lag = {"lag_items": row["lag_items"], "error": row["error"], "held_by": row["error"]}
        rows.append({"output": name, "state": row["state"], **lag})
    return rows


def holder(status: dict[str, Any]) -> str:
    """Return what delays the watermark: a reason of the health, or the slowest partition.

    Empty if nothing delays it.
    """
    if status["state"] not in OPEN_STATES:
        return ""
    held = [row["reason"] for row in status.get("held", ())]
    logs = [
        f"partition {log['partition']} of {vertex['stage']}, at {time_of(log['frontier_us'])}"
        for vertex in status.get("vertices", ())
        for log in vertex.get("logs", ())
        if log["holds_back"] and log["state"] != "ended"
    ]
    return "; ".join(held or logs[:1])
