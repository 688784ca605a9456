"""Windows in FROM are the windows of GROUP BY, and ``cumulating`` is what it says.

Cannot catch: answers that are wrong in both; the catalogue compares them with DuckDB's.
"""

from __future__ import annotations

from random import Random

import pytest

from planner import InvalidPlanError, SqlError, Stream, agg, cumulating, event, sql, vs
from planner.physical.lower import lower
from tests.support.catalogue.entry import streams
from tests.support.plan_runner import answer

BOUNDS = "window_start AS a, window_end AS b"
SAME = {
    "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)": "TUMBLE('1 minute')",
    "TUMBLE(t, ts, INTERVAL '1' MINUTE, INTERVAL '5' SECOND)": "TUMBLE('1 minute', '5 seconds')",
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, '1 minute')": "HOP('1 minute', '5 seconds')",
    "SESSION(TABLE t PARTITION BY (k, p), DESCRIPTOR(ts), INTERVAL '9' SECOND)": "SESSION('9s')",
}


@pytest.mark.parametrize("in_from", SAME)
@pytest.mark.parametrize("form", ["{}", "TABLE({})"])
def test_plans_are_those_of_windows_in_group_by(in_from: str, form: str) -> None:
    listed = f"SELECT k, {BOUNDS}, sum(i) AS v FROM"
    table = form.format(in_from)
    by = "GROUP BY k, p, window_start, window_end"
    expected = sql(f"{listed} t GROUP BY k, p, {SAME[in_from]}", streams())
    assert sql(f"{listed} {table} {by}", streams()) == expected
    renamed = f"{listed.replace('window', 'w.window', 1)} {table} AS w {by}"
    assert sql(renamed, streams()) == expected


REFUSED = {
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts)))": "write TUMBLE(TABLE t, DESCRIPTOR(ts), SIZE, [OFFSET",
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), SLIDE => '1s'))": "write TUMBLE(TABLE t",
    "TABLE(HOP(TABLE t, DESCRIPTOR(ts), '1 minute', '5s'))": "takes the SLIDE first, then the SIZE",
    "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), '7s', '1m'))": "the size is a multiple of the step",
    "TABLE(TUMBLE(TABLE nothing, DESCRIPTOR(ts), '1s'))": "no stream 'nothing'",
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(nothing), '1s'))": "no column 'nothing'",
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(m), '1s'))": "'m' is not the time of 't'",
    "TABLE(TUMBLE(TABLE t PARTITION BY k, DESCRIPTOR(ts), '1s'))": "TUMBLE takes no PARTITION BY",
    "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), '1s'))": "keys of GROUP BY stand in",
    "TABLE(TUMBLE((SELECT * FROM t), DESCRIPTOR(ts), '1s'))": "name a query by WITH or VIEW",
}


@pytest.mark.parametrize("table", REFUSED)
def test_mistakes_are_refused(table: str) -> None:
    text = (
        f"SELECT p, window_end AS b, sum(i) AS v FROM {table} GROUP BY p, window_start, window_end"
    )
    with pytest.raises(SqlError) as raised:
        sql(text, streams())
    assert REFUSED[table] in str(raised.value)


def test_windows_of_cumulate_need_their_end() -> None:
    table = "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), '30s', '1m'))"
    with pytest.raises(SqlError, match="add window_end"):
        sql(f"SELECT sum(i) AS v FROM {table} GROUP BY window_start", streams())
    with pytest.raises(SqlError, match="GROUP BY needs window_start and window_end"):
        sql("SELECT k, sum(i) AS v FROM TUMBLE(t, ts, '1m') GROUP BY k", streams())


def test_cumulating_over_lifetimes() -> None:
    """An event is in every window that it overlaps, once, however long it lives."""
    rng = Random(7)
    events = []
    at = 0
    for n in range(40):
        at += rng.randrange(4)
        events.append((at, at + 1 + rng.choice([0, 3, 25]), n))
    stream = Stream.from_items({"n": "int64"}, [event(a, b, n=n) for a, b, n in events])
    for offset in (0, 3):
        window = cumulating(12, 4, offset)
        found = stream.window(window).agg(count=agg.count(), total=agg.sum("n"))
        rows = answer(lower(found.to_parquet(), root="memory://job")).to_pylist()
        expected = []
        for start in range(-12 + offset, 200, 12):
            for end in range(start + 4, start + 13, 4):
                inside = [n for a, b, n in events if a < end and b > start]
                if inside:
                    expected.append((end - 4, end, len(inside), sum(inside)))
        assert [tuple(row.values()) for row in rows] == expected


def test_a_step_divides_its_window() -> None:
    with pytest.raises(InvalidPlanError, match="the size is a multiple of the step"):
        cumulating("1m", "7s")


def test_the_time_of_a_window_is_found_behind_a_join() -> None:
    t = streams()["t"]
    text = "CREATE VIEW j AS SELECT t.ts, t.i FROM t JOIN u ON t.k = u.k;"
    text += "SELECT sum(i) AS v FROM TABLE(TUMBLE(TABLE j, DESCRIPTOR(ts), '1m')) "
    text += "GROUP BY window_start, window_end"
    assert isinstance(sql(text, {"t": t, "u": streams()["u"]}), Stream)
    lasting = t.set_duration("1h").with_columns(ts=vs())
    with pytest.raises(SqlError, match="'ts' is not the time of 'j'"):
        sql(text, {"t": lasting, "u": streams()["u"]})
