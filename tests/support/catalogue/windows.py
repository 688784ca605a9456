"""Windows: in FROM with Flink's spellings, and in GROUP BY with ours."""

from __future__ import annotations

from tests.support.catalogue.entry import Entry

_AGG = "count(*) AS n, sum(i) AS total, count(k) AS named"
_TUMBLED = "time_bucket(INTERVAL '60 seconds', ts, TIMESTAMP '1970-01-01')"
_SHIFTED = "time_bucket(INTERVAL '60 seconds', ts, TIMESTAMP '1970-01-01 00:00:20')"
_DUCK_TUMBLE = (
    f"SELECT k, {_TUMBLED} AS a, {_TUMBLED} + INTERVAL 1 MINUTE AS b, {_AGG} FROM t GROUP BY ALL"
)
#: Windows of a minute every 20 seconds that contain a row of their key.
_DUCK_HOP = f"""SELECT k, a, a + INTERVAL 60 SECOND AS b, {_AGG} FROM t, (
    SELECT TIMESTAMP '2026-01-01 11:00:00' + INTERVAL (20 * h) SECOND AS a FROM range(1000) r(h))
    WHERE ts >= a AND ts < a + INTERVAL 60 SECOND GROUP BY ALL"""
#: Windows of two minutes, emitted every 30 seconds.
_DUCK_CUMULATE = f"""SELECT k, a, b, {_AGG} FROM t, (
    SELECT a, a + INTERVAL (30 * j) SECOND AS b FROM range(1, 5) s(j), (
        SELECT TIMESTAMP '2026-01-01 11:00:00' + INTERVAL (120 * h) SECOND AS a
        FROM range(100) r(h)))
    WHERE ts >= a AND ts < b GROUP BY ALL"""
_DUCK_SESSION = f"""WITH marked AS (
    SELECT *, ts >= coalesce(lag(ts) OVER w + INTERVAL 20 SECOND, TIMESTAMP '1970-01-01') AS first
    FROM t WINDOW w AS (PARTITION BY k ORDER BY ts)),
  numbered AS (SELECT *, sum(first::INT) OVER (PARTITION BY k ORDER BY ts) AS session FROM marked)
  SELECT k, min(ts) AS a, max(ts) + INTERVAL 20 SECOND AS b, {_AGG}
  FROM numbered GROUP BY k, session"""
_DUCK_SESSION_OF_ALL = (
    _DUCK_SESSION.replace("PARTITION BY k ", "")
    .replace("SELECT k, min", "SELECT min")
    .replace("GROUP BY k, session", "GROUP BY session")
)
#: Each session so far, at each of its rows, and until when this is valid.
_DUCK_RUNNING = (
    _DUCK_SESSION.split("  SELECT k, min")[0]
    + """SELECT k, min(ts) OVER s AS a,
    coalesce(lead(ts) OVER s, ts + INTERVAL 20 SECOND) AS b,
    count(*) OVER s AS n, sum(i) OVER s AS total, count(DISTINCT i) OVER s AS kinds
  FROM numbered WINDOW s AS (PARTITION BY k, session ORDER BY ts)"""
)
_EARLY = ", ".join(part.replace(" AS", " OVER w AS") for part in _AGG.split(", "))
#: Each window so far, at each of its rows, and its result.
_DUCK_EARLY = f"""SELECT DISTINCT k, {_TUMBLED} AS a, {_TUMBLED} + INTERVAL 1 MINUTE AS b, {_EARLY},
    false AS is_final FROM t WINDOW w AS (PARTITION BY k, {_TUMBLED} ORDER BY ts)
  UNION ALL SELECT *, true AS is_final FROM ({_DUCK_TUMBLE})"""
_RUNNING = (
    "window_start AS a, ve() AS b, count(*) AS n, sum(i) AS total, count(DISTINCT i) AS kinds"
)
_BOUNDS = "window_start AS a, window_end AS b"
_GROUPED = f"SELECT k, {_BOUNDS}, {_AGG} FROM {{}} GROUP BY k, window_start, window_end"
_ROWS = "SELECT n, window_start AS a, window_end AS b FROM {}"
_MINUTE = "INTERVAL '1' MINUTE"
_TUMBLE = f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {_MINUTE}))"
_HOP = f"TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND, {_MINUTE}))"
_CUMULATE = "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '2' MINUTE))"
_SESSION = "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '20' SECOND)"

