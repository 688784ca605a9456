"""The console shows delivered rows."""

from __future__ import annotations

import io
import json

import pyarrow as pa

from rvertex.sinks.console import HEADER_EVERY_ROWS, ConsolePrinter
from tests.rvertex.sinks.places import TYPED


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_rows_are_json_lines() -> None:
    out = io.StringIO()
    ConsolePrinter(out)(0, TYPED)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["i64"] for row in rows] == [-1, 2**63 - 1, None]
    assert rows[0]["at"] == "2013-07-04T12:30:15.123456+00:00"
    assert rows[0]["record"] == {"a": 1, "b": ["x", None]}


def test_in_a_terminal_rows_are_columns() -> None:
    out = Terminal()
    show = ConsolePrinter(out)
    show(0, pa.RecordBatch.from_pydict({"k": ["JFK", "LGA"], "delay": [1, 22]}))
    show(2, pa.RecordBatch.from_pydict({"k": ["EWR"], "delay": [None]}))
    assert out.getvalue() == "k    delay\nJFK  1\nLGA  22\nEWR  null\n"
    show(3, pa.RecordBatch.from_pydict({"k": ["x" * 50], "delay": [4]}))
    assert out.getvalue().endswith(f"\nk{' ' * 39}  delay\n{'x' * 39}…  4\n")


def test_the_header_is_repeated() -> None:
    out = Terminal()
    ConsolePrinter(out)(0, pa.RecordBatch.from_pydict({"n": range(HEADER_EVERY_ROWS + 1)}))
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines.count("n") == 2


def test_values_cannot_move_the_cursor() -> None:
    out = Terminal()
    ConsolePrinter(out)(0, pa.RecordBatch.from_pydict({"text": ["a\x1b[2Jb\nc"]}))
    assert "\x1b" not in out.getvalue()
    assert len(out.getvalue().splitlines()) == 2


def test_times_after_the_end_of_the_calendar() -> None:
    out = Terminal()
    times = pa.array([1 << 60], pa.int64()).cast(pa.timestamp("us", "UTC"))
    ConsolePrinter(out)(0, pa.record_batch({"t": times}))
    assert out.getvalue().split() == ["t", str(1 << 60)]
