"""Shows a status to a person: a live table on a terminal, plain lines elsewhere.

The data is described in :mod:`jobmanager.driver.report`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from jobmanager.cli.exits import in_one_line
from jobmanager.driver.lost_rows import lost_lines
from jobmanager.state.health import health_line, reason_text, with_health
from jobmanager.state.held_time import time_of
from jobmanager.state.job_state import OPEN_STATES

if TYPE_CHECKING:
    from types import TracebackType

#: Seconds between two lines of progress without a terminal: the first, and the longest interval.
_PLAIN_INTERVAL_S, _PLAIN_INTERVAL_MAX_S = 2.0, 60.0
_MIB = 1 << 20
_COLUMNS = ("vertex", "state", "epoch", "host", "pid", "events in", "out", "CTI lag")
_WIDE_COLUMNS = ("recovery", "events/s", "tail MiB", "durable seq")
_WIDE_CHARS = 110
#: The columns that narrow terminals omit, in this order; and the space between columns.
_DISPENSABLE = ("durable seq", "recovery", "tail MiB", "pid", "epoch", "events/s", "host", "out")
_BETWEEN_CHARS = 3


class ProgressView:
    """Shows each status that it gets. Rates are over the time between two shown statuses."""

    def __init__(self, doing: str = "") -> None:
        """Start a view. ``doing``: what a terminal shows before the first status."""
        self._doing = doing
        self._console = Console(stderr=True)
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4)
        self._shown_s = 0.0
        self._is_ended = False
        self._situation: tuple[str, int, str] | None = None
        self._interval_s = _PLAIN_INTERVAL_S
        self._events: dict[str, int] = {}
        self._noted: set[str] = set()

    def __enter__(self) -> ProgressView:
        if self._live is not None:
            if self._doing:
                self._live.update(Spinner("dots", text=Text(self._doing)))
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, status: dict[str, Any]) -> None:
        """Show a status; without a terminal a line after 2 s, 4 s and so on up to every 60 s.

        There, a restart or a change of state or health is shown within 2 s. If the reader of the
        output ends, such as ``head``, the job continues.
        """
        with contextlib.suppress(BrokenPipeError):
            self._show(status)

    def _show(self, status: dict[str, Any]) -> None:
        self.note(status)
        now = time.monotonic()
        is_open = status["state"] in OPEN_STATES
        if self._is_ended or (self._live is None and is_open and not self._is_due(status, now)):
            return
        self._is_ended = not is_open
        rates = self._rates(status, now)
        self._shown_s = now
        status = {**status, "error": ""}  # the waiting process prints the error, once
        if self._live is not None:
            self._live.update(vertex_table(status, rates, width=self._console.width))
        else:
            print(progress_line(status, rates), file=sys.stderr, flush=True)

    def _is_due(self, status: dict[str, Any], now: float) -> bool:
        """Return whether to print a line now. Log files should not fill with equal lines."""
        if now - self._shown_s < _PLAIN_INTERVAL_S:
            return False
        situation = (status["state"], status["restarts"], _health(status))
        if situation != self._situation:
            self._situation, self._interval_s = situation, _PLAIN_INTERVAL_S
            return True
        if now - self._shown_s < self._interval_s:
            return False
        self._interval_s = min(2 * self._interval_s, _PLAIN_INTERVAL_MAX_S)
        return True

    def note(self, status: dict[str, Any]) -> None:
        """Print the notes of a status that were not printed yet, a line each."""
        with contextlib.suppress(BrokenPipeError):
            for line in status.get("notes", ()):
                if line in self._noted:
                    continue
                self._noted.add(line)
                if self._live is None:
                    print(f"note: {line}", file=sys.stderr, flush=True)
                else:
                    self._console.print(
                        f"note: {line}", markup=False, highlight=False, soft_wrap=True
                    )

    def _rates(self, status: dict[str, Any], now: float) -> dict[str, float]:
        elapsed = max(now - self._shown_s, 1e-3) if self._shown_s else 0.0
        rates: dict[str, float] = {}
        for row in status["vertices"]:
            before = self._events.get(row["vertex"], 0)
            gained = max(0, row["events_in"] - before)
            rates[row["vertex"]] = gained / elapsed if elapsed else 0.0
            self._events[row["vertex"]] = row["events_in"]
        return rates


def starting(executor: str | None) -> str:
    """Return what the user waits for until the job has started."""
    engine = "threads of this process" if executor == "local" else "Spark (some seconds)"
    return f"reading the input, planning, starting {engine} ..."


def vertex_table(
    status: dict[str, Any],
    rates: dict[str, float] | None = None,
    *,
    width: int,
    has_health: bool = True,
) -> Table:
    """Return a table with one row per vertex. Below a width of 110 it has fewer columns.

    ``has_health``: whether the title has the reasons of the job's health.

    A vertex with several instances (replicas, twins, draining ones) has a row for each below it.
    "durable seq" is the smallest durable end of the vertex's output streams.
    """
    title = f"{status['job']}: {status['state']}"
    title += _lost_rows(status) + (_health(status) if has_health else "")
    if status.get("error"):
        title += f": {in_one_line(status['error'])}"
    table = Table(
        title=Text(title), title_justify="left", box=SIMPLE, pad_edge=False, padding=(0, 1)
    )
    rows: list[dict[str, str]] = []
    for row in status["vertices"]:
        rows.append(_cells(row, None if rates is None else rates[row["vertex"]]))
        rows += [*_log_cells(row), *_instance_cells(row)]
    rows += [_delivery_cells(row) for row in status.get("deliveries", ())]
    columns = _fitting(rows, width)
    for name in columns:
        is_word = name in ("vertex", "state", "host", "recovery")
        table.add_column(name, justify="left" if is_word else "right", no_wrap=True)
    for cells in rows:
        table.add_row(*(cells.get(name, "") for name in columns))
    return table


def _fitting(rows: list[dict[str, str]], width: int) -> list[str]:
    """Return the columns that fit completely, because a shortened number would be misread."""
    columns = [*_COLUMNS, *(_WIDE_COLUMNS if width >= _WIDE_CHARS else ())]
    needed = {
        name: max([len(name), *(len(cells.get(name, "")) for cells in rows)]) for name in columns
    }
    for name in _DISPENSABLE:
        if sum(needed[column] + _BETWEEN_CHARS for column in columns) <= width:
            break
        columns = [column for column in columns if column != name]
    return columns


def _log_cells(row: dict[str, Any]) -> list[dict[str, str]]:
    """Return a line for each partition of a live log: rows left to read, age of the newest row."""
    if row["state"] == "finished":
        return []
    return [
        {
            "vertex": f"  log {log['partition']}",
            "state": log["state"],
            "host": "slowest" if log["holds_back"] else "",
            "events in": "-" if log["lag_rows"] is None else f"{log['lag_rows']:,} left",
            "CTI lag": _lag(log["lag_s"]),
        }
        for log in row.get("logs", [])
    ]


def _delivery_cells(row: dict[str, Any]) -> dict[str, str]:
    """Return a line for a partition of a delivery: delivered rows, and items left to deliver."""
    return {
        "vertex": f"to {row['delivery']}, {row['partition']}",
        "state": row["state"],
        "events in": f"{row['lag_items']:,} left",
        "out": f"{row['rows']:,}",
    }


def _instance_cells(row: dict[str, Any]) -> list[dict[str, str]]:
    """Return a line for each instance, if the vertex has several, or one with a special role."""
    instances = row.get("instances", [])
    if row["state"] == "finished" or [i["role"] for i in instances] in ([], ["primary"]):
        return []
    return [
        {
            "vertex": f"  {i['role']}",
            "state": i["state"],
            "epoch": str(i["epoch"] or "-"),
            "host": i["host"],
            "pid": str(i["pid"] or "-"),
            "tail MiB": f"{i['tail_bytes'] / _MIB:.1f}",
            "durable seq": f"{min(i['durable'], default=0):,}",
        }
        for i in instances
    ]


def _cells(row: dict[str, Any], rate: float | None) -> dict[str, str]:
    """Return the cells of a vertex's row, by column."""
    return {
        "vertex": row["vertex"],
        "state": row["state"],
        "epoch": str(row["epoch"]),
        "host": row["host"],
        "pid": str(row["pid"] or "-"),
        "events in": f"{row['events_in']:,}",
        "recovery": row.get("strategy", ""),
        "events/s": "-" if rate is None else f"{rate:,.0f}",
        "out": f"{row['events_out']:,}",
        "CTI lag": _lag(row["cti_lag_s"]),
        "tail MiB": f"{row['tail_bytes'] / _MIB:.1f}",
        "durable seq": f"{min(row['durable'], default=0):,}",
    }


