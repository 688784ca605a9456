"""If the rows of a window are incomplete at its end, GROUP BY and PARTITION BY are an error.

Not covered: a query that is accepted but wrong (``test_in_windows.py`` checks results).
"""

from __future__ import annotations

import pytest

from planner import SqlError, Stream, event, sql
from rstream.types import INF_TIME
from tests.support.window_queries import (
    BOTH,
    HOPS,
    ROWS_OF_A,
    SESSIONS,
    SIDES,
    counted,
    of,
    streams,
)

NAMED = f"(SELECT * FROM {of('b', 5)})"
ENDED = f"(SELECT k, COUNT(*) AS c FROM {SESSIONS} GROUP BY k, {BOTH})"
BY_STEPS = (
    f"SELECT {BOTH} FROM TABLE(CUMULATE(TABLE a, DESCRIPTOR(vs()), INTERVAL '{{}}' SECOND, "
    f"INTERVAL '10' SECOND)) GROUP BY {BOTH}"
)
STEPS = [BY_STEPS.format(seconds) for seconds in (5, 2)]
SAME = "a.window_start = b.window_start AND a.window_end = b.window_end"
RANKED = (
    f"(SELECT * FROM {of('a', 10, 5)} QUALIFY RANK() OVER (PARTITION BY {BOTH} ORDER BY k) < 9)"
)
COUNTED = f"(SELECT k, {BOTH}, COUNT(*) AS c FROM {of('a', 10, 5)} GROUP BY k, {BOTH})"
EITHER = "GROUP BY COALESCE(a.window_start, b.window_start)"
LASTED = f"(SELECT k, {BOTH} FROM {SESSIONS} GROUP BY k, {BOTH})"
SHIFTED = of("b", 10).replace("'10' SECOND", "'10' SECOND, INTERVAL '2' SECOND")
UNMATCHED = f"SELECT a.k, b.window_start {SIDES.format(of('a', 5), 'LEFT', of('b', 5))} AND {SAME}"
HOP = f"SELECT k, window_start FROM {of('a', 10, 5)}"
ENDS = f"SELECT k, window_start FROM {counted('a', 5)}"
FIRSTS = f"(SELECT * FROM {of('a', 5)} ORDER BY k LIMIT 2)"
ALONE = f"SELECT k, window_start FROM {of('a', 5)}"
REFUSED = {
    f"{SIDES.format(RANKED, '', COUNTED)} {EITHER}": "different windows were joined",
    f"{SIDES.format(counted('a', 5), '', counted('b', 10))} {EITHER}": "this column mixes rows",
    f"{SIDES.format(of('a', 5), '', of('b', 10))} GROUP BY b.window_start": "the windows of 5s",
    f"{SIDES.format(of('a', 6), '', of('b', 10))} GROUP BY a.window_start": "the same windows",
    f"{SIDES.format(counted('a', 5), '', counted('b', 10))} GROUP BY b.window_end": "TUMBLE('10s')",
    f"{SIDES.format(of('a', 10), '', NAMED)} GROUP BY a.window_start": "windows of 5s and 10s",
    f"{SIDES.format(of('a', 5), '', of('b', 10))} GROUP BY a.k": "GROUP BY needs window_start",
    f"FROM {of('a', 5)}": "GROUP BY needs window_start",
    f"FROM (SELECT * FROM {of('a', 5)}) GROUP BY k": "GROUP BY needs window_start",
    f"{HOPS} GROUP BY a.window_start": "a.window_start = b.window_start AND",
    f"{SIDES.format(of('a', 5), 'LEFT', of('b', 5))} GROUP BY b.window_start": "of the other, or",
    f"{SIDES.format(of('a', 5), 'FULL', of('b', 5))} GROUP BY a.window_start": "COALESCE(a.window",
    f"{SIDES.format(of('a', 5), '', counted('b', 5))} GROUP BY window_start": "is in a and b",
    f"FROM (SELECT * FROM {of('a', 5)} UNION ALL SELECT * FROM {of('a', 10)}) "
    "GROUP BY window_end": "in each inner SELECT",
    f"FROM (SELECT k, window_start AS s FROM {of('a', 5)} UNION ALL SELECT k, window_end FROM "
    f"{of('a', 5)}) GROUP BY s": "in each inner SELECT",
    f"FROM (SELECT * FROM {of('a', 5)} ORDER BY k LIMIT 2) GROUP BY window_start": "instead",
    f"FROM (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY k) AS n FROM "
    f"{of('a', 5)}) WHERE n < 3) GROUP BY window_start": "to the PARTITION BY that numbers them",
    f"{SIDES.format(of('a', 5), 'RIGHT', counted('b', 5))} GROUP BY a.window_start": "of the other",
    f"{SIDES.format(of('a', 5), 'FULL', counted('b', 5))} GROUP BY a.window_end": "of the other",
    f"{SIDES.format(of('a', 5), 'LEFT', of('b', 5))} GROUP BY COALESCE(b.window_start, "
    "b.window_start)": "of the other",
    f"{SIDES.format(ROWS_OF_A, '', ENDED)} GROUP BY a.window_start": "the bounds before the join",
    f"{SIDES.format(counted('a', 5), '', ENDED)} GROUP BY a.window_end": "bounds before the join",
    f"FROM {counted('a', 5)} AS a JOIN (SELECT * FROM {ENDED} UNION ALL SELECT k, c FROM "
    f"{counted('b', 5)}) AS b ON a.k = b.k GROUP BY a.window_end": "the bounds before the join",
    f"FROM ({' UNION ALL '.join(STEPS)}) GROUP BY {BOTH}": "in each inner SELECT",
    f"FROM ({STEPS[0]} UNION ALL SELECT {BOTH} FROM {counted('a', 10)}) GROUP BY {BOTH}": "in each",
    f"FROM ({STEPS[0]}) AS a LEFT JOIN ({STEPS[1]}) AS b ON {SAME} "
    "GROUP BY a.window_start, a.window_end": "the bounds before the join",
    f"FROM (SELECT window_start FROM {counted('a', 5)} GROUP BY window_start, TUMBLE('10s')) "
    "GROUP BY window_start": "rows of different windows",
    f"FROM (SELECT CAST(window_start AS DATE) AS d FROM {of('a', 5)}) GROUP BY d": "of different",
    f"FROM {ROWS_OF_A} AS a WHERE k > (SELECT MIN(k) FROM b) GROUP BY window_start": "may change",
    # One bound does not identify sessions, and unmatched rows of an outer join have no bounds.
    f"{SIDES.format(LASTED, '', LASTED)} AND a.window_start = b.window_start "
    "GROUP BY a.window_start, a.window_end": "the bounds before the join",
    f"{SIDES.format(LASTED, 'LEFT', LASTED)} AND {SAME} "
    "GROUP BY b.window_start, b.window_end": "the bounds before the join",
    # Only some of the windows end inside a window of the other side.
    f"{SIDES.format(of('a', 5), '', of('b', 10, 2))} GROUP BY a.window_start": "the same windows",
    f"{SIDES.format(of('a', 5), '', SHIFTED)} GROUP BY a.window_start": "the same windows",
    # A property of one input applies to the whole: of either side of a join or branch of a union.
    f"FROM (SELECT a.k, a.window_start {HOPS}) AS a JOIN {of('b', 10, 5)} AS b "
    "ON a.k = b.k AND a.window_start = b.window_start GROUP BY a.window_start": "these windows",
    f"FROM {of('a', 10, 5)} AS a JOIN (SELECT b.k, b.window_start {HOPS}) AS b "
    "ON a.k = b.k AND a.window_start = b.window_start GROUP BY a.window_start": "these windows",
    f"{SIDES.format(FIRSTS, '', of('b', 5))} AND {SAME} GROUP BY a.window_start": "instead",
    f"{SIDES.format(of('b', 5), '', FIRSTS)} AND {SAME} GROUP BY a.window_start": "instead",
    f"{SIDES.format(of('a', 5), '', counted('b', 5))} AND {SAME} GROUP BY a.k": "GROUP BY needs",
    f"{SIDES.format(counted('a', 5), '', of('b', 5))} AND {SAME} GROUP BY a.k": "GROUP BY needs",
    f"FROM ({ENDS} UNION ALL {ALONE}) GROUP BY k": "GROUP BY needs window_start",
    f"FROM ({ALONE} UNION ALL {ENDS}) GROUP BY k": "GROUP BY needs window_start",
    f"FROM ({HOP} UNION ALL SELECT a.k, a.window_start {HOPS}) GROUP BY window_start": "overlap",
    f"FROM (SELECT a.k, a.window_start {HOPS} UNION ALL {HOP}) GROUP BY window_start": "overlap",
    f"FROM (SELECT * FROM {of('a', 10, 3)}) GROUP BY window_start": "a multiple of SLIDE",
    f"FROM ({ALONE} UNION ALL {UNMATCHED}) GROUP BY window_start": "in no window of this side",
    f"FROM ({UNMATCHED} UNION ALL {ALONE}) GROUP BY window_start": "in no window of this side",
    f"FROM ({ALONE} UNION ALL SELECT * FROM ({ALONE} ORDER BY 1 LIMIT 2)) "
    "GROUP BY window_start": "instead",
    f"FROM (SELECT * FROM ({ALONE} ORDER BY 1 LIMIT 2) UNION ALL {ALONE}) "
    "GROUP BY window_start": "instead",
}
POINTS = [
    *(
        f"FROM {ROWS_OF_A} AS a {side} JOIN b ON a.k = b.k"
        for side in ("", "LEFT", "RIGHT", "FULL")
    ),
    *(f"FROM {of('a', 5)} AS a {side} JOIN b ON a.k = b.k" for side in ("RIGHT", "FULL")),
    *(
        f"FROM {ROWS_OF_A} AS a WHERE {test}"
        for test in (
            "EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
            "NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
            "EXISTS (SELECT 1 FROM b WHERE b.k > a.k)",
            "k IN (SELECT k FROM b)",
            "k NOT IN (SELECT k FROM b)",
            "k IN (SELECT k FROM b) OR k = 7",
        )
    ),
    f"FROM (SELECT k, window_start FROM {of('a', 5)}) AS a SEMI JOIN b ON a.k = b.k",
]


