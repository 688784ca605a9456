"""Rows out of order: which are late, at exact bounds, and how they are handled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner import Stream, agg, session, tumbling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.sources.spec import LatePolicy
    from tests.support.engines.case import Row


@dataclass(frozen=True, slots=True)
class LateCase:
    """Rows in order of arrival, with times in seconds, and the result of a query."""

    engine: str
    rule: str
    arriving: Sequence[tuple[int, int]]
    delay: str
    ask: Callable[[Stream], Stream]
    #: rows: Sequence[Row]|None if the job must stop at a late row.
    rows: Sequence[Row] | None
    late: LatePolicy = "drop"
    differs: str = ""


def _sums(rows: Stream) -> Stream:
    return rows.window(tumbling("10s")).agg(s=agg.sum("x"))


def _plain(rows: Stream) -> Stream:
    return rows.select("x")


def _sessions(rows: Stream) -> Stream:
    return rows.window(session("5s")).agg(s=agg.sum("x"))


def _ends(rows: Stream) -> Stream:
    return rows.window(tumbling("10s")).agg(a=agg.first("x"), z=agg.last("x"))


#: After the row at 12, a delay of five seconds has reached 7.
MIXED = ((0, 1), (12, 2), (7, 4), (6, 8), (25, 16))

CASES: dict[str, LateCase] = {
    "exactly the delay late": LateCase(
        "Flink", "A row as late as the bound allows is on time.",
        MIXED, "5s", _sums, [(0, 10, 5), (10, 20, 2), (20, 30, 16)],
        differs="Flink takes the row at 6 as well, as the window up to 10 is still open; here each "
        "row is judged by its own time, before any window.",
    ),
    "a longer delay": LateCase(
        "Flink", "A bound one second longer lets the row pass.",
        MIXED, "6s", _sums, [(0, 10, 13), (10, 20, 2), (20, 30, 16)],
        differs="With allowed lateness Flink fires a window again; here there is one result.",
    ),
    "drop": LateCase(
        "Trill", "The policy Drop leaves late rows out.",
        MIXED, "5s", _plain,
        [(0, None, 1), (7, None, 4), (12, None, 2), (25, None, 16)],
    ),
    "adjust": LateCase(
        "Trill", "The policy Adjust moves late rows to the time that the stream has reached.",
        MIXED, "5s", _plain,
        [(0, None, 1), (7, None, 4), (7, None, 8), (12, None, 2), (25, None, 16)],
        late="adjust",
    ),
    "adjust before a window": LateCase(
        "Trill", "A row that was moved counts where it was moved to.",
        ((0, 1), (18, 2), (6, 8)), "5s", _sums, [(0, 10, 1), (10, 20, 10)],
        late="adjust",
    ),
    "throw": LateCase(
        "Trill", "The policy Throw stops at a late row.", MIXED, "5s", _plain, None, late="error",
    ),
    "throw at nothing": LateCase(
        "Trill", "The policy Throw lets rows pass that are within the bound.",
        MIXED[:3], "5s", _plain, [(0, None, 1), (7, None, 4), (12, None, 2)], late="error",
    ),
    "watermark of a batch": LateCase(
        "Spark", "Rows later than the watermark's delay may be dropped.",
        ((0, 1), (100, 2), (1, 4)), "10s", _sums, [(0, 10, 1), (100, 110, 2)],
        differs="Spark moves its watermark between batches, so a row in the batch of the greatest "
        "time counts; here each row moves it, and the answer does not depend on batches.",
    ),
    "ascending times": LateCase(
        "Flink", "With ascending times equal ones are in order.",
        ((5, 1), (5, 2), (4, 4), (6, 8)), "0s", _plain,
        [(5, None, 1), (5, None, 2), (6, None, 8)],
    ),
    "one row far ahead": LateCase(
        "Bytewax", "A row far ahead makes those late that follow it.",
        ((0, 1), (1000, 2), (5, 4), (990, 8)), "10s", _plain,
        [(0, None, 1), (990, None, 8), (1000, None, 2)],
    ),
    "sessions that a row joins": LateCase(
        "Flink", "A row out of order joins the sessions on both of its sides.",
        ((0, 1), (8, 2), (4, 4)), "10s", _sessions, [(0, 13, 7)],
    ),
    "sessions that a late row does not join": LateCase(
        "Bytewax", "A late row joins nothing.",
        ((0, 1), (8, 2), (4, 4)), "3s", _sessions, [(0, 5, 1), (8, 13, 2)],
    ),
    "order of rows": LateCase(
        "Arroyo", "Rows leave by their times, once the bound has passed.",
        ((3, 1), (1, 2), (2, 4)), "2s", _ends, [(0, 10, 2, 1)],
    ),
    "all times are looked at": LateCase(
        "Arroyo", "Without a bound by the user.",
        MIXED, "auto", _sums, [(0, 10, 13), (10, 20, 2), (20, 30, 16)],
        differs="Others take a fixed bound by default; here all times of a file are looked at, and "
        "no row is late.",
    ),
}  # fmt: skip
