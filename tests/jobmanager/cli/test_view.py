"""The rendering of a status: as a table, as a line, on a terminal and without one."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
from typing import Any

import pytest
from rich.console import Console

from jobmanager.cli.view import ProgressView, progress_line, vertex_table


def vertex(name: str = "s01-e.0", **fields: Any) -> dict[str, Any]:
    row = {
        "vertex": name,
        "state": "running",
        "epoch": 3,
        "host": "h0.1",
        "pid": 4711,
        "events_in": 1_234_567,
        "events_out": 89,
        "cti_lag_s": 3.25,
        "tail_bytes": 3 << 20,
        "durable": [17, 5_000],
    }
    return {**row, **fields}


def status(**fields: Any) -> dict[str, Any]:
    base = {
        "job": "nightly",
        "state": "running",
        "error": "",
        "events_in": 1_234_567,
        "events_out": 89,
        "restarts": 2,
        "vertices": [vertex(), vertex("s02-agg.0", state="finished", cti_lag_s=None, pid=0)],
    }
    return {**base, **fields}


def rendered(shown: dict[str, Any], width: int, rates: dict[str, float] | None = None) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(vertex_table(shown, rates, width=width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_partition_of_a_live_log_has_its_own_line() -> None:
    log = {"partition": 3, "state": "active", "lag_rows": 1_500, "lag_s": 2.5, "holds_back": True}
    idle = {"partition": 4, "state": "idle", "lag_rows": None, "lag_s": None, "holds_back": False}
    live = vertex(logs=[log, idle], waiting="broker 10.0.0.1:9092, which is away")
    lines = rendered(status(vertices=[live]), 140).splitlines()
    row = next(line for line in lines if "log 3" in line)
    assert all(word in row for word in ("active", "slowest", "1,500 left", "2.5 s"))
    row = next(line for line in lines if "log 4" in line)
    assert "idle" in row
    assert "slowest" not in row
    assert "waits for broker 10.0.0.1:9092, which is away" in lines[0]


def test_a_wide_table_shows_all_columns() -> None:
    text = rendered(status(), 140, {"s01-e.0": 1_000.4, "s02-agg.0": 0.0})
    assert text.splitlines()[0].strip() == "nightly: running"
    row = next(line for line in text.splitlines() if "s01-e.0" in line).split()
    assert row[:5] == ["s01-e.0", "running", "3", "h0.1", "4711"]
    assert {"1,234,567", "1,000", "89", "3.0", "17"} <= set(row)
    finished = next(line for line in text.splitlines() if "s02-agg.0" in line).split()
    assert finished.count("-") == 2, "no pid, no lag"


def test_a_title_without_health() -> None:
    live = status(vertices=[vertex(waiting="broker a:9092, which is away")])
    table = vertex_table(live, width=140, has_health=False)
    assert str(table.title) == "nightly: running"


def test_narrow_table_is_not_broken() -> None:
    lines = rendered(status(), 80).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert sum("s01-e.0" in line for line in lines) == 1
    assert any("1,234,567" in line for line in lines)


def test_columns_are_omitted_and_numbers_are_never_cut() -> None:
    large = vertex("s12-departures.15", events_in=362_891_000, events_out=362_890_999, pid=4194304)
    for width in (60, 80, 110):
        text = rendered(status(vertices=[large]), width)
        assert "…" not in text
        assert "362,891,000" in text
        assert all(len(line) <= width for line in text.splitlines())
    assert "362,890,999" in rendered(status(vertices=[large]), 80)


def test_a_failure_is_printed_by_the_waiting_caller_and_not_by_the_view(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressView() as view:
        view.show(status(state="failed", error="why"))
    assert "failed" in (told := capsys.readouterr().err)
    assert "why" not in told


def instance(role: str, **fields: Any) -> dict[str, Any]:
    row = {"role": role, "state": "running", "epoch": 7, "host": "h2.0", "pid": 99}
    return {**row, "tail_bytes": 0, "durable": [1], **fields}


def test_instances_are_shown_if_a_vertex_has_several() -> None:
    rows = [instance("primary"), instance("joining", epoch=0, pid=0, state="waiting")]
    text = rendered(status(vertices=[vertex(instances=rows)]), 80)
    (line,) = (line.split() for line in text.splitlines() if "joining" in line)
    assert line == ["joining", "waiting", "-", "h2.0", "-"]
    alone = rendered(status(vertices=[vertex(instances=rows[:1])]), 80)
    assert "primary" not in alone


def test_markup_in_errors_is_printed_as_text() -> None:
    """Rich would read brackets as styles: it drops some and fails on others."""
    error = "store: [Errno 2] no such [/tmp/x] in [red]"
    assert error in rendered(status(state="failed", error=error), 140)


def test_the_progress_line_sums_the_vertices() -> None:
    line = progress_line(status(), {"s01-e.0": 1_500.0, "s02-agg.0": 500.0})
    assert line == (
        "nightly running: 1/2 vertices finished, 1,234,567 events in, 89 out, 2,000 events/s, "
        "CTI lag 3.2 s, 6.0 MiB in tails, 2 restarts"
    )
    assert progress_line(status(state="failed", error="why"), {}).endswith("restarts: why")
    quoted = status(state="failed", error="f raised ValueError: a\r\n  b\non event 3")
    assert progress_line(quoted, {}).endswith("restarts: f raised ValueError: a; b; on event 3")


@pytest.mark.parametrize(
    ("lag_s", "text"),
    [(None, "-"), (0.0, "0.0 s"), (119.9, "119.9 s"), (600.0, "10 min"), (80_000.0, "22 h")],
)
def test_a_lag_is_shown_with_a_readable_unit(lag_s: float | None, text: str) -> None:
    shown = status(vertices=[vertex(cti_lag_s=lag_s)])
    assert f"CTI lag {text}," in progress_line(shown, {})


def test_without_a_terminal_few_lines_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with ProgressView() as view:
        for events_in in range(0, 400_000, 100):  # a thousand seconds of statuses
            now_s += 0.25
            view.show(status(vertices=[vertex(events_in=events_in)]))
        now_s += 2.0
        view.show(status(restarts=3, vertices=[vertex(events_in=events_in)]))
        view.show(status(state="finished"))
        view.show(status(state="finished"))
    out, err = capsys.readouterr()
    assert out == "", "standard output is for the result"
    lines = err.splitlines()
    assert 18 <= len(lines) <= 24, "the interval grows to a minute"
    assert "3 restarts" in lines[-2], "a restart is shown at once"
    assert "nightly finished" in lines[-1]
    assert sum("finished:" in line for line in lines) == 1
    rates = [re.search(r"([\d,]+) events/s", line) for line in lines[1:-2]]
    assert {match and match[1] for match in rates} == {"400"}


def test_a_closed_reader_does_not_end_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    pipe = os.fdopen(write_end, "w", buffering=1)
    monkeypatch.setattr(sys, "stderr", pipe)
    view = ProgressView()
    view.show(status(notes=["one"]))
    view.show(status(state="finished"))
    view.note({"notes": ["two"]})
    with contextlib.suppress(BrokenPipeError):
        pipe.close()