@pytest.mark.parametrize("text", POINTS)
@pytest.mark.parametrize(
    "by", ["GROUP BY {}", "QUALIFY RANK() OVER (PARTITION BY {} ORDER BY a.k) < 3"]
)
def test_rows_joined_with_points_do_not_exist_at_the_end(text: str, by: str) -> None:
    bound = "a.window_start"
    listed = "COUNT(*) AS n" if by.startswith("GROUP") else bound
    with pytest.raises(SqlError, match=r"last for an instant.*give both sides the same windows"):
        sql(f"SELECT {listed} {text} {by.format(bound)}", streams())


@pytest.mark.parametrize(
    "form", ["JOIN {} AS b ON {}", "LEFT JOIN {} AS b ON {}", ", {} AS b WHERE {}"]
)
def test_a_window_does_not_overlap_the_previous_one(form: str) -> None:
    same = "a.k = b.k AND a.window_start = b.window_end"
    with pytest.raises(SqlError, match="do not overlap in time, so no rows would match: write LAG"):
        sql(
            f"SELECT a.c FROM {counted('a', 5)} AS a {form.format(counted('b', 5), same)}",
            streams(),
        )


@pytest.mark.parametrize("text", REFUSED)
def test_queries_without_a_result_per_window_are_rejected(text: str) -> None:
    with pytest.raises(SqlError) as raised:
        sql(f"SELECT COUNT(*) AS n {text}", streams())
    assert REFUSED[text] in str(raised.value)


