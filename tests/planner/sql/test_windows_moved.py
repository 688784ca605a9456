"""Windows that do not start on the hour: an OFFSET moves them, in every use of their rows.

The model is a loop over windows and rows. Not covered: joins of windows with several offsets.
"""

from __future__ import annotations

from collections import Counter

import pytest

from planner import Stream, sql
from planner.physical.lower import lower
from tests.support.plan_runner import answer
from tests.support.window_queries import BOTH, ROWS, SECOND, streams

OFFSET = 2
SIZE = 10
#: Function -> its lengths before the offset, and the time from one window to the next.
KINDS = {"TUMBLE": ((10,), 10), "HOP": ((5, 10), 5), "CUMULATE": ((5, 10), 10)}
FORMS = {
    "results": "{}",
    "rows": "(SELECT * FROM {})",
    "joined": "{} JOIN d ON k = one",
    "ranked": "(SELECT * FROM {} QUALIFY RANK() OVER (PARTITION BY window_start, window_end "
    "ORDER BY k) < 9)",
}


def _table(kind: str, offset: int) -> str:
    lengths = ", ".join(f"INTERVAL '{one}' SECOND" for one in (*KINDS[kind][0], offset))
    return f"TABLE({kind}(TABLE a, DESCRIPTOR(vs()), {lengths}))"


def _expected(kind: str, offset: int) -> list[tuple[int, int, int, int]]:
    """Key, start and end of each window in seconds, and its number of rows of a."""
    n = Counter[tuple[int, int, int]]()
    for at, k in ROWS["a"]:
        for start in range(offset - 20, 40, KINDS[kind][1]):
            ends = (start + 5, start + SIZE) if kind == "CUMULATE" else (start + SIZE,)
            for end in ends:
                n[k, start, end] += start <= at < end
    return sorted((*window, m) for window, m in n.items() if m)


CASES = [
    (kind, form)
    for kind in KINDS
    for form in FORMS
    if kind != "CUMULATE" or form == "results"  # its rows cannot stand alone
]


@pytest.mark.parametrize("offset", [OFFSET, -OFFSET])
@pytest.mark.parametrize(("kind", "form"), CASES)
def test_an_offset_moves_windows(kind: str, form: str, offset: int) -> None:
    table = FORMS[form].format(_table(kind, offset))
    given = {**streams(), "d": Stream.table({"one": [1, 2]})}
    text = f"SELECT k, {BOTH}, COUNT(*) AS n FROM {table} GROUP BY k, {BOTH}"
    stream = sql(text, given)
    assert isinstance(stream, Stream)
    rows = answer(lower(stream.to_parquet(), root="memory://moved", parallelism=2)).to_pylist()
    seconds = [
        (row["k"], *(int(row[f"window_{b}"].timestamp()) for b in ("start", "end")), row["n"])
        for row in rows
    ]
    assert sorted(seconds) == _expected(kind, offset)
    step = 5 if kind == "CUMULATE" else SIZE
    assert all(row["_ve"] - row["_vs"] == step * SECOND for row in rows)
    assert all(row["_ve"] == row["window_end"].timestamp() * SECOND for row in rows)


@pytest.mark.parametrize("offset", [0, OFFSET, -OFFSET])
@pytest.mark.parametrize("kind", ["TUMBLE", "HOP"])
def test_rows_of_windows_with_an_offset_last_to_their_ends(kind: str, offset: int) -> None:
    stream = sql(f"SELECT * FROM {_table(kind, offset)}", streams())
    assert isinstance(stream, Stream)
    rows = answer(lower(stream.to_parquet(), root="memory://moved", parallelism=2)).to_pylist()
    found = [
        (
            row["k"],
            row["_vs"] // SECOND,
            row["_ve"] // SECOND,
            *(row[name].timestamp() for name in ("window_start", "window_end", "window_time")),
        )
        for row in rows
    ]
    expected = [
        (k, at, start + SIZE, start, start + SIZE, start + SIZE - 0.001)
        for at, k in ROWS["a"]
        for start in range(offset - 20, 40, KINDS[kind][1])
        if start <= at < start + SIZE
    ]
    assert sorted(found) == sorted(expected)
