"""Windows in FROM equal the windows of GROUP BY, and ``cumulating`` matches its definition.

Not covered: errors in both; the catalogue compares results with DuckDB's.
"""

from __future__ import annotations

from random import Random

import pytest

from planner import (
    InvalidPlanError,
    SqlError,
    Stream,
    agg,
    col,
    cumulating,
    event,
    hopping,
    session,
    sql,
    vs,
)
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
def test_plans_equal_those_of_windows_in_group_by(in_from: str, form: str) -> None:
    listed = f"SELECT k, {BOUNDS}, sum(i) AS v FROM"
    table = form.format(in_from)
    by = "GROUP BY k, p, window_start, window_end"
    expected = sql(f"{listed} t GROUP BY k, p, {SAME[in_from]}", streams())
    assert sql(f"{listed} {table} {by}", streams()) == expected
    renamed = f"{listed.replace('window', 'w.window', 1)} {table} AS w {by}"
    assert sql(renamed, streams()) == expected


@pytest.mark.parametrize("key", ["day", "DATE_TRUNC('day', window_start)"])
def test_keys_computed_from_bounds_count_as_bounds(key: str) -> None:
    table = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
    listed = "SELECT k, DATE_TRUNC('day', window_start) AS day, sum(i) AS v FROM"
    by = f"GROUP BY k, window_start, {key}"
    expected = sql(f"{listed} (SELECT * FROM {table}) {by}", streams())
    assert sql(f"{listed} {table} {by}", streams()) == expected


def test_emit_changes_on_sessions_emits_running_results() -> None:
    grown = session("9s", "1m", running=True)
    start = agg.min(vs())
    expected = streams()["t"].group_by("k").window(grown).agg(n=agg.count(), window_start=start)
    asked = "count(*) AS n, window_start FROM t GROUP BY k, SESSION('9s', '1m') EMIT CHANGES"
    assert sql(f"SELECT k, {asked}", streams()) == expected
    gap = session(col("i"), running=True)
    own = streams()["t"].group_by("k").window(gap).agg(n=agg.count())
    asked = "SELECT k, count(*) AS n FROM t GROUP BY k, SESSION(i) HAVING count(*) > 1 EMIT CHANGES"
    assert sql(asked, streams()) == own.filter(col("n") > 1)
    runs = "SELECT k, count(*) AS n FROM t GROUP BY k"
    assert sql(f"{runs} EMIT CHANGES", streams()) == sql(runs, streams())
    for place in ("t", "t AS emit", "(SELECT k FROM t)"):  # the word is not its alias
        runs = f"SELECT count(*) AS n FROM {place}"
        assert sql(f"{runs} EMIT CHANGES", streams()) == sql(runs, streams())
    assert sql("SELECT emit.k FROM t emit", streams()) == streams()["t"].select("k")


def test_open_tumbling_and_hopping_windows() -> None:
    grown = streams()["t"].group_by("k").window(hopping("9s", "3s"), emit="changes")
    expected = grown.agg(n=agg.count(), top=agg.max("i")).filter(col("n") > 1)
    listed = "SELECT k, window_start AS a, count(*) AS n, is_final AS done FROM t"
    asked = f"{listed} GROUP BY k, HOP('9s', '3s') HAVING count(*) > 1 AND max(i) > 2 EMIT CHANGES"
    wanted = expected.filter(col("top") > 2).select(
        "k", a=col("window_start"), n=col("n"), done=col("is_final")
    )
    made = sql(asked, streams())
    assert isinstance(made, Stream)
    assert made.schema == wanted.schema
    with pytest.raises(SqlError, match="no column 'is_final'"):
        sql("SELECT is_final, count(*) AS n FROM t GROUP BY TUMBLE('9s')", streams())


