"""Clauses: joins, subqueries, DISTINCT, UNION ALL, tables as of a time."""

from __future__ import annotations

from tests.support.catalogue.entry import Entry

_ALIVE = "t.ts >= u.ts AND t.ts < u.te"
_PAIRS = f"t.k = u.k AND {_ALIVE}"
_TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
_TUMBLED = "time_bucket(INTERVAL '60 seconds', ts, TIMESTAMP '1970-01-01')"

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
        "SELECT n FROM t WHERE k NOT IN (SELECT k FROM u)",
        hint="is NOT EXISTS there",
    ),
    Entry("ORDER BY", "SELECT n FROM t ORDER BY n", hint="a stream is ordered by time"),
    Entry("LIMIT", "SELECT n FROM t LIMIT 3", hint="LIMIT is not supported"),
    Entry("UNION", "SELECT n FROM t UNION SELECT i FROM t", hint="there is UNION ALL"),
    Entry("OVER", "SELECT sum(i) OVER (PARTITION BY k) AS v FROM t", hint="OVER is not supported"),
    Entry(
        "scalar subquery",
        "SELECT n FROM t WHERE i > (SELECT max(y) FROM u)",
        hint="a subquery stands in FROM",
    ),
    Entry(
        "GROUPING SETS",
        "SELECT k, count(*) AS n FROM t GROUP BY GROUPING SETS ((k), ()), TUMBLE('1m')",
        hint="GROUPING SETS",
    ),
)
