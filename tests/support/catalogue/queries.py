"""Clauses: joins, subqueries, DISTINCT, UNION ALL, tables as of a time."""

from __future__ import annotations

from tests.support.catalogue.entry import Entry

_ALIVE = "t.ts >= u.ts AND t.ts < u.te"
_PAIRS = f"t.k = u.k AND {_ALIVE}"
_TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
_TUMBLED = "time_bucket(INTERVAL '60 seconds', ts, TIMESTAMP '1970-01-01')"
_KS = "SELECT k FROM (SELECT k, count(*) AS c FROM t GROUP BY k)"
_SS = _KS.replace("SELECT k, count", "SELECT SUBSTRING(s, 1, 1) AS k, count").replace(
    "GROUP BY k", "GROUP BY SUBSTRING(s, 1, 1)"
)

ENTRIES = (
    Entry("WHERE", "SELECT n FROM t WHERE i > 0 AND k = 'a'"),
    Entry(
        "JOIN",
        "SELECT n, y FROM t JOIN u ON t.k = u.k",
        f"SELECT n, y FROM t JOIN u ON {_PAIRS}",
    ),
    Entry(
        "JOIN USING",
        "SELECT n, y FROM t JOIN u USING (k)",
        f"SELECT n, y FROM t JOIN u ON {_PAIRS}",
    ),
    Entry(
        "JOIN with other conditions",
        "SELECT n, y FROM t JOIN u ON t.k = u.k AND t.i > u.y",
        f"SELECT n, y FROM t JOIN u ON {_PAIRS} AND t.i > u.y",
    ),
    Entry(
        "LEFT JOIN",
        "SELECT n, y FROM t LEFT JOIN u ON t.k = u.k",
        f"SELECT n, y FROM t LEFT JOIN u ON {_PAIRS}",
    ),
    Entry(
        "RIGHT JOIN",
        "SELECT n, y, t.k FROM u RIGHT OUTER JOIN t ON t.k = u.k AND u.y > 3",
        f"SELECT n, y, t.k FROM u RIGHT JOIN t ON {_PAIRS} AND u.y > 3",
    ),
    Entry(
        "FULL JOIN of rows of windows",
        f"SELECT a.n, b.n AS m FROM (SELECT * FROM {_TUMBLE} WHERE p) AS a "
        f"FULL JOIN (SELECT * FROM {_TUMBLE} WHERE q) AS b ON a.n = b.n",
        "SELECT a.n, b.n AS m FROM (SELECT * FROM t WHERE p) AS a "
        "FULL JOIN (SELECT * FROM t WHERE q) AS b ON a.n = b.n",
    ),
    Entry(
        "FROM a, b WHERE",
        "SELECT n, y FROM t, u WHERE t.k = u.k AND i > 0",
        f"SELECT n, y FROM t, u WHERE {_PAIRS} AND i > 0",
    ),
    Entry(
        "CROSS JOIN with keys in WHERE",
        "SELECT n, y FROM t CROSS JOIN u WHERE t.k = u.k",
        f"SELECT n, y FROM t CROSS JOIN u WHERE {_PAIRS}",
    ),
    Entry(
        "LEFT SEMI JOIN",
        "SELECT n FROM t LEFT SEMI JOIN u ON t.k = u.k",
        f"SELECT n FROM t SEMI JOIN u ON {_PAIRS}",
    ),
    Entry(
        "LEFT ANTI JOIN",
        "SELECT n FROM t LEFT ANTI JOIN u ON t.k = u.k",
        f"SELECT n FROM t ANTI JOIN u ON {_PAIRS}",
    ),
    Entry(
        "EXISTS",
        "SELECT n FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.y > t.i)",
        f"SELECT n FROM t WHERE EXISTS (SELECT 1 FROM u WHERE {_PAIRS} AND u.y > t.i)",
    ),
    Entry(
        "NOT EXISTS",
        "SELECT n FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        f"SELECT n FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE {_PAIRS})",
    ),
    Entry(
        "IN (SELECT)",
        "SELECT n FROM t WHERE i > 0 AND k IN (SELECT k FROM u WHERE y > 4)",
        f"SELECT n FROM t WHERE i > 0 AND k IN (SELECT k FROM u WHERE y > 4 AND {_ALIVE})",
    ),
    Entry(
        "IN (SELECT) of an expression",
        "SELECT n FROM t WHERE upper(k) IN (SELECT upper(k) FROM u)",
        f"SELECT n FROM t WHERE upper(k) IN (SELECT upper(u.k) FROM u WHERE {_ALIVE})",
    ),
    Entry(
        "SELECT DISTINCT",
        f"SELECT DISTINCT k, window_end AS b FROM {_TUMBLE}",
        f"SELECT DISTINCT k, {_TUMBLED} + INTERVAL 1 MINUTE AS b FROM t",
    ),
    Entry(
        "FOR SYSTEM_TIME AS OF",
        "WITH b AS (SELECT * FROM t WHERE q) SELECT t.n, b.n AS m FROM t "
        "LEFT JOIN b FOR SYSTEM_TIME AS OF t.ts ON t.k = b.k",
        "SELECT t.n, b.n AS m FROM t ASOF LEFT JOIN (SELECT * FROM t WHERE q) b "
        "ON t.k = b.k AND t.ts >= b.ts",
    ),
    Entry(
        "ASOF LEFT JOIN",
        "SELECT t.n, b.n AS m FROM t ASOF LEFT JOIN (SELECT * FROM t WHERE q) AS b "
        "ON t.k = b.k AND t.ts >= b.ts",
    ),
    Entry(
        "ASOF JOIN forward",
        "SELECT t.n, b.n AS m FROM t ASOF JOIN (SELECT * FROM t WHERE q) AS b "
        "ON t.k = b.k AND t.ts <= b.ts AND b.ts <= t.ts + INTERVAL '20' SECOND",
        "SELECT n, m FROM (SELECT t.n, b.n AS m, t.ts, b.ts AS u FROM t ASOF JOIN "
        "(SELECT * FROM t WHERE q) AS b ON t.k = b.k AND t.ts <= b.ts) "
        "WHERE u <= ts + INTERVAL 20 SECOND",
    ),
    Entry("UNION ALL", "SELECT n, k FROM t WHERE p UNION ALL SELECT i, s FROM t WHERE q"),
    Entry(
        "WITH",
        "WITH a AS (SELECT n, i FROM t WHERE p), b AS (SELECT n FROM a WHERE i > 0) "
        "SELECT * FROM b",
    ),
    Entry("subquery in FROM", "SELECT v FROM (SELECT i + 1 AS v FROM t WHERE q) AS a WHERE v > 2"),
    Entry("* EXCLUDE", "SELECT * EXCLUDE (ts, f, g, d, m, p, q) FROM t"),
    Entry(
        "NOT IN (SELECT)",
        "SELECT n FROM t WHERE k NOT IN (SELECT k FROM u WHERE y > 7)",
        f"SELECT n FROM t WHERE k NOT IN (SELECT k FROM u WHERE y > 7 AND {_ALIVE})",
    ),
    Entry(
        "EXISTS under OR",
        "SELECT n FROM t WHERE i > 50 OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        f"SELECT n FROM t WHERE i > 50 OR EXISTS (SELECT 1 FROM u WHERE {_PAIRS})",
    ),
    Entry(
        "NOT EXISTS under OR",
        "SELECT n FROM t WHERE i > 50 OR NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        f"SELECT n FROM t WHERE i > 50 OR NOT EXISTS (SELECT 1 FROM u WHERE {_PAIRS})",
    ),
    Entry(
        "IN (SELECT) under OR",
        "SELECT n FROM t WHERE i > 50 OR k IN (SELECT k FROM u WHERE y > 4)",
        f"SELECT n FROM t WHERE i > 50 OR k IN (SELECT k FROM u WHERE y > 4 AND {_ALIVE})",
    ),
    Entry(
        "EXISTS without a key",
        "SELECT n FROM t WHERE EXISTS (SELECT 1 FROM u WHERE y > 8)",
        f"SELECT n FROM t WHERE EXISTS (SELECT 1 FROM u WHERE y > 8 AND {_ALIVE})",
    ),
    Entry(
        "CROSS JOIN",
        "SELECT n, y FROM t CROSS JOIN u WHERE y > 7",
        f"SELECT n, y FROM t CROSS JOIN u WHERE y > 7 AND {_ALIVE}",
    ),
    Entry(
        "JOIN without an equality",
        "SELECT n, y FROM t JOIN u ON t.i < u.y",
        f"SELECT n, y FROM t JOIN u ON t.i < u.y AND {_ALIVE}",
    ),
    Entry(
        "LEFT JOIN without an equality",
        "SELECT n, y FROM t LEFT JOIN u ON t.i < u.y",
        f"SELECT n, y FROM t LEFT JOIN u ON t.i < u.y AND {_ALIVE}",
    ),
    Entry(
        "scalar subquery",
        "SELECT n FROM t WHERE i > (SELECT max(y) FROM u)",
        f"SELECT n FROM t WHERE i > (SELECT max(y) FROM u WHERE {_ALIVE})",
    ),
    Entry(
        "scalar subquery of a key",
        "SELECT n FROM t WHERE i > (SELECT avg(y) + 1 FROM u WHERE u.k = t.k)",
        f"SELECT n FROM t WHERE i > (SELECT avg(y) + 1 FROM u WHERE {_PAIRS})",
    ),
    Entry(
        "scalar subquery in SELECT",
        "SELECT n, (SELECT max(y) FROM u WHERE u.k = t.k) AS m FROM t",
        f"SELECT n, (SELECT max(y) FROM u WHERE {_PAIRS}) AS m FROM t",
    ),
    Entry(
        "scalar subquery of a count",
        "SELECT n, (SELECT count(*) * 2 FROM u WHERE u.k = t.k) AS m FROM t",
        f"SELECT n, (SELECT count(*) * 2 FROM u WHERE {_PAIRS}) AS m FROM t",
    ),
    Entry(
        "scalar subquery under OR",
        "SELECT n FROM t WHERE i < 0 OR i > (SELECT max(y) FROM u WHERE u.k = t.k)",
        f"SELECT n FROM t WHERE i < 0 OR i > (SELECT max(y) FROM u WHERE {_PAIRS})",
    ),
    Entry(
        "GROUP BY without a window",
        "SELECT k, count(*) AS c, sum(i) AS v, min(s) AS l, avg(f) AS a FROM t GROUP BY k",
        is_running=True,
    ),
    Entry(
        "aggregates without GROUP BY",
        "SELECT count(*) AS c, max(m) AS v, count(DISTINCT k) AS d FROM t",
        is_running=True,
    ),
    Entry(
        "HAVING with a subquery",
        "SELECT k, count(*) AS c FROM t GROUP BY k "
        "HAVING count(*) > (SELECT count(*) / 4 FROM t WHERE n > 0)",
        is_running=True,
    ),
    Entry(
        "aggregates of aggregates",
        "SELECT max(c) AS v, count(*) AS n FROM (SELECT k, count(*) AS c FROM t GROUP BY k) AS a",
        is_running=True,
    ),
    Entry(
        "SELECT DISTINCT of keys",
        "SELECT k FROM t WHERE i > 0 GROUP BY k",
        is_running=True,
    ),
    Entry(
        "ROW_NUMBER",
        "SELECT k, n, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY i DESC, n) AS r "
        "FROM t) AS a WHERE r <= 3",
        "SELECT k, n, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY i DESC "
        "NULLS LAST, n) AS r FROM t) AS a WHERE r <= 3",
        is_running=True,
    ),
    Entry(
        "ROW_NUMBER without a name around it",
        "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS r "
        "FROM t) WHERE r = 1",
        is_running=True,
    ),
    Entry(
        "ROW_NUMBER in WITH",
        "WITH a AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY s, n) AS r FROM t) "
        "SELECT k, n, r FROM a WHERE r < 3",
        is_running=True,
    ),
    Entry(
        "QUALIFY",
        "SELECT k, n FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY f, n) <= 2",
        is_running=True,
    ),
    Entry(
        "RANK",
        "SELECT k, n, RANK() OVER (PARTITION BY k ORDER BY p NULLS FIRST) AS r FROM t "
        "QUALIFY r <= 2",
        is_running=True,
    ),
    Entry(
        "DENSE_RANK",
        "SELECT k, n, DENSE_RANK() OVER (PARTITION BY k ORDER BY s DESC NULLS LAST) AS r FROM t "
        "QUALIFY r BETWEEN 2 AND 3",
        is_running=True,
    ),
    Entry(
        "ROW_NUMBER per window",
        "SELECT n, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
        f"ORDER BY i DESC, n) AS r FROM {_TUMBLE}) AS a WHERE r <= 2",
        f"SELECT n, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {_TUMBLED}, k ORDER BY "
        "i DESC NULLS LAST, n) AS r FROM t) AS a WHERE r <= 2",
    ),
    Entry(
        "ORDER BY ... LIMIT",
        "SELECT n, i FROM t WHERE p ORDER BY i DESC NULLS FIRST, n LIMIT 5",
        is_running=True,
    ),
    Entry(
        "LIMIT ... OFFSET",
        "SELECT n, i FROM t ORDER BY i, 1 DESC LIMIT 5 OFFSET 3",
        "SELECT n, i FROM t ORDER BY i NULLS LAST, 1 DESC LIMIT 5 OFFSET 3",
        is_running=True,
    ),
    Entry("ORDER BY", "SELECT n, i FROM t ORDER BY i"),
    Entry(
        "names of columns in an alias",
        "SELECT a.x, a.y FROM (SELECT n, i + 1 FROM t WHERE q) AS a (x, y)",
    ),
    Entry("LIMIT", "SELECT n FROM t LIMIT 3", hint="LIMIT needs ORDER BY"),
    Entry(
        "ROW_NUMBER of all rows",
        "SELECT n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY i, n) AS r FROM t",
        is_running=True,
    ),
    Entry(
        "UNION",
        f"SELECT k, window_end AS b FROM {_TUMBLE} UNION SELECT s, window_end FROM {_TUMBLE}",
        f"SELECT k, {_TUMBLED} + INTERVAL 1 MINUTE AS b FROM t "
        f"UNION SELECT s, {_TUMBLED} + INTERVAL 1 MINUTE FROM t",
    ),
    Entry(
        "EXCEPT",
        f"{_KS} EXCEPT {_SS}",
        "SELECT k FROM t EXCEPT SELECT SUBSTRING(s, 1, 1) FROM t",
        is_running=True,
    ),
    Entry(
        "INTERSECT",
        f"{_SS} INTERSECT {_KS}",
        "SELECT SUBSTRING(s, 1, 1) AS k FROM t INTERSECT SELECT k FROM t",
        is_running=True,
    ),
    Entry(
        "EXCEPT of several columns and types",
        "SELECT i, f FROM (SELECT i, f, count(*) AS c FROM t GROUP BY i, f) EXCEPT "
        "SELECT j, g FROM (SELECT j, g, count(*) AS c FROM t GROUP BY j, g)",
        "SELECT i, f FROM t EXCEPT SELECT j, g FROM t",
        is_running=True,
    ),
    *(
        Entry(
            f"{kind} ALL",
            "SELECT i FROM (SELECT i, f, count(*) AS c FROM t GROUP BY i, f) "
            f"{kind} ALL SELECT j FROM (SELECT j, g, count(*) AS c FROM t GROUP BY j, g)",
            f"SELECT i FROM (SELECT DISTINCT i, f FROM t) {kind} ALL "
            "SELECT j FROM (SELECT DISTINCT j, g FROM t)",
            is_running=True,
        )
        for kind in ("EXCEPT", "INTERSECT")
    ),
    Entry(
        "the first row of each key",
        "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS r FROM t) "
        "WHERE r = 1",
        is_running=True,
    ),
    *(
        Entry(
            name,
            f"SELECT k, p, window_start AS a, count(*) AS n, sum(i) AS v, GROUPING(k) AS g, "
            f"GROUPING(k, p) * 2 AS h FROM t GROUP BY {sets}, TUMBLE('1m')",
            f"SELECT k, p, a, count(*) AS n, sum(i) AS v, GROUPING(k) AS g, "
            f"GROUPING(k, p) * 2 AS h FROM (SELECT *, {_TUMBLED} AS a FROM t) GROUP BY {sets}, a",
        )
        for name, sets in (
            ("GROUPING SETS", "GROUPING SETS ((k, p), (k), p, ())"),
            ("ROLLUP", "ROLLUP (k, p)"),
            ("CUBE", "CUBE (k, p)"),
        )
    ),
    Entry(
        "CROSS JOIN UNNEST",
        "SELECT n, u.x FROM t CROSS JOIN UNNEST(SPLIT(s, ',')) AS u (x) WHERE x <> 'b'",
        "SELECT n, x FROM (SELECT n, unnest(str_split(s, ',')) AS x FROM t) WHERE x <> 'b'",
    ),
    Entry(
        "UNNEST after a comma, grouped",
        "SELECT x, count(*) AS c FROM t, UNNEST(SPLIT(s, 'l')) AS u (x) GROUP BY x",
        "SELECT x, count(*) FROM (SELECT unnest(str_split(s, 'l')) AS x FROM t) GROUP BY x",
        is_running=True,
    ),
    Entry(
        "LEFT JOIN UNNEST",
        "SELECT n, x FROM t LEFT JOIN UNNEST(SPLIT(s, ',')) AS u (x) ON TRUE",
        "SELECT n, x FROM t LEFT JOIN LATERAL (SELECT unnest(str_split(s, ',')) AS x) ON TRUE",
    ),
    Entry(
        "UNNEST WITH ORDINALITY",
        "SELECT n, x, o FROM t CROSS JOIN UNNEST(SPLIT(s, 'l')) WITH ORDINALITY AS u (x, o)",
        "SELECT n, unnest(str_split(s, 'l')), generate_subscripts(str_split(s, 'l'), 1) FROM t",
    ),
    Entry(
        "UNNEST of a list made of columns",
        "SELECT n, x FROM t, UNNEST(ARRAY[i, j]) AS u (x) WHERE x > 3",
        "SELECT n, x FROM (SELECT n, unnest([i, j]) AS x FROM t) WHERE x > 3",
    ),
    Entry(
        "LATERAL VIEW EXPLODE",
        "SELECT n, x FROM t LATERAL VIEW EXPLODE(SPLIT(s, ',')) u AS x",
        "SELECT n, unnest(str_split(s, ',')) FROM t",
    ),
    Entry(
        "LATERAL VIEW OUTER POSEXPLODE",
        "SELECT n, o, x FROM t LATERAL VIEW OUTER POSEXPLODE(SPLIT(s, 'l')) u AS o, x",
        "SELECT n, o - 1, x FROM t LEFT JOIN LATERAL (SELECT unnest(str_split(s, 'l')) AS x, "
        "generate_subscripts(str_split(s, 'l'), 1) AS o) ON TRUE",
    ),
    Entry(
        "RIGHT JOIN UNNEST",
        "SELECT n, x FROM t RIGHT JOIN UNNEST(SPLIT(s, ',')) AS u (x) ON TRUE",
        hint="write CROSS JOIN UNNEST",
    ),
    Entry(
        "ROLLUP without a window",
        "SELECT k, upper(s) AS u, max(n) AS m FROM t GROUP BY ROLLUP (k, u) HAVING max(n) > 5",
        is_running=True,
    ),
)