ENTRIES = (
    Entry("TUMBLE in FROM", _GROUPED.format(_TUMBLE), _DUCK_TUMBLE),
    Entry("TUMBLE without TABLE()", _GROUPED.format(f"TUMBLE(t, ts, {_MINUTE})"), _DUCK_TUMBLE),
    Entry(
        "TUMBLE with names of arguments",
        _GROUPED.format(
            f"TABLE(TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => {_MINUTE}))"
        ),
        _DUCK_TUMBLE,
    ),
    Entry(
        "TUMBLE with an offset",
        _GROUPED.format(f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {_MINUTE}, INTERVAL '20' SECOND))"),
        _DUCK_TUMBLE.replace(_TUMBLED, _SHIFTED),
    ),
    Entry(
        "TUMBLE with an offset below zero",
        _GROUPED.format(
            f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {_MINUTE}, INTERVAL '-40' SECOND))"
        ),
        _DUCK_TUMBLE.replace(_TUMBLED, _SHIFTED),
    ),
    Entry("HOP in FROM", _GROUPED.format(_HOP), _DUCK_HOP),
    Entry("CUMULATE in FROM", _GROUPED.format(_CUMULATE), _DUCK_CUMULATE),
    Entry("SESSION in FROM", _GROUPED.format(f"TABLE({_SESSION})"), _DUCK_SESSION),
    Entry(
        "SESSION of all keys",
        f"SELECT {_BOUNDS}, {_AGG} FROM SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND) "
        "GROUP BY window_start, window_end",
        _DUCK_SESSION_OF_ALL,
    ),
    Entry(
        "window_time",
        f"SELECT window_time AS v, count(*) AS n FROM {_TUMBLE} GROUP BY window_start, "
        "window_end, window_time",
        f"SELECT {_TUMBLED} + INTERVAL 59999 MILLISECOND AS v, count(*) AS n FROM t GROUP BY ALL",
    ),
    Entry(
        "WHERE and HAVING over windows in FROM",
        f"SELECT k, window_start AS a, count(*) AS n FROM {_TUMBLE} WHERE i > 0 "
        "GROUP BY k, window_start, window_end HAVING count(*) > 1",
        f"SELECT k, {_TUMBLED} AS a, count(*) AS n FROM t WHERE i > 0 GROUP BY ALL HAVING n > 1",
    ),
    Entry(
        "rows of TUMBLE",
        _ROWS.format(_TUMBLE),
        f"SELECT n, {_TUMBLED} AS a, {_TUMBLED} + INTERVAL 1 MINUTE AS b FROM t",
    ),
    Entry(
        "rows of HOP",
        _ROWS.format(_HOP),
        _DUCK_HOP.replace("SELECT k,", "SELECT n,")
        .replace(f", {_AGG}", "")
        .replace("GROUP BY ALL", ""),
    ),
    Entry(
        "joins in a window",
        f"SELECT a.n, b.n AS m FROM {_TUMBLE} AS a JOIN {_TUMBLE} AS b ON a.k = b.k AND "
        "a.window_start = b.window_start AND a.window_end = b.window_end WHERE a.n < b.n",
        f"SELECT a.n, b.n AS m FROM (SELECT *, {_TUMBLED} AS x FROM t) a JOIN "
        f"(SELECT *, {_TUMBLED} AS x FROM t) b ON a.k = b.k AND a.x = b.x WHERE a.n < b.n",
    ),
    Entry(
        "TUMBLE in GROUP BY",
        f"SELECT k, {_BOUNDS}, {_AGG} FROM t GROUP BY k, TUMBLE({_MINUTE})",
        _DUCK_TUMBLE,
    ),
    Entry(
        "HOP in GROUP BY",
        f"SELECT k, {_BOUNDS}, {_AGG} FROM t GROUP BY k, HOP({_MINUTE}, INTERVAL '20' SECOND)",
        _DUCK_HOP,
    ),
    Entry(
        "SESSION in GROUP BY",
        f"SELECT k, {_BOUNDS}, {_AGG} FROM t GROUP BY k, SESSION('20 seconds')",
        _DUCK_SESSION,
    ),
    Entry(
        "SESSION with EMIT CHANGES",
        f"SELECT k, {_RUNNING} FROM t GROUP BY k, SESSION('20 seconds') EMIT CHANGES",
        _DUCK_RUNNING,
    ),
    Entry(
        "SESSION in FROM with EMIT CHANGES",
        f"SELECT k, {_RUNNING} FROM TABLE({_SESSION}) GROUP BY k, window_start, window_end "
        "EMIT CHANGES",
        _DUCK_RUNNING,
    ),
    Entry(
        "EMIT FINAL",
        f"SELECT k, {_BOUNDS}, {_AGG} FROM t GROUP BY k, SESSION('20 seconds') EMIT FINAL",
        _DUCK_SESSION,
    ),
    Entry(
        "EMIT CHANGES of TUMBLE",
        f"SELECT k, {_BOUNDS}, {_AGG}, is_final FROM t GROUP BY k, TUMBLE({_MINUTE}) EMIT CHANGES",
        _DUCK_EARLY,
    ),
    Entry(
        "EMIT CHANGES of TUMBLE in FROM",
        f"{_GROUPED.format(_TUMBLE).replace(' FROM', ', is_final FROM')} EMIT CHANGES",
        _DUCK_EARLY,
    ),
    Entry(
        "EMIT CHANGES of rows of windows",
        f"SELECT window_start AS a, count(*) AS n FROM (SELECT * FROM {_TUMBLE}) "
        "GROUP BY window_start, window_end EMIT CHANGES",
        hint="TUMBLE in GROUP BY",
    ),
    Entry(
        "EMIT CHANGES of CUMULATE",
        f"{_GROUPED.format(_CUMULATE)} EMIT CHANGES",
        hint="only tumbling(), hopping() and session() have early results",
    ),
    Entry("rows of CUMULATE", _ROWS.format(_CUMULATE), hint="GROUP BY window_start, window_end"),
    Entry(
        "windows over a column that is not the time",
        _GROUPED.format(_TUMBLE.replace("(ts)", "(m)")),
        hint="windows use the column that WATERMARK FOR",
    ),
)