def progress_line(status: dict[str, Any], rates: dict[str, float]) -> str:
    """Return the job's progress as one line."""
    rows = status["vertices"]
    done = sum(row["state"] == "finished" for row in rows)
    lags = [row["cti_lag_s"] for row in rows if row["cti_lag_s"] is not None]
    text = (
        f"{status['job']} {status['state']}: {done}/{len(rows)} vertices finished, "
        f"{status['events_in']:,} events in, {status['events_out']:,} out, "
        f"{sum(rates.values()):,.0f} events/s, CTI lag {_lag(max(lags, default=None))}, "
        f"{sum(row['tail_bytes'] for row in rows) / _MIB:.1f} MiB in tails, "
        f"{status['restarts']} restarts{_lost_rows(status)}{_health(status)}"
    )
    return f"{text}: {in_one_line(status['error'])}" if status["error"] else text


def print_lost_rows(status: dict[str, Any]) -> None:
    """Print the last lines of a result: reasons of its health, and missing rows."""
    for line in reason_lines(status):
        print(line)
    for line in lost_lines(status):
        print(line)
    for row in status.get("kept", ()):
        if row["kept_from_seq"]:
            print(kept_line(row))


def kept_line(row: dict[str, Any]) -> str:
    """Return a line with the first rows of a stream that retention has kept."""
    text = f"{row['output']}, partition {row['partition']}: kept from seq {row['kept_from_seq']}"
    at_us = row["kept_from_us"]
    if at_us is None:
        return text
    return f"{text}, written since {_time(at_us)}"


