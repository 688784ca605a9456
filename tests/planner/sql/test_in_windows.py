"""GROUP BY the bounds of windows returns one result per window, for windows nested to any depth.

The model is a loop over windows and rows. Not covered: windows over lifetimes (see the operators'
tests), outer joins (``test_window_tables.py``).
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from planner import SqlError, Stream, sql
from planner.physical.lower import lower
from tests.support.plan_runner import answer
from tests.support.window_queries import (
    BOTH,
    HOPS,
    ROWS,
    ROWS_OF_A,
    SECOND,
    SESSIONS,
    SIDES,
    counted,
    of,
    streams,
    windows,
)

Found = list[tuple[int, ...]]


def plan_of(text: str) -> Stream:
    stream = sql(text, streams())
    assert isinstance(stream, Stream)
    return stream


def found(text: str, parallelism: int = 2) -> Found:
    """Start and end of each row in seconds, and its numbers; times are window starts."""
    stream = plan_of(text)
    plan = lower(stream.to_parquet(), root="memory://windows", parallelism=parallelism)
    table = answer(plan)
    rows = []
    for row in table.to_pylist():
        times = [int(v.timestamp()) for v in row.values() if hasattr(v, "timestamp")]
        assert times == [row["_vs"] // SECOND] * len(times), row
        numbers = [row[name] for name in stream.schema.names if isinstance(row[name], int)]
        rows.append((row["_vs"] // SECOND, row["_ve"] // SECOND, *numbers))
    return sorted(rows)


def counts(size: int, every: int, *, by_key: bool = True) -> Found:
    """Return COUNT(*) of the rows of ``a`` per window and key."""
    n = Counter((w, k if by_key else 0) for at, k in ROWS["a"] for w in windows(at, size, every))
    return sorted((w, w + size, *((k,) if by_key else ()), m) for (w, k), m in n.items())


BY = f"GROUP BY {BOTH}, k"
COUNTED = f"SELECT window_start, k, COUNT(*) AS n FROM {{}} {BY}"
COPIES = {
    "star": "(SELECT * FROM {})",
    "named": "(SELECT window_end, k, window_start FROM {}) AS w",
    "filtered": "(SELECT * FROM (SELECT * FROM {} WHERE k < 9) WHERE k > 0)",
    "distinct": "(SELECT DISTINCT k, vs() AS at, window_start, window_end FROM {})",
    "numbered": "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY vs()) AS z FROM {})",
}


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("every", [None, 5])
def test_rows_of_windows_in_a_subquery(copy: str, every: int | None) -> None:
    table = COPIES[copy].format(of("a", 10, every))
    assert found(COUNTED.format(table)) == counts(10, every or 10)


def test_rows_of_windows_with_and_without_other_names() -> None:
    rows = of("a", 5)
    expected = counts(5, 5)
    assert found(f"WITH w AS (SELECT * FROM {rows}) {COUNTED.format('w')}") == expected
    assert found(f"CREATE VIEW w AS SELECT * FROM {rows}; {COUNTED.format('w')}") == expected
    renamed = "SELECT from_, k, COUNT(*) AS n FROM {} GROUP BY from_, k"
    listed = f"SELECT window_start AS from_, k FROM {rows}"
    assert found(renamed.format(f"({listed})")) == expected
    assert found(f"CREATE VIEW w (from_, k) AS {listed}; {renamed.format('w')}") == expected
    aliased = f"(SELECT window_start, k FROM {rows}) AS w (from_, k)"
    assert found(renamed.format(aliased)) == expected
    both = f"(SELECT * FROM {rows} UNION ALL SELECT * FROM {rows})"
    assert found(COUNTED.format(both)) == [(*row[:-1], 2 * row[-1]) for row in expected]


@pytest.mark.parametrize("every", [None, 5])
def test_rows_of_windows_keep_their_times_and_order(every: int | None) -> None:
    """The rows of a window are in the order of their starts, at any parallelism."""
    table = f"(SELECT * FROM {of('a', 10, every)})"
    listed = "ARRAY_AGG(k) AS ks, FIRST(k) AS first, LAST(k) AS last, MAX(vs()) AS newest"
    text = f"SELECT window_start, {listed} FROM {table} GROUP BY window_start"
    inside: dict[int, list[tuple[int, int]]] = {}
    for at, k in ROWS["a"]:
        for window in windows(at, 10, every or 10):
            inside.setdefault(window, []).append((at, k))
    expected = {
        start: ([k for _, k in rows], rows[0][1], rows[-1][1], rows[-1][0])
        for start, rows in inside.items()
    }
    over = "ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY vs() DESC)"
    last = f"SELECT window_start, k FROM {table} QUALIFY {over} = 1"
    for parallelism in (1, 2, 4):
        plan = lower(plan_of(text).to_parquet(), root="memory://own", parallelism=parallelism)
        assert expected == {
            row["_vs"] // SECOND: (
                row["ks"],
                row["first"],
                row["last"],
                int(row["newest"].timestamp()),
            )
            for row in answer(plan).to_pylist()
        }
        lasts = [(start, start + 10, row[2]) for start, row in sorted(expected.items())]
        assert found(last, parallelism) == lasts


KEPT = {
    "k IN (SELECT k FROM {b})": (1, 1),
    "k NOT IN (SELECT k FROM {b})": (0, 0),
    "EXISTS (SELECT 1 FROM {b} AS b WHERE b.k = a.k)": (1, 1),
    "EXISTS (SELECT 1 FROM {b} AS b WHERE b.k = a.k AND b.window_end = a.window_end)": (1, 1),
    "NOT EXISTS (SELECT 1 FROM {b} AS b WHERE b.k = a.k)": (0, 0),
    "k IN (SELECT k FROM {b}) OR k = 2": (1, 2),
}


@pytest.mark.parametrize("rows", [ROWS_OF_A, of("a", 5)], ids=["subquery", "table"])
@pytest.mark.parametrize("test", KEPT)
def test_what_is_stored_for_rows_of_the_same_windows(test: str, rows: str) -> None:
    """The rows when the window ends; ``KEPT``: the expected result with and without the key."""
    b = f"(SELECT * FROM {of('b', 5)} WHERE k <> 1 OR vs() > TIMESTAMP '1970-01-01 00:00:05')"
    text = f"SELECT window_start, COUNT(*) AS n FROM {rows} AS a WHERE {test.format(b=b)}"
    there = {(at // 5, k) for at, k in ROWS["b"] if k != 1 or at > 5}
    n = Counter[int]()
    for at, k in ROWS["a"]:
        is_there = (at // 5, k) in there
        kept = bool(KEPT[test][0]) if is_there else KEPT[test][0] == 0
        n[at // 5 * 5] += kept or k == KEPT[test][1] == 2
    expected = [(start, start + 5, m) for start, m in sorted(n.items()) if m]
    assert found(f"{text} GROUP BY window_start") == expected


@pytest.mark.parametrize("kind", ["EXCEPT", "INTERSECT", "UNION"])
@pytest.mark.parametrize("every", [None, 5])
def test_rows_of_windows_are_compared_within_their_windows(kind: str, every: int | None) -> None:
    a, b = (f"SELECT k, window_start FROM {of(name, 10, every)}" for name in ROWS)
    text = f"SELECT window_start, COUNT(*) AS n FROM ({a} {kind} {b} WHERE k = 2) GROUP BY 1"
    mine, other = (
        {(w, k) for at, k in ROWS[name] for w in windows(at, 10, every or 10)} for name in ROWS
    )
    other = {(w, k) for w, k in other if k == 2}
    kept = {"EXCEPT": mine - other, "INTERSECT": mine & other, "UNION": mine | other}[kind]
    n = Counter(w for w, _ in kept)
    assert found(text) == [(w, w + 10, m) for w, m in sorted(n.items())]


@pytest.mark.parametrize("every", [None, 5])
def test_windows_over_results_use_window_time(every: int | None) -> None:
    """Windows of windows as in Flink: each result is inside the windows that it overlaps."""
    listed = (
        f"SELECT window_time AS ts, COUNT(*) AS c FROM {of('a', 5)} GROUP BY {BOTH}, window_time"
    )
    table = of("v", 10, every).replace("vs()", "ts")
    text = (
        f"CREATE VIEW v AS {listed}; SELECT window_start, SUM(c) AS n FROM {table} GROUP BY {BOTH}"
    )
    assert found(text) == counts(10, every or 10, by_key=False)
    with pytest.raises(SqlError, match="'ts' is not the time of 'v'"):
        sql(text.replace("'10' SECOND", "'12' SECOND"), streams())


def test_a_bound_by_its_position_in_the_list() -> None:
    """A window bound may be a position in the SELECT list."""
    views = "".join(f"CREATE VIEW {s}t AS SELECT *, vs() AS ts FROM {s}; " for s in "ab")
    joined = f"FROM {of('at', 5)} AS a JOIN bt AS b ON a.k = b.k AND a.ts = b.ts"
    text = f"{views}SELECT window_start AS w, COUNT(*) AS n {joined} GROUP BY {{}}"
    assert plan_of(text.format("1")) == plan_of(text.format("window_start"))
    assert plan_of(text.format("w")) == plan_of(text.format("window_start"))
    assert found(text.format("1")) == [(5, 10, 1)]


@pytest.mark.parametrize("inner", ["TUMBLE('5s')", "k, SESSION('2s')"])
def test_results_of_windows_belong_to_windows_by_their_time(inner: str) -> None:
    """Some end in the next window, but each is counted once."""
    view = f"CREATE VIEW v AS SELECT window_start AS at, COUNT(*) AS c FROM a GROUP BY {inner}"
    n = Counter[int]()
    for start, _, c in found(view.split(" AS ", 1)[1]):
        n[start // 7 * 7] += c
    text = f"SELECT window_start, SUM(c) AS n FROM {of('v', 7).replace('vs()', 'at')}"
    assert found(f"{view}; {text} GROUP BY {BOTH}") == [(w, w + 7, m) for w, m in sorted(n.items())]
    assert sum(n.values()) == len(ROWS["a"])


@pytest.mark.parametrize(
    "inner", ["TUMBLE('5s')", "TUMBLE('3s')", "TUMBLE('10s')", "TUMBLE('20s')", "HOP('10s', '5s')"]
)
@pytest.mark.parametrize("kind", ["TUMBLE", "HOP", "CUMULATE"])
def test_windows_over_results_of_windows_count_each_once(inner: str, kind: str) -> None:
    """A result is in the windows that contain its start, regardless of its length."""
    step, size = 5, 10
    lengths = f"INTERVAL '{size}' SECOND"
    if kind != "TUMBLE":
        lengths = f"INTERVAL '{step}' SECOND, {lengths}"
    view = f"CREATE VIEW v AS SELECT window_start AS at, COUNT(*) AS c FROM a GROUP BY {inner}"
    n = Counter[tuple[int, int]]()
    for at, _, c in found(view.split(" AS ", 1)[1]):
        start = at // size * size
        if kind == "HOP":
            ends = [w + size for w in windows(at, size, step)]
        else:
            ends = [start + size] if kind == "TUMBLE" else [start + step, start + size]
        for end in ends:
            n[max(start, end - size) if kind != "HOP" else end - size, end] += c * (at < end)
    table = f"TABLE({kind}(TABLE v, DESCRIPTOR(at), {lengths}))"
    seconds = "EXTRACT(EPOCH FROM window_{0})::BIGINT AS of_{0}"
    listed = f"SELECT {seconds.format('start')}, {seconds.format('end')}, SUM(c) AS n"
    rows = [row[2:] for row in found(f"{view}; {listed} FROM {table} GROUP BY {BOTH}")]
    assert rows == sorted((*window, m) for window, m in n.items() if m)


def test_a_bound_has_precedence_over_an_alias() -> None:
    listed = "SELECT EXTRACT(EPOCH FROM window_start)::BIGINT AS window_start, COUNT(*) AS n"
    text = f"SELECT window_start AS n, n AS m FROM ({listed} FROM {of('a', 5)} GROUP BY {BOTH})"
    assert found(text) == [(at, at + 5, at, n) for at, _, n in counts(5, 5, by_key=False)]


def test_results_of_cumulate_are_identified_by_both_bounds() -> None:
    lengths = "INTERVAL '5' SECOND, INTERVAL '10' SECOND"
    table = f"TABLE(CUMULATE(TABLE a, DESCRIPTOR(vs()), {lengths}))"
    inner = f"SELECT k, {BOTH}, COUNT(*) AS c FROM {table} GROUP BY k, {BOTH}"
    seconds = "EXTRACT(EPOCH FROM window_{0})::BIGINT AS {0}"
    listed = f"SELECT {seconds.format('start')}, {seconds.format('end')}"
    n = Counter[tuple[int, int]]()
    for at, _ in ROWS["a"]:
        for end in (5, 10, 15, 20):
            start = (end - 1) // 10 * 10
            n[start, end] += start <= at < end
    expected = sorted((e - 5, e, s, e, m) for (s, e), m in n.items() if m)
    assert found(f"{listed}, SUM(c) AS n FROM ({inner}) GROUP BY {BOTH}") == expected
    for bound in BOTH.split(", "):
        with pytest.raises(SqlError, match="GROUP BY needs window_start and window_end"):
            sql(f"SELECT SUM(c) AS n FROM ({inner}) GROUP BY {bound}", streams())


def test_lasting_rows_without_windows_are_read_at_the_time_of_each_row() -> None:
    """A table beside rows of windows is read at the time of each row, not at the end."""
    over = "ROW_NUMBER() OVER (PARTITION BY k ORDER BY vs() DESC)"
    newest = f"(SELECT k, vs() AS at FROM b QUALIFY {over} = 1) AS d"
    a = f"{of('a', 5)} AS a"
    n = Counter(at // 5 * 5 for at, k in ROWS["a"] if any(t <= at and c == k for t, c in ROWS["b"]))
    expected = [(start, start + 5, m) for start, m in sorted(n.items())]
    text = "SELECT a.window_start, COUNT(*) AS n FROM {} GROUP BY a.window_start"
    for joined in (
        "{0} JOIN {1} ON a.k = d.k",
        "{1} JOIN {0} ON a.k = d.k",
        "{1}, {0} WHERE a.k = d.k",
    ):
        assert found(text.format(joined.format(a, newest))) == expected
    view = f"CREATE VIEW v AS SELECT a.k FROM a JOIN {newest} ON a.k = d.k"
    assert found(f"{view}; {text.format(of('v', 5) + ' AS a')}") == expected
    refused = f"(SELECT * FROM {a}) AS a JOIN {newest} ON a.k = d.k"
    with pytest.raises(SqlError, match="join them in a view that TUMBLE reads"):
        sql(text.format(refused), streams())


def test_results_of_windows_keep_their_lifetimes_after_an_asof_join() -> None:
    """Results of windows keep their windows in an ASOF join; the other side's do not count."""
    on = "a.k = b.k AND a.window_start >= b.window_start"
    joined = f"FROM {counted('a', 5)} AS a ASOF JOIN {counted('b', 5)} AS b ON {on}"
    text = f"SELECT SUM(a.c) AS n {joined} GROUP BY {{}}.window_start"
    n = Counter[int]()
    for at, k in ROWS["a"]:
        n[at // 5 * 5] += any(key == k and t // 5 <= at // 5 for t, key in ROWS["b"])
    assert found(text.format("a")) == [(w, w + 5, m) for w, m in sorted(n.items())]
    with pytest.raises(SqlError, match="this column mixes rows of different windows"):
        sql(text.format("b"), streams())
    sessions = f"(SELECT k, {BOTH} FROM {SESSIONS} {BY})"
    text = f"SELECT b.window_start AS s FROM {sessions} AS a ASOF JOIN {sessions} AS b ON {on}"
    with pytest.raises(SqlError, match="'window_start' is neither in GROUP BY nor"):
        sql(f"{text} GROUP BY a.window_start, a.window_end", streams())


def test_first_rows_and_counts_of_a_subquery() -> None:
    over = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY k DESC, vs()) AS n"
    text = f"SELECT window_start, k, n FROM (SELECT *, {over} FROM {{}}) WHERE n <= 1"
    expected = [(start, start + 5, 2, 1) for start in (0, 5, 10)]
    assert found(text.format(f"(SELECT * FROM {of('a', 5)})")) == expected
    assert found(text.format(counted("a", 5))) == expected
    firsts = f"(SELECT window_start, k FROM (SELECT *, {over} FROM {of('a', 5)}) WHERE n <= 9)"
    text = f"SELECT window_start, COUNT(*) AS n FROM {firsts} GROUP BY window_start"
    assert found(text) == counts(5, 5, by_key=False)
    text = f"SELECT window_start, SUM(c) AS n FROM {counted('a', 5)} GROUP BY window_start"
    assert found(text) == counts(5, 5, by_key=False)
    text = f"SELECT window_start, SUM(c) AS n FROM {counted('a', 5)} GROUP BY TUMBLE('10s')"
    assert found(text) == counts(10, 10, by_key=False)


