"""Windows and their aggregates: Flink, Arroyo, RisingWave, Spark, Bytewax and Trill."""

from __future__ import annotations

from planner import Stream, agg, col, count_window, hopping, session, snapshot, tumbling
from tests.support.engines.case import Case, Row, Us, points, table

KX = {"k": "string", "x": "int64"}
TAPS = points(KX, (2, "a", 5), (6, "a", 1), (9, "b", 4), (10, "a", 7), (14, "b", 8), (21, "a", 3))
EDGES = points(KX, (0, "a", 1), (Us(9_999_999), "a", 2), (10, "a", 4), (20, "a", 8))
OLD = points(KX, (-11, "a", 1), (-10, "a", 2), (-1, "a", 4), (0, "a", 8))
NULLS = points(
    KX, (1, "a", None), (2, "a", 4), (3, "a", None), (4, "b", None), (5, "b", None), (6, None, 6)
)
FLOATS = points({"f": "float64"}, (1, 0.0), (2, -0.0), (3, float("nan")), (4, float("nan")))
SPREAD = points({"x": "int64"}, (1, 10), (2, 1), (3, 3), (4, 2))
SPANS = table(KX, (0, 6, "a", 1), (2, 9, "b", 2), (6, 9, "a", 4), (12, 14, "b", 8))
#: One step before 1970 is in its own window, not in the one that starts at 1970.
PAST = points(KX, (Us(-1), "a", 1))
RUNS = points(KX, (0, "a", 1), (4, "a", 1), (8, "a", 1), (12, "a", 1), (13, "a", 1))

STREAMS = {
    "taps": TAPS, "edges": EDGES, "old": OLD, "nulls": NULLS, "floats": FLOATS,
    "spread": SPREAD, "spans": SPANS, "past": PAST, "runs": RUNS,
}  # fmt: skip


def _case(engine: str, rule: str, *asked: Stream | str, rows: list[Row], differs: str = "") -> Case:
    return Case(engine, rule, asked, rows, differs, STREAMS)


COUNT = {"n": agg.count()}
TEN = tumbling("10s")