def test_results_joined_with_rows_have_no_window_time() -> None:
    """A pair of an inner join starts when its row arrives."""
    bounds = f"{BOTH}, window_time"
    results = f"(SELECT k, {bounds} FROM {of('a', 5)} GROUP BY k, {bounds})"
    pairs = f"SELECT a.window_time AS ts {SIDES.format(results, '', of('b', 5))} AND {SAME}"
    table = of("v", 10).replace("vs()", "ts")
    with pytest.raises(SqlError, match="'ts' is not the time of 'v'"):
        sql(
            f"CREATE VIEW v AS {pairs}; SELECT COUNT(*) AS n FROM {table} GROUP BY {BOTH}",
            streams(),
        )


def test_a_table_with_new_rows_is_not_a_table_without_times() -> None:
    """None of its rows ends, but pairs with results of windows start when the row arrives."""
    rows = [event(at, INF_TIME, k=1) for at in (0, 3_000_000)]
    coming = Stream.from_items({"k": "int64"}, rows)
    by = "GROUP BY a.window_start, a.window_end"
    with pytest.raises(SqlError, match="may change before a window ends"):
        sql(
            f"SELECT COUNT(*) AS n {SIDES.format(LASTED, '', 'd')} {by}",
            {**streams(), "d": coming},
        )


def _rows(window: str) -> str:
    return f"(SELECT * FROM TABLE({window}(TABLE a, DESCRIPTOR(vs()), {{}})))"


@pytest.mark.parametrize(
    ("rows", "window"),
    [
        (_rows("HOP").format("INTERVAL '5' SECOND, INTERVAL '10' SECOND"), "TUMBLE('10 seconds')"),
        (_rows("TUMBLE").format("INTERVAL '10' SECOND"), "TUMBLE('5 seconds')"),
        (_rows("TUMBLE").format("INTERVAL '10' SECOND"), "HOP('10 seconds', '5 seconds')"),
        (_rows("TUMBLE").format("INTERVAL '10' SECOND"), "SESSION('1 second')"),
    ],
)
def test_rows_of_windows_cannot_be_counted_in_several_others(rows: str, window: str) -> None:
    with pytest.raises(SqlError, match="several of these windows would count them"):
        sql(f"SELECT k, COUNT(*) AS n FROM {rows} GROUP BY k, {window}", streams())
    whole = _rows("TUMBLE").format("INTERVAL '5' SECOND")
    sql(f"SELECT k, COUNT(*) AS n FROM {whole} GROUP BY k, TUMBLE('10 seconds')", streams())