def pairs(end: int) -> int:
    """Pairs of rows of a in the 5 s before ``end``, and rows of b in the 10 s window up to then."""
    mine = [k for at, k in ROWS["a"] if end - 5 <= at < end]
    start = (end - 1) // 10 * 10
    return sum(k == other for k in mine for at, other in ROWS["b"] if start <= at < end)


@pytest.mark.parametrize("form", ["{}", "(SELECT * FROM {})"])
def test_pairs_of_nested_windows_count_at_their_ends(form: str) -> None:
    a, b = (form.format(of(name, size)) for name, size in (("a", 5), ("b", 10)))
    joined = f"FROM {a} AS a JOIN {b} AS b ON a.k = b.k"
    expected = [(end - 5, end, pairs(end)) for end in (5, 10, 15)]
    for by in ("a.window_start", "a.window_start, a.window_end", "b.window_end, a.window_end"):
        assert found(f"SELECT COUNT(*) AS n {joined} GROUP BY {by}") == expected


def test_results_of_windows_that_differ() -> None:
    """A pair of counts is valid for the shorter window, so each has one sum."""
    joined = f"FROM {counted('a', 5)} AS a JOIN {counted('b', 10)} AS b ON a.k = b.k"
    text = f"SELECT a.window_start, SUM(a.c * b.c) AS n {joined} GROUP BY a.window_start"
    a, b = (
        Counter((at // size, k) for at, k in ROWS[name]) for name, size in (("a", 5), ("b", 10))
    )
    sums = Counter[int]()
    for (window, k), n in a.items():
        sums[window * 5] += n * b[window // 2, k]
    assert found(text) == [(start, start + 5, n) for start, n in sorted(sums.items())]


SAME = "a.window_start = b.window_start"


def test_the_same_windows_may_overlap() -> None:
    """Rows of the same window are joined, however the equality of windows is written."""
    for same in (f"AND {SAME}", f"WHERE {SAME}", "AND b.window_end = a.window_end"):
        assert found(f"SELECT COUNT(*) AS n {HOPS} {same} GROUP BY a.window_start") == [
            (w, w + 10, n)
            for w in range(-5, 15, 5)
            if (
                n := sum(
                    k == other and w in windows(at, 10, 5) and w in windows(t, 10, 5)
                    for at, k in ROWS["a"]
                    for t, other in ROWS["b"]
                )
            )
        ]


def test_rows_without_a_match_belong_to_the_windows_of_their_side() -> None:
    b = f"(SELECT k + 5 AS k, window_start, window_end FROM {of('b', 5)})"
    joined = SIDES.format(of("a", 5), "FULL", b) + f" AND {SAME}"
    by = "COALESCE(a.window_start, b.window_start)"
    text = f"SELECT {by} AS w, COUNT(*) AS n {joined} GROUP BY {by}"
    n = Counter(at // 5 * 5 for rows in ROWS.values() for at, _ in rows)
    assert found(text) == [(start, start + 5, m) for start, m in sorted(n.items())]


def test_rows_and_results_of_the_same_windows_have_one_bound() -> None:
    by = "COALESCE(a.window_start, b.window_start)"
    joined = SIDES.format(of("a", 5), "FULL", counted("a", 5)) + f" AND {SAME}"
    text = f"SELECT {by} AS w, COUNT(*) AS n {joined} GROUP BY {by}"
    assert found(text) == counts(5, 5, by_key=False)


@pytest.mark.parametrize("order", [1, -1])
def test_joined_rows_and_results_of_windows_count_at_the_end(order: int) -> None:
    """Rows of a window joined with results of the window count at the window's end."""
    rows, results = [of("a", 5), counted("a", 5)][::order]
    joined = SIDES.format(rows, "INNER", results) + f" AND {SAME} AND a.window_end = b.window_end"
    text = f"SELECT a.window_start, COUNT(*) AS n {joined} GROUP BY a.window_start, a.window_end"
    assert found(text) == counts(5, 5, by_key=False)


@pytest.mark.parametrize("order", [1, -1])
def test_rows_of_windows_in_a_union_with_results_count_at_the_end(order: int) -> None:
    first, last = [f"SELECT k, window_start FROM {t}" for t in (of("a", 5), counted("a", 5))][
        ::order
    ]
    text = f"SELECT k, COUNT(*) AS n FROM ({first} UNION ALL {last}) GROUP BY k, window_start"
    assert found(text) == [(*row[:-1], row[-1] + 1) for row in counts(5, 5)]


def test_a_null_bound_stays_null_when_rows_are_ranked() -> None:
    """Ranked rows are valid for their window, but one side of the join was in no window."""
    b = f"(SELECT * FROM {of('b', 5)} WHERE k = 1)"
    joined = f"{SIDES.format(of('a', 5), 'LEFT', b)} AND {SAME}"
    over = "RANK() OVER (PARTITION BY a.window_start ORDER BY a.k)"
    ranked = f"SELECT a.k, a.window_start, b.window_start AS w {joined} QUALIFY {over} < 9"
    text = f"SELECT a.k, CASE WHEN w IS NULL THEN 0 ELSE 1 END AS n FROM ({ranked}) AS a"
    there = Counter((at // 5 * 5, k) for at, k in ROWS["b"] if k == 1)
    expected = [
        (w, w + 5, k, int(there[w, k] > 0))
        for at, k in ROWS["a"]
        for w in windows(at, 5, 5)
        for _ in range(there[w, k] or 1)
    ]
    assert found(text) == sorted(expected)


def test_a_row_of_one_of_three_sides_has_a_window() -> None:
    """COALESCE of all three sides has the bounds; COALESCE of two of them may be null."""
    sides = [
        f"(SELECT k + {5 * n} AS k, window_start FROM {of(name, 5)}) AS {alias}"
        for n, (name, alias) in enumerate([("a", "a"), ("b", "b"), ("a", "c")])
    ]
    two = "COALESCE(a.window_start, b.window_start)"
    three = "COALESCE(a.window_start, b.window_start, c.window_start)"
    joined = (
        f"FROM {sides[0]} FULL JOIN {sides[1]} ON a.k = b.k AND {SAME} "
        f"FULL JOIN {sides[2]} ON a.k = c.k AND {two} = c.window_start"
    )
    n = Counter(at // 5 * 5 for name in "aba" for at, _ in ROWS[name])
    text = f"SELECT {three} AS w, COUNT(*) AS n {joined} GROUP BY {three}"
    assert found(text) == [(start, start + 5, m) for start, m in sorted(n.items())]
    for pair in itertools.combinations("abc", 2):
        some = "COALESCE({}.window_start, {}.window_start)".format(*pair)
        with pytest.raises(SqlError, match="in no window of this side"):
            sql(f"SELECT {some} AS w, COUNT(*) AS n {joined} GROUP BY {some}", streams())


LISTED = f"SELECT k, window_start, window_end, COUNT(*) AS c FROM {{}} {BY}"


@pytest.mark.parametrize(
    "text",
    [
        LISTED.format(SESSIONS),
        f"{LISTED.format(of('a', 5))} UNION ALL {LISTED.format(of('a', 10))}",
        f"SELECT k, {BOTH}, COUNT(*) AS c FROM a GROUP BY k, COUNT_WINDOW(2)",
    ],
)
def test_results_of_windows_of_several_lengths_are_identified_by_both_bounds(text: str) -> None:
    """The rows are valid for their windows' intervals, and so are results grouped by the bounds."""
    around = f"SELECT window_start, SUM(c) AS n FROM ({text}) GROUP BY"
    sums = Counter[tuple[int, int]]()
    for start, end, _, n in found(f"SELECT k, window_start, c FROM ({text})"):
        sums[start, end] += n
    assert found(f"{around} {BOTH}") == [(*window, n) for window, n in sorted(sums.items())]
    with pytest.raises(SqlError, match="GROUP BY needs window_start and window_end"):
        sql(f"{around} window_start", streams())


def test_a_table_without_times_does_not_split_results() -> None:
    """Joined rows are still valid for their window's interval, so no row has to be checked."""
    table = Stream.table({"k": [1, 2], "name": ["x", "y"]})
    given = {**streams(), "d": table}
    joined = f"FROM ({LISTED.format(SESSIONS)}) AS s JOIN d ON s.k = d.k"
    text = f"SELECT s.window_start, name, SUM(c) AS n {joined} GROUP BY {BOTH}, name"
    stream = sql(text, given)
    assert isinstance(stream, Stream)
    rows = answer(lower(stream.to_parquet(), root="memory://always")).to_pylist()
    shown = sorted((r["_vs"] // SECOND, r["_ve"] // SECOND, r["n"]) for r in rows)
    expected = found(f"SELECT k, window_start, c FROM ({LISTED.format(SESSIONS)})")
    assert shown == sorted((start, end, n) for start, end, _, n in expected)
