"""Templates of calls that depend on a word among their arguments, such as 'DESC' or a unit."""

from __future__ import annotations

from planner.sql.reading.forms.templates.duckdb import LISTED

_AGGREGATES = ("LIST_AGGREGATE", "ARRAY_AGGREGATE", "LIST_AGGR", "ARRAY_AGGR")
_SORTS = ("ARRAY_SORT", "LIST_SORT", "LIST_REVERSE_SORT")
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SIZES_US = {
    "WEEK": 604_800_000_000,
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}


def of_word(name: str, word: str, count: int, engine: str) -> str | None:
    """Return the template of ``LIST_SORT(l, 'DESC')`` and ``DATE_DIFF('day', a, b)``.

    None: the call has no such form.
    """
    if name in _SORTS and count == 2 and word in ("ASC", "DESC"):
        kept = "ARRAY_SORT(FILTER(@1, x -> x IS NOT NULL))"
        kept = kept if word == "ASC" else f"ARRAY_REVERSE({kept})"
        return f"ARRAY_CONCAT({kept}, FILTER(@1, x -> x IS NULL))"
    if name in _AGGREGATES and count == 2:
        return LISTED.get(word)
    if name not in ("DATE_DIFF", "DATEDIFF") or count != 3:
        return None
    unit = word.removesuffix("S")
    if engine != "duckdb":
        return "TIMESTAMPDIFF(@1, @2, @3)"
    if unit in _MONTHS:
        size = _MONTHS[unit]
        months = [f"(EXTRACT(YEAR FROM @{n}) * 12 + EXTRACT(MONTH FROM @{n}) - 1)" for n in (3, 2)]
        return " - ".join(f"{part} DIV {size}" for part in months)
    if unit not in _SIZES_US:
        return None
    start = "DAY" if unit == "WEEK" else unit  # DuckDB counts weeks as 7 days, not by their Mondays
    floors = [f"EPOCH_US(DATE_TRUNC('{start}', CAST(@{n} AS TIMESTAMP)))" for n in (3, 2)]
    return f"({floors[0]} - {floors[1]}) DIV {_SIZES_US[unit]}"