EMITS = {
    "SELECT window_end AS b, count(*) AS n FROM t GROUP BY SESSION('5s')": "is unknown while",
    "SELECT count(*) AS n FROM t GROUP BY HOP('3s', '5s')": "size must be a multiple of the step",
    "SELECT max(k) AS k, is_final FROM t GROUP BY SESSION('5s')": "no column 'is_final'",
    "SELECT count(*) AS n FROM TUMBLE(t, ts, '5s') AS a JOIN TUMBLE(t, ts, '5s') AS b ON a.k = b.k "
    "GROUP BY a.window_start, a.window_end": "needs the windows in this GROUP BY",
    "SELECT k FROM t WHERE k IS NOT NULL": "EMIT needs GROUP BY",
    "SELECT k FROM t": "EMIT needs GROUP BY",
    "SELECT a.k FROM t AS a JOIN t AS b ON a.ts = b.ts": "EMIT needs GROUP BY",
    "SELECT median(i) AS m FROM t GROUP BY SESSION('5s')": "quantile needs all events of a window",
}


@pytest.mark.parametrize("text", EMITS)
def test_functions_without_early_results_are_rejected(text: str) -> None:
    with pytest.raises(SqlError) as raised:
        sql(f"{text} EMIT CHANGES", streams())
    assert EMITS[text] in str(raised.value)


def test_emit_in_a_set_operation_needs_parentheses() -> None:
    """EMIT in a UNION needs parentheses: at the end it belongs to the last SELECT only.

    The error says so.
    """
    asked = "SELECT k, count(*) AS n FROM t GROUP BY k, SESSION('5s')"
    grown = f"{asked} EMIT CHANGES"
    for kind in ("UNION ALL", "UNION", "EXCEPT", "INTERSECT"):
        for text in (f"{asked} {kind} {grown}", f"{asked} {kind} {grown} {kind} {asked}"):
            with pytest.raises(SqlError, match=r"EMIT could belong to the whole .*in parentheses"):
                sql(text, streams())
    for text in (f"({asked}) EMIT CHANGES", f"({asked}) UNION ALL ({asked}) EMIT FINAL"):
        with pytest.raises(SqlError, match="EMIT CHANGES belongs after a SELECT, within its par"):
            sql(text, streams())
    first, last = (sql(text, streams()) for text in (asked, grown))
    assert isinstance(first, Stream)
    assert isinstance(last, Stream)
    assert sql(f"({asked}) UNION ALL ({grown})", streams()) == first.union(last)


def test_emit_final_needs_a_window() -> None:
    with pytest.raises(SqlError, match="EMIT FINAL needs a window"):
        sql("SELECT k, count(*) AS n FROM t GROUP BY k EMIT FINAL", streams())


REFUSED = {
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts)))": "write TUMBLE(TABLE t, DESCRIPTOR(ts), SIZE, [OFFSET",
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), SLIDE => '1s'))": "write TUMBLE(TABLE t",
    "TABLE(HOP(TABLE t, DESCRIPTOR(ts), '1 minute', '5s'))": "takes the SLIDE first, then the SIZE",
    "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), '7s', '1m'))": "size must be a multiple of the step",
    "TABLE(TUMBLE(TABLE nothing, DESCRIPTOR(ts), '1s'))": "no stream 'nothing'",
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(nothing), '1s'))": "no column 'nothing'",
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(m), '1s'))": "'m' is not the time of 't'",
    "TABLE(TUMBLE(TABLE t PARTITION BY k, DESCRIPTOR(ts), '1s'))": "TUMBLE takes no PARTITION BY",
    "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), '1s'))": "put the keys of GROUP BY into",
    "TABLE(TUMBLE((SELECT * FROM t), DESCRIPTOR(ts), '1s'))": "name a query by WITH or CREATE VIEW",
}


@pytest.mark.parametrize("table", REFUSED)
def test_mistakes_are_rejected(table: str) -> None:
    text = (
        f"SELECT p, window_end AS b, sum(i) AS v FROM {table} GROUP BY p, window_start, window_end"
    )
    with pytest.raises(SqlError) as raised:
        sql(text, streams())
    assert REFUSED[table] in str(raised.value)