CASES: dict[str, Case] = {
    "tumbling by key": _case(
        "Flink",
        "A tumbling window gives one row per key and window that has rows.",
        TAPS.group_by("k").window(TEN).agg(n=agg.count(), s=agg.sum("x")),
        "SELECT k, count(*) AS n, sum(x) AS s FROM taps GROUP BY k, TUMBLE('10 seconds')",
        rows=[
            (0, 10, "a", 2, 6),
            (0, 10, "b", 1, 4),
            (10, 20, "a", 1, 7),
            (10, 20, "b", 1, 8),
            (20, 30, "a", 1, 3),
        ],
    ),
    "tumbling without a key": _case(
        "Arroyo",
        "A window may be the only thing to group by.",
        TAPS.window(TEN).agg(s=agg.sum("x")),
        "SELECT sum(x) AS s FROM taps GROUP BY TUMBLE('10 seconds')",
        rows=[(0, 10, 10), (10, 20, 15), (20, 30, 3)],
    ),
    "hopping overlaps": _case(
        "Flink",
        "A row is in every window of a hop that covers its time, also in the first ones.",
        TAPS.window(hopping("10s", "5s")).agg(**COUNT),
        "SELECT count(*) AS n FROM taps GROUP BY HOP('10 seconds', '5 seconds')",
        rows=[(-5, 5, 1), (0, 10, 3), (5, 15, 4), (10, 20, 2), (15, 25, 1), (20, 30, 1)],
    ),
    "hopping by key": _case(
        "RisingWave",
        "A hop multiplies each row by size over step before it is grouped.",
        TAPS.filter(col("k") == "b").group_by("k").window(hopping("10s", "5s")).agg(s=agg.sum("x")),
        """SELECT k, sum(x) AS s FROM taps WHERE k = 'b'
           GROUP BY k, HOP('10 seconds', '5 seconds')""",
        rows=[(0, 10, "b", 4), (5, 15, "b", 12), (10, 20, "b", 8)],
    ),
    "ends are exclusive": _case(
        "Arroyo",
        "A window has its start and not its end.",
        EDGES.window(TEN).agg(s=agg.sum("x")),
        "SELECT sum(x) AS s FROM edges GROUP BY TUMBLE('10 seconds')",
        rows=[(0, 10, 3), (10, 20, 4), (20, 30, 8)],
    ),
    "offset": _case(
        "Flink",
        "An offset moves the grid of the windows.",
        TAPS.window(tumbling("10s", offset="3s")).agg(**COUNT),
        "SELECT count(*) AS n FROM taps GROUP BY TUMBLE('10 seconds', '3 seconds')",
        rows=[(-7, 3, 1), (3, 13, 3), (13, 23, 2)],
    ),
    "offset of a whole window": _case(
        "Spark",
        "A start time of a whole window length changes nothing.",
        TAPS.window(tumbling("10s", offset="10s")).agg(**COUNT),
        TAPS.window(TEN).agg(**COUNT),
        rows=[(0, 10, 3), (10, 20, 2), (20, 30, 1)],
    ),
    "before 1970": _case(
        "Flink",
        "Windows before 1970 are rounded down in time, not towards 1970.",
        OLD.window(TEN).agg(s=agg.sum("x")),
        "SELECT sum(x) AS s FROM old GROUP BY TUMBLE('10 seconds')",
        rows=[(-20, -10, 1), (-10, 0, 6), (0, 10, 8)],
    ),
    "just before 1970": _case(
        "Spark",
        "The last instant before 1970 is in the window that ends at 1970.",
        PAST.window(TEN).agg(**COUNT),
        rows=[(-10, 0, 1)],
    ),
    "hopping with an offset before 1970": _case(
        "Flink",
        "An offset and times before 1970 go together.",
        PAST.shift("-4s").window(hopping("10s", "5s", offset="2s")).agg(**COUNT),
        rows=[(-13, -3, 1), (-8, 2, 1)],
    ),
    "gaps between windows": _case(
        "Spark",
        "Windows with a step beyond their length would leave gaps.",
        TAPS.window(hopping("5s", "10s")).agg(s=agg.sum("x")),
        "SELECT sum(x) AS s FROM taps GROUP BY HOP('5 seconds', '10 seconds')",
        rows=[(0, 5, 5), (10, 15, 15), (20, 25, 3)],
        differs="Spark and Bytewax refuse them; here what lies in a gap counts nowhere.",
    ),
    "no rows, no window": _case(
        "RisingWave",
        "A window without rows gives no row, not a count of 0.",
        EDGES.filter(col("x") != 4).window(TEN).agg(**COUNT),
        "SELECT count(*) AS n FROM edges WHERE x <> 4 GROUP BY TUMBLE('10 seconds')",
        rows=[(0, 10, 2), (20, 30, 1)],
    ),
    "window bounds as columns": _case(
        "RisingWave",
        "The bounds of a window are values that one can compute with.",
        """SELECT EPOCH_US(window_start) DIV 1000000 AS a, EPOCH_US(window_end) DIV 1000000 AS b
           FROM taps GROUP BY TUMBLE('10 seconds')""",
        rows=[(0, 10, 0, 10), (10, 20, 10, 20), (20, 30, 20, 30)],
    ),
    "a result's time": _case(
        "Flink",
        "A result has a time inside of its window, so that a next window of the length holds it.",
        TAPS.window(tumbling("5s"))
        .agg(s=agg.sum("x"))
        .window(TEN)
        .agg(n=agg.count(), top=agg.max("s")),
        """SELECT count(*) AS n, max(q.s) AS top
           FROM (SELECT sum(x) AS s FROM taps GROUP BY TUMBLE('5 seconds')) AS q
           GROUP BY TUMBLE('10 seconds')""",
        rows=[(0, 10, 2, 5), (10, 20, 1, 15), (20, 30, 1, 3)],
        differs="Flink stamps the row with the window's last millisecond; here it lives as long.",
    ),
    "sessions": _case(
        "Flink",
        "A session lasts until nothing has come for the gap; it ends the gap after the last row.",
        TAPS.filter(col("k") == "a").group_by("k").window(session("5s")).agg(s=agg.sum("x")),
        "SELECT k, sum(x) AS s FROM taps WHERE k = 'a' GROUP BY k, SESSION('5 seconds')",
        rows=[(2, 15, "a", 13), (21, 26, "a", 3)],
    ),
    "sessions exactly a gap apart": _case(
        "Spark",
        "Two rows exactly the gap apart.",
        TAPS.filter(col("k") == "b").group_by("k").window(session("5s")).agg(**COUNT),
        "SELECT k, count(*) AS n FROM taps WHERE k = 'b' GROUP BY k, SESSION('5 seconds')",
        rows=[(9, 14, "b", 1), (14, 19, "b", 1)],
        differs="Spark, Flink and Bytewax make one session of them; here the gap is exclusive.",
    ),
    "sessions a microsecond less than a gap apart": _case(
        "Bytewax",
        "Rows no further apart than the gap are one session.",
        TAPS.filter(col("k") == "b").group_by("k").window(session(5_000_001)).agg(**COUNT),
        rows=[(9, Us(19_000_001), "b", 2)],
    ),
    "sessions of all keys together": _case(
        "Arroyo",
        "A session without keys is one of the whole stream.",
        TAPS.window(session("5s")).agg(**COUNT),
        "SELECT count(*) AS n FROM taps GROUP BY SESSION('5 seconds')",
        rows=[(2, 19, 5), (21, 26, 1)],
    ),
    "sessions of spans": _case(
        "Trill",
        "Sessions of events with lifetimes.",
        SPANS.window(session("2s")).agg(**COUNT),
        rows=[(0, Us(10_999_999), 3), (12, Us(15_999_999), 1)],
        differs="Trill counts from starts and shows a session as it grows; here a lifetime keeps "
        "its session active, and a session is put out once.",
    ),
    "sessions of limited length": _case(
        "Trill",
        "A session may have a greatest length, after which another begins.",
        RUNS.group_by("k").window(session("5s", max="10s")).agg(**COUNT),
        "SELECT k, count(*) AS n FROM runs GROUP BY k, SESSION('5 seconds', '10 seconds')",
        rows=[(0, 10, "a", 3), (12, 18, "a", 2)],
    ),
    "count windows": _case(
        "Flink",
        "A count window is full after n rows of its key; one that is never full gives nothing.",
        TAPS.group_by("k").window(count_window(2)).agg(s=agg.sum("x")),
        "SELECT k, sum(x) AS s FROM taps GROUP BY k, COUNT_WINDOW(2)",
        rows=[
            (2, Us(6_000_001), "a", 6),
            (9, Us(14_000_001), "b", 12),
            (10, Us(21_000_001), "a", 10),
        ],
    ),
    "a count window that is not full": _case(
        "Flink",
        "Rows that do not fill a count window are not put out at the end of the input.",
        TAPS.group_by("k").window(count_window(3)).agg(s=agg.sum("x")),
        rows=[(2, Us(10_000_001), "a", 13)],
    ),
    "snapshots": _case(
        "Trill",
        "A snapshot aggregate changes at each start and end, and says nothing where nothing is.",
        SPANS.window(snapshot()).agg(n=agg.count(), s=agg.sum("x")),
        "SELECT count(*) AS n, sum(x) AS s FROM spans GROUP BY SNAPSHOT()",
        rows=[(0, 2, 1, 1), (2, 6, 2, 3), (6, 9, 2, 6), (12, 14, 1, 8)],
    ),
    "snapshots by key": _case(
        "Trill",
        "A grouped snapshot changes only with the events of its group.",
        SPANS.group_by("k").window(snapshot()).agg(s=agg.sum("x")),
        rows=[(0, 6, "a", 1), (2, 9, "b", 2), (6, 9, "a", 4), (12, 14, "b", 8)],
    ),
    "sliding count": _case(
        "Trill",
        "A snapshot over events of a set length is a sliding window over points.",
        TAPS.set_duration("4s").window(snapshot()).agg(**COUNT),
        rows=[
            (2, 6, 1),
            (6, 9, 1),
            (9, 10, 2),
            (10, 13, 2),
            (13, 14, 1),
            (14, 18, 1),
            (21, 25, 1),
        ],
    ),
    "hopping windows over spans": _case(
        "Trill",
        "An event is in each hop that its lifetime touches.",
        SPANS.window(tumbling("5s")).agg(s=agg.sum("x")),
        rows=[(0, 5, 3), (5, 10, 7), (10, 15, 8)],
        differs="Trill's result lives from the hop's end; `.shift(size).set_duration(every)`.",
    ),
    "hopping results when they are known": _case(
        "Trill",
        "The result of a hop holds from its end to the next hop.",
        SPANS.window(tumbling("5s")).agg(s=agg.sum("x")).shift("5s").set_duration("5s"),
        rows=[(5, 10, 3), (10, 15, 7), (15, 20, 8)],
    ),
    "top two": _case(
        "Flink",
        "A window top-n keeps the n greatest of each window.",
        TAPS.window(TEN).agg(top=agg.top_k("x", 2)),
        "SELECT top_k(x, 2) AS top FROM taps GROUP BY TUMBLE('10 seconds')",
        rows=[(0, 10, [5, 4]), (10, 20, [8, 7]), (20, 30, [3])],
        differs="Flink gives a row per rank; here one row has the list.",
    ),
    "top key of sums": _case(
        "Arroyo",
        "The busiest key of each window is a window over the counts per key.",
        TAPS.group_by("k")
        .window(TEN)
        .agg(s=agg.sum("x"))
        .window(TEN)
        .agg(best=agg.max_by("k", "s")),
        """SELECT max_by(q.k, q.s) AS best
           FROM (SELECT k, sum(x) AS s FROM taps GROUP BY k, TUMBLE('10 seconds')) AS q
           GROUP BY TUMBLE('10 seconds')""",
        rows=[(0, 10, "a"), (10, 20, "b"), (20, 30, "a")],
    ),
    "top by explode": _case(
        "RisingWave",
        "A top-n can be a row per place.",
        TAPS.window(TEN).agg(top=agg.top_k("x", 2)).explode("top"),
        rows=[(0, 10, 5), (0, 10, 4), (10, 20, 8), (10, 20, 7), (20, 30, 3)],
    ),
    "max_by of equals": _case(
        "Spark",
        "Of several rows of the greatest rank one is taken.",
        SPREAD.with_columns(r=col("x") * 0).window(TEN).agg(a=agg.max_by("x", "r")),
        rows=[(0, 10, 10)],
        differs="Spark leaves open which; here it is the earliest.",
    ),
    "max_by of null ranks": _case(
        "Spark",
        "A row without a rank is not chosen.",
        NULLS.window(TEN).agg(a=agg.max_by("k", "x"), b=agg.min_by("k", "x")),
        "SELECT max_by(k, x) AS a, min_by(k, x) AS b FROM nulls GROUP BY TUMBLE('10 seconds')",
        rows=[(0, 10, None, "a")],
    ),
    "first and last": _case(
        "Bytewax",
        "First and last of a window go by event time.",
        TAPS.group_by("k").window(TEN).agg(a=agg.first("x"), z=agg.last("x")),
        rows=[
            (0, 10, "a", 5, 1),
            (0, 10, "b", 4, 4),
            (10, 20, "a", 7, 7),
            (10, 20, "b", 8, 8),
            (20, 30, "a", 3, 3),
        ],
    ),
    "first of nulls": _case(
        "Spark",
        "First and last take nulls unless asked otherwise.",
        NULLS.filter(col("k") == "a").window(TEN).agg(a=agg.first("x"), z=agg.last("x")),
        rows=[(0, 10, None, None)],
    ),
    "aggregates of nulls": _case(
        "RisingWave",
        "count(*) counts rows, all else skips nulls and is null of nothing; null is a group.",
        NULLS.group_by("k")
        .window(TEN)
        .agg(
            n=agg.count(),
            some=agg.count("x"),
            s=agg.sum("x"),
            m=agg.mean("x"),
            lo=agg.min("x"),
        ),
        """SELECT k, count(*) AS n, count(x) AS some, sum(x) AS s, avg(x) AS m, min(x) AS lo
           FROM nulls GROUP BY k, TUMBLE('10 seconds')""",
        rows=[
            (0, 10, "a", 3, 1, 4, 4.0, 4),
            (0, 10, "b", 2, 0, None, None, None),
            (0, 10, None, 1, 1, 6, 6.0, 6),
        ],
    ),
    "distinct skips nulls": _case(
        "Flink",
        "count(DISTINCT x) does not count null, but is 0 where nothing else is.",
        NULLS.group_by("k").window(TEN).agg(d=agg.count_distinct("x")),
        "SELECT k, count(DISTINCT x) AS d FROM nulls GROUP BY k, TUMBLE('10 seconds')",
        rows=[(0, 10, "a", 1), (0, 10, "b", 0), (0, 10, None, 1)],
    ),
    "distinct floats": _case(
        "Spark",
        "In grouping -0.0 is 0.0 and NaN is NaN.",
        FLOATS.window(TEN).agg(d=agg.count_distinct("f")),
        rows=[(0, 10, 2)],
    ),
    "filtered aggregates": _case(
        "Flink",
        "FILTER narrows one aggregate; a count of nothing is 0, a sum of nothing null.",
        """SELECT count(*) FILTER (WHERE x > 99) AS n, sum(x) FILTER (WHERE x > 99) AS s,
                  sum(x) FILTER (WHERE k = 'b') AS b
           FROM taps WHERE k IS NOT NULL GROUP BY TUMBLE('10 seconds')""",
        rows=[(0, 10, 0, None, 4), (10, 20, 0, None, 8), (20, 30, 0, None, None)],
    ),
    "a sum of nothing as zero": _case(
        "RisingWave",
        "COALESCE around an aggregate replaces the null of nothing.",
        "SELECT k, coalesce(sum(x), 0) AS s FROM nulls GROUP BY k, TUMBLE('10 seconds')",
        rows=[(0, 10, "a", 4), (0, 10, "b", 0), (0, 10, None, 6)],
    ),
    "having": _case(
        "Flink",
        "HAVING drops groups by what was computed of them.",
        TAPS.group_by("k").window(TEN).agg(n=agg.count()).filter(col("n") > 1),
        "SELECT k, count(*) AS n FROM taps GROUP BY k, TUMBLE('10 seconds') HAVING count(*) > 1",
        rows=[(0, 10, "a", 2)],
    ),
    "having a null": _case(
        "RisingWave",
        "A condition that is null drops the group.",
        "SELECT k FROM nulls GROUP BY k, TUMBLE('10 seconds') HAVING sum(x) > 0",
        rows=[(0, 10, "a"), (0, 10, None)],
    ),
    "average of integers": _case(
        "Flink",
        "The average of integers.",
        TAPS.window(TEN).agg(m=agg.mean("x")),
        "SELECT avg(x) AS m FROM taps GROUP BY TUMBLE('10 seconds')",
        rows=[(0, 10, 10 / 3), (10, 20, 7.5), (20, 30, 3.0)],
        differs="Flink's is an integer; here it is a double.",
    ),
    "variance of one": _case(
        "Spark",
        "The sample variance of one row is null, that of the population 0.",
        """SELECT variance(x) AS v, var_pop(x) AS p FROM taps WHERE x = 3
           GROUP BY TUMBLE('10 seconds')""",
        rows=[(20, 30, None, 0.0)],
    ),
    "quantiles": _case(
        "Spark",
        "A percentile lies between two rows where it falls between them.",
        SPREAD.window(TEN).agg(m=agg.quantile("x", 0.5), q=agg.quantile("x", 0.25)),
        "SELECT median(x) AS m, quantile(x, 0.25) AS q FROM spread GROUP BY TUMBLE('10 seconds')",
        rows=[(0, 10, 2.5, 1.75)],
    ),
    "keys that are expressions": _case(
        "Arroyo",
        "One may group by what is computed from a row.",
        TAPS.group_by(odd=col("x") % 2).window(tumbling("30s")).agg(**COUNT),
        "SELECT x % 2 AS odd, count(*) AS n FROM taps GROUP BY odd, TUMBLE('30 seconds')",
        rows=[(0, 30, 0, 2), (0, 30, 1, 4)],
    ),
}