def test_rows_of_hop_are_joined_within_their_windows() -> None:
    lengths = "INTERVAL '5' SECOND, INTERVAL '10' SECOND"
    table = f"TABLE(HOP(TABLE {{0}}, DESCRIPTOR(vs()), {lengths})) AS {{0}}"
    text = f"SELECT a.k FROM {table.format('a')} {{}} {table.format('b')} {{}} a.k = b.k"
    for join, on in (("JOIN", "ON"), (",", "WHERE"), ("LEFT JOIN", "ON")):
        with pytest.raises(SqlError, match=r"add a\.window_start = b\.window_start AND"):
            sql(text.format(join, on), streams())
        bounds = " AND a.window_start = b.window_start AND a.window_end = b.window_end"
        sql(text.format(join, on) + bounds, streams())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k FROM {a} a WHERE EXISTS (SELECT 1 FROM {b} b WHERE b.k = a.k)",
        "SELECT a.k FROM {a} a WHERE NOT EXISTS (SELECT 1 FROM {b} b WHERE b.k = a.k)",
        "SELECT a.k FROM {a} a WHERE EXISTS (SELECT 1 FROM {b} b WHERE b.k > a.k)",
        "SELECT a.k FROM {a} a WHERE a.k = 7 OR EXISTS (SELECT 1 FROM {b} b WHERE b.k = a.k)",
        "SELECT a.k FROM {a} a WHERE a.k IN (SELECT b.k FROM {b} b)",
        "SELECT a.k FROM {a} a WHERE a.k NOT IN (SELECT b.k FROM {b} b)",
        "SELECT k FROM {a} EXCEPT SELECT k FROM {b}",
        "SELECT k FROM {a} INTERSECT SELECT k FROM {b}",
    ],
)
def test_overlapping_windows_need_their_bounds_for_comparison(text: str) -> None:
    """Several windows contain an instant, so a row could match a row of another window."""
    with pytest.raises(SqlError, match=r"these windows overlap.*add.*window_start"):
        sql(text.format(a=of("a", 10, 5), b=of("b", 10, 5)), streams())


@pytest.mark.parametrize("test", ["EXISTS", "NOT EXISTS"])
@pytest.mark.parametrize(("ours", "theirs"), [(of("a", 10, 5), "b"), ("a", of("b", 10, 5))])
def test_windows_cannot_be_compared_with_points(test: str, ours: str, theirs: str) -> None:
    text = f"SELECT a.k FROM {ours} a WHERE {test} (SELECT 1 FROM {theirs} b WHERE b.k = a.k)"
    with pytest.raises(SqlError, match="have no window and last for an instant"):
        sql(text, streams())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k FROM {} a WHERE EXISTS (SELECT 1 FROM {} b WHERE b.k = a.k)",
        "SELECT a.k FROM {} a WHERE NOT EXISTS (SELECT 1 FROM {} b WHERE b.k = a.k)",
        "SELECT a.k FROM {} a WHERE a.k IN (SELECT b.k FROM {} b)",
        "SELECT a.k FROM {} a WHERE a.k NOT IN (SELECT b.k FROM {} b)",
        "SELECT a.k FROM {} a WHERE a.k = 7 OR a.k IN (SELECT b.k FROM {} b)",
        "SELECT a.k FROM {} a SEMI JOIN {} b ON b.k = a.k",
        "SELECT a.k FROM {} a LEFT JOIN {} b ON b.k = a.k",
        "SELECT a.k FROM {} a RIGHT JOIN {} b ON b.k = a.k AND a.window_start = b.window_start",
        "SELECT a.k FROM {} a FULL JOIN {} b ON b.k = a.k",
        "SELECT k FROM {} EXCEPT SELECT k FROM {}",
        "SELECT k FROM {} INTERSECT SELECT k FROM {}",
    ],
)
def test_outer_joins_of_different_windows_are_rejected(text: str) -> None:
    """A row would count as unmatched for the part of its window in which the other has no match."""
    for a, b in (
        (of("a", 10), of("b", 5)),
        (of("a", 5), of("b", 10)),
        (of("a", 10, 5), of("b", 5)),
    ):
        with pytest.raises(SqlError, match="the windows of both sides differ"):
            sql(text.format(a, b), streams())