def state_line(status: dict[str, Any]) -> str:
    """Return a line for a job that is too young for a table."""
    text = f"{status['job']}: {status['state']}"
    return f"{text}: {in_one_line(status['error'])}" if status.get("error") else text


def _lost_rows(status: dict[str, Any]) -> str:
    """Return the number of rows that are missing in the result, if any."""
    kinds = {"late": "late_events", "bad": "bad_rows", "poisoned": "poisoned_events"}
    counts = {kind: status.get(key, 0) for kind, key in kinds.items()}
    return "".join(f", {n:,} {kind}" for kind, n in counts.items() if n)


def _health(status: dict[str, Any]) -> str:
    """Return the reasons why a running job waits or is degraded."""
    line = health_line(status) if status["state"] in OPEN_STATES else ""
    return f", {in_one_line(line)}" if line else ""


def reason_lines(status: dict[str, Any]) -> list[str]:
    """Return a line per reason for which a job is not ok: since when, and what to do."""
    if status["state"] not in (*OPEN_STATES, "finished", "stopped"):
        return []  # the job's error has the reason
    lines = []
    for row in with_health(status)["reasons"]:
        since_us = row["since_us"]
        since = f" (since {_time(since_us)})" if since_us else ""
        advice = f"; {row['advice']}" if row["advice"] else ""
        lines.append(f"{in_one_line(reason_text(row))}{since}{advice}")
    return lines


def _time(us: int) -> str:
    return f"{time_of(us)} UTC"


def _lag(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"