def test_windows_of_cumulate_need_window_end() -> None:
    table = "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), '30s', '1m'))"
    with pytest.raises(SqlError, match="add window_end"):
        sql(f"SELECT sum(i) AS v FROM {table} GROUP BY window_start", streams())
    with pytest.raises(SqlError, match="GROUP BY needs window_start and window_end"):
        sql("SELECT k, sum(i) AS v FROM TUMBLE(t, ts, '1m') GROUP BY k", streams())


def test_cumulating_over_lifetimes() -> None:
    """An event is in every window that it overlaps, once, regardless of its length."""
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


def test_the_size_must_be_a_multiple_of_the_step() -> None:
    with pytest.raises(InvalidPlanError, match="size must be a multiple of the step"):
        cumulating("1m", "7s")


def test_window_time_after_a_join() -> None:
    t = streams()["t"]
    text = "CREATE VIEW j AS SELECT t.ts, t.i FROM t JOIN u ON t.k = u.k;"
    text += "SELECT sum(i) AS v FROM TABLE(TUMBLE(TABLE j, DESCRIPTOR(ts), '1m')) "
    text += "GROUP BY window_start, window_end"
    assert isinstance(sql(text, {"t": t, "u": streams()["u"]}), Stream)
    lasting = t.set_duration("1h").with_columns(ts=vs())
    with pytest.raises(SqlError, match="'ts' is not the time of 'j'"):
        sql(text, {"t": lasting, "u": streams()["u"]})


