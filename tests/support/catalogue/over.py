"""Window functions over the time of the stream."""

from __future__ import annotations

from tests.support.catalogue.entry import Entry

_ROWS = "OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)"
_BEFORE = "OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)"
_RANGE = (
    "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '60' SECOND PRECEDING AND CURRENT ROW)"
)
_ALL = "OVER (PARTITION BY k ORDER BY ts)"


#: Rows without ties, for functions that need all rows of a partition.
_TOTAL = "OVER (PARTITION BY k ORDER BY ts, n)"


def _of(
    name: str,
    ours: str,
    duck: str | None = None,
    hint: str | None = None,
    *,
    is_running: bool = False,
) -> Entry:
    listed = "SELECT n, {} AS v FROM t"
    return Entry(name, listed.format(ours), listed.format(duck or ours), hint, is_running)


ENTRIES = (
    _of("SUM OVER ROWS", f"SUM(i) {_ROWS}"),
    _of("AVG OVER ROWS", f"AVG(i) {_ROWS}"),
    _of("COUNT OVER ROWS", f"COUNT(i) {_ROWS} + COUNT(*) {_ROWS}"),
    _of("COUNT DISTINCT OVER ROWS", f"COUNT(DISTINCT s) {_ROWS}"),
    _of("MIN and MAX OVER ROWS", f"MIN(s) {_ROWS} || MAX(s) {_ROWS}"),
    _of("FILTER OVER ROWS", f"SUM(i) FILTER (WHERE p) {_ROWS}"),
    _of("FIRST_VALUE OVER ROWS", f"FIRST_VALUE(s) {_ROWS}"),
    _of("LAST_VALUE OVER ROWS", f"LAST_VALUE(s) {_BEFORE}"),
    _of("ARRAY_AGG OVER ROWS", f"ARRAY_AGG(i) {_ROWS}"),
    _of(
        "ARRAY_AGG ORDER BY OVER ROWS",
        f"ARRAY_AGG(i ORDER BY n DESC) FILTER (WHERE p) {_ROWS}",
    ),
    _of("LAST_VALUE IGNORE NULLS so far", f"LAST_VALUE(i IGNORE NULLS) {_ALL}"),
    _of(
        "FIRST_VALUE FILTER OVER ROWS",
        f"FIRST_VALUE(s) FILTER (WHERE i > 0) {_ROWS}",
        f"(ARRAY_AGG(s ORDER BY ts) FILTER (WHERE i > 0) {_ROWS})[1]",
    ),
    _of(
        "LAST_VALUE IGNORE NULLS OVER ROWS",
        f"LAST_VALUE(s) IGNORE NULLS {_BEFORE}",
        f"LAST_VALUE(s IGNORE NULLS) {_BEFORE}",
    ),
    _of("LAG RESPECT NULLS", f"LAG(i) RESPECT NULLS {_ALL}", f"LAG(i) {_ALL}"),
    _of("LAG IGNORE NULLS", f"LAG(i) IGNORE NULLS {_ALL}", hint="LAST_VALUE(x) IGNORE NULLS"),
    _of("MEDIAN OVER ROWS", f"MEDIAN(i) {_ROWS}"),
    _of("STDDEV OVER ROWS", f"STDDEV(j) {_ROWS}"),
    _of("frames that end before the row", f"SUM(i) {_BEFORE}"),
    _of("ROWS n PRECEDING", "SUM(i) OVER (PARTITION BY k ORDER BY ts ROWS 2 PRECEDING)"),
    _of(
        "ROWS UNBOUNDED PRECEDING",
        "SUM(i) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    ),
    _of(
        "GROUPS UNBOUNDED PRECEDING",
        "SUM(i) OVER (PARTITION BY p ORDER BY ts "
        "GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    ),
    _of("GROUPS CURRENT ROW", "COUNT(*) OVER (ORDER BY ts GROUPS CURRENT ROW)"),
    _of(
        "GROUPS n PRECEDING",
        "SUM(i) OVER (PARTITION BY k ORDER BY ts GROUPS 2 PRECEDING)",
        is_running=True,
    ),
    _of("PERCENT_RANK", f"PERCENT_RANK() {_ALL}", is_running=True),
    _of("CUME_DIST", f"CUME_DIST() {_ALL}", is_running=True),
    _of("NTH_VALUE", f"NTH_VALUE(i, 2) {_TOTAL}", is_running=True),
    _of("OVER without a frame", f"SUM(i) {_ALL}"),
    _of("COUNT DISTINCT OVER all before", f"COUNT(DISTINCT j) {_ALL}"),
    _of("OVER of all keys", "MAX(i) OVER (ORDER BY ts ROWS 5 PRECEDING)"),
    _of("SUM OVER RANGE", f"SUM(i) {_RANGE}"),
    _of("COUNT OVER RANGE", f"COUNT(*) {_RANGE}"),
    _of(
        "RANGE that ends before the row",
        "SUM(i) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '2' MINUTE PRECEDING AND "
        "INTERVAL '10' SECOND PRECEDING)",
    ),
    _of("LAG", f"LAG(i) {_ALL}"),
    _of("LAG with a default", f"LAG(i, 2, -5) {_ALL}"),
    _of("LAG of an expression in one", f"i - LAG(i * 2) {_ALL}"),
    _of("ROW_NUMBER by time", f"ROW_NUMBER() {_ALL}"),
    _of(
        "several frames",
        f"SUM(i) {_ROWS} - LAG(j) OVER (PARTITION BY p ORDER BY ts) + COUNT(*) {_RANGE}",
    ),
    _of("LEAD", f"LEAD(i) {_TOTAL}", is_running=True),
    _of("LEAD with a default", f"LEAD(s, 2, '-') {_TOTAL}", is_running=True),
    _of("NTILE", f"NTILE(4) {_TOTAL}", is_running=True),
    _of(
        "FOLLOWING",
        "SUM(i) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)",
        is_running=True,
    ),
    _of("OVER by another order", "SUM(i) OVER (PARTITION BY k ORDER BY j)", is_running=True),
    _of("OVER without ORDER BY", "SUM(i) OVER (PARTITION BY k)", is_running=True),
    _of("OVER of all rows", "COUNT(*) OVER ()", is_running=True),
)