def test_rows_of_a_table_belong_to_the_windows_in_which_they_start() -> None:
    rows = [event(at * SECOND, x=at) for at in (1, 3, 25)]
    table = Stream.from_items({"x": "int64"}, rows).with_columns(ts=vs()).for_ever()
    text = "SELECT count(*) AS n FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND) "
    stream = sql(f"{text} GROUP BY window_start, window_end", {"t": table})
    assert isinstance(stream, Stream)
    found = answer(lower(stream.to_parquet(), root="memory://begin", parallelism=1)).to_pylist()
    assert [(r["_vs"] // SECOND, r["n"]) for r in found] == [(0, 2), (20, 1)]


WINDOWS = {"TUMBLE": "INTERVAL '10' SECOND", "HOP": "INTERVAL '5' SECOND, INTERVAL '10' SECOND"}
KINDS = {"a": ("k", "x"), "b": ("k", "z")}
TIMES = {
    "a": [(1, 1, 5), (3, 1, 7), (7, 2, 1), (12, 1, 9)],
    "b": [(2, 1, 1), (6, 1, 2), (13, 2, 3)],
}
SECOND = 1_000_000


def rows_of(text: str) -> list[tuple[object, ...]]:
    """The result, with lifetimes in seconds."""
    points = {
        name: Stream.from_items(
            dict.fromkeys(columns, "int64"),
            [
                event(at * SECOND, **dict(zip(columns, row, strict=True)))
                for at, *row in TIMES[name]
            ],
        )
        for name, columns in KINDS.items()
    }
    versions = [event(0, 4 * SECOND, k=1, w=10), event(2 * SECOND, 30 * SECOND, k=1, w=20)]
    table = Stream.from_items({"k": "int64", "w": "int64"}, versions)
    stream = sql(text, {**points, "t": table})
    assert isinstance(stream, Stream)
    plan = lower(stream.to_parquet(), root="memory://windows", parallelism=2)
    found = answer(plan).to_pylist()
    names = stream.schema.names
    return sorted(
        (r["_vs"] // SECOND, r["_ve"] // SECOND, *(r[name] for name in names)) for r in found
    )


def expected_pairs(every: int) -> dict[int, list[tuple[int, int, int | None]]]:
    """The rows of a with those of b in the same window, as a LEFT JOIN returns them."""
    found: dict[int, list[tuple[int, int, int | None]]] = {}
    for at, k, x in TIMES["a"]:
        for start in range(-every, 20, every):
            if start <= at < start + 10:
                inside = [z for t, key, z in TIMES["b"] if key == k and start <= t < start + 10]
                found.setdefault(start, []).extend((k, x, z) for z in inside)
                if not inside:
                    found.setdefault(start, []).append((k, x, None))
    return found


@pytest.mark.parametrize("kind", WINDOWS)
def test_joined_rows_of_windows_count_if_they_exist_at_the_end(kind: str) -> None:
    """A row counts as matched if its match has arrived by the end of the window."""
    tables = [f"{kind}(TABLE {n}, DESCRIPTOR(vs()), {WINDOWS[kind]}) AS {n}" for n in KINDS]
    on = " AND ".join(f"a.{c} = b.{c}" for c in ("k", "window_start", "window_end"))
    joined = f"FROM {tables[0]} LEFT JOIN {tables[1]} ON {on}"
    pairs = expected_pairs(10 if kind == "TUMBLE" else 5)
    counted = [
        (start, start + 10, k, len(mine), sum(z is not None for _, z in mine))
        for start, rows in pairs.items()
        for k in sorted({k for k, _, _ in rows})
        for mine in [[(x, z) for key, x, z in rows if key == k]]
    ]
    listed = "SELECT a.k, COUNT(*) AS n, COUNT(z) AS m"
    text = f"{listed} {joined} GROUP BY a.window_start, a.window_end, a.k"
    assert rows_of(text) == sorted(counted)
    over = "PARTITION BY a.window_end ORDER BY x DESC, z DESC"
    text = f"SELECT x, COALESCE(z, 0) AS z, ROW_NUMBER() OVER ({over}) AS n {joined} QUALIFY n <= 2"
    first = [
        (start, start + 10, x, z, at + 1)
        for start, rows in pairs.items()
        for at, (x, z) in enumerate(sorted(((x, z or 0) for _, x, z in rows), reverse=True)[:2])
    ]
    assert rows_of(text) == sorted(first)


def test_first_rows_of_a_window_beside_a_table_of_versions() -> None:
    """Ranked rows of a window are joined with the versions that are valid at their own times."""
    over = "PARTITION BY window_start ORDER BY x, w"
    listed = (
        f"SELECT x, w, ROW_NUMBER() OVER ({over}) AS n FROM TUMBLE(TABLE {{}}, DESCRIPTOR(vs()),"
    )
    text = f"{listed} {WINDOWS['TUMBLE']})"
    with pytest.raises(SqlError, match=r"may change before a window ends.*that TUMBLE reads"):
        rows_of(f"{text.format('a')} AS v JOIN t ON v.k = t.k QUALIFY n < 9")
    view = "CREATE VIEW v AS SELECT x, w FROM a JOIN t ON a.k = t.k"
    expected = [(0, 10, 5, 10, 1), (0, 10, 7, 10, 2), (0, 10, 7, 20, 3), (10, 20, 9, 20, 1)]
    assert rows_of(f"{view}; {text.format('v')} QUALIFY n < 9") == expected


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("time", ["vs()", "_vs", "vs() + INTERVAL '1' SECOND"])
def test_rows_of_a_window_are_ranked_by_their_own_times(time: str, kind: str) -> None:
    """Rows of a window are ranked by their own times, not by the end of the window."""
    table = f"TABLE({kind}(TABLE a, DESCRIPTOR(vs()), {WINDOWS[kind]}))"
    over = f"PARTITION BY window_start, window_end ORDER BY {time} DESC"
    found = rows_of(f"SELECT x, ROW_NUMBER() OVER ({over}) AS n FROM {table} QUALIFY n < 2")
    every, lasts = (10 if kind == "TUMBLE" else 5), {}
    for at, _, x in TIMES["a"]:
        for start in range(at // every * every, at - 10, -every):
            lasts[start] = x
    assert found == sorted((start, start + 10, x, 1) for start, x in lasts.items())
