"""The dialects of SQL that a text may use, and their differences.

Without a dialect a text has the meaning in docs/SQL.md. A dialect decides the division of integers,
the place of nulls in ORDER BY, whether names are case-sensitive, the names of unnamed columns, the
conversion of numbers to times, and whether rows with a time and no end are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from planner.errors import InvalidPlanError

if TYPE_CHECKING:
    from collections.abc import Callable

Nulls = Literal["nulls_are_last", "nulls_are_small", "nulls_are_large"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The settings of one dialect."""

    name: str
    #: Whether ``7 / 2`` of integers is 3.
    divides_whole: bool = False
    #: Whether ``-7 % 2`` and ``-7 DIV 2`` cut toward zero; else they round down.
    cuts_to_zero: bool = False
    nulls: Nulls = "nulls_are_last"
    #: Whether names without quotes match in any case.
    ignores_case: bool = False
    #: Returns the name of an unnamed column, given its text, its function's name, and its position
    #: (from 1).
    called: Callable[[str, str, int], str] | None = None
    #: Whether ``list[0]`` is the first element.
    lists_from_zero: bool = False
    #: The unit of integers that are cast to times, us; None: such casts are an error.
    epoch_us: int | None = 1
    #: Whether a time as text omits ``Z``, and microseconds that are 0.
    plain_times: bool = False
    #: Whether a row with a time and no end stays valid, as in a table that only grows.
    keeps_rows: bool = False
    #: The type of DECIMAL without digits; None: 38 digits without a fraction.
    decimal: pa.DataType | None = None
    #: Whether FLOAT has 64 bits.
    float_is_double: bool = False
    #: What ``CAST(x AS VARCHAR(n))`` does to a longer text.
    varchar_cast: Literal["refuse", "cut", "ignore"] = "refuse"
    #: The effect of ``CAST(x AS CHAR(n))``; ``pad`` fills with blanks.
    char_cast: Literal["refuse", "pad", "ignore"] = "refuse"
    #: The effect of ``CAST(t AS TIMESTAMP(p))`` on digits after the p-th.
    timestamp_cast: Literal["refuse", "cut", "round"] = "refuse"
    #: When a time is rounded, halves go away from this time (us since 1970).
    zero_time_us: int = 0
    #: The effect of VARCHAR(n) of a declared column; ``check``: a longer text is a bad row, and
    #: CHAR(n) is an error.
    varchar_column: Literal["refuse", "ignore", "check"] = "refuse"
    #: Whether ``REGEXP_REPLACE`` without the flag ``g`` replaces only the first match.
    replaces_first: bool = False
    #: Whether an expression of the SELECT list may name an alias on its left.
    reads_aliases: bool = False
    #: Whether ``CAST(2.5 AS INT)`` of a decimal is 3; of a float it is 2, rounded to even.
    rounds_to_whole: bool = False
    #: Whether rows exactly the gap apart are in one session.
    merges_at_gap: bool = False
    #: The escape character of ``LIKE`` without ``ESCAPE``; empty: none.
    escape: str = "\\"
    #: How doubles are written as text; None: as Arrow does.
    doubles: Literal["java", "duckdb", "postgres"] | None = None
    #: Whether ``AVG`` of integers is an integer.
    averages_whole: bool = False


def _placed(_text: str, _function: str, place: int) -> str:
    return f"EXPR${place - 1}"


def _of_postgres(_text: str, function: str, _place: int) -> str:
    return function or "?column?"


def _as_written(text: str, _function: str, _place: int) -> str:
    return text


#: The dialect of a text without ``dialect=``.
PLAIN = Engine(name="")
_FLINK = Engine(
    merges_at_gap=True,
    name="flink",
    doubles="java",
    escape="",
    divides_whole=True,
    cuts_to_zero=True,
    nulls="nulls_are_small",
    called=_placed,
    epoch_us=None,
    plain_times=True,
    keeps_rows=True,
    decimal=pa.decimal128(10, 0),
    varchar_cast="cut",
    char_cast="pad",
    timestamp_cast="cut",
    varchar_column="ignore",
    averages_whole=True,
)
_SPARK = Engine(
    merges_at_gap=True,
    name="spark",
    doubles="java",
    reads_aliases=True,
    cuts_to_zero=True,
    nulls="nulls_are_small",
    ignores_case=True,
    called=_as_written,
    lists_from_zero=True,
    epoch_us=1_000_000,
    plain_times=True,
    keeps_rows=True,
    varchar_column="check",
    decimal=pa.decimal128(10, 0),
    varchar_cast="ignore",
    char_cast="ignore",
)
_POSTGRES = Engine(
    name="postgres",
    doubles="postgres",
    divides_whole=True,
    cuts_to_zero=True,
    nulls="nulls_are_large",
    ignores_case=True,
    called=_of_postgres,
    epoch_us=None,
    plain_times=True,
    keeps_rows=True,
    decimal=pa.float64(),
    float_is_double=True,
    varchar_cast="cut",
    varchar_column="check",
    timestamp_cast="round",
    zero_time_us=946_684_800_000_000,  # 2000-01-01
    replaces_first=True,
    rounds_to_whole=True,
)
_DUCKDB = Engine(
    name="duckdb",
    doubles="duckdb",
    escape="",
    reads_aliases=True,
    cuts_to_zero=True,
    ignores_case=True,
    called=_as_written,
    epoch_us=None,
    plain_times=True,
    keeps_rows=True,
    decimal=pa.decimal128(18, 3),
    varchar_cast="ignore",
    char_cast="ignore",
    timestamp_cast="round",
    varchar_column="ignore",
    replaces_first=True,
    rounds_to_whole=True,
)
_KSQLDB = Engine(
    merges_at_gap=True,
    name="ksqldb",
    escape="",
    divides_whole=True,
    cuts_to_zero=True,
    ignores_case=True,
    called=lambda _text, _function, place: f"KSQL_COL_{place - 1}",
    epoch_us=None,
    plain_times=True,
)
ENGINES = {engine.name: engine for engine in (_FLINK, _SPARK, _POSTGRES, _DUCKDB, _KSQLDB)}


def engine_of(name: str | None) -> Engine:
    """Return the dialect of that name; without a name the default one.

    Raises:
        InvalidPlanError: there is no such dialect.
    """
    if name is None:
        return PLAIN
    engine = ENGINES.get(name.lower())
    if engine is None:
        near = get_close_matches(name.lower(), ENGINES, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidPlanError(f"no dialect {name!r}{hint} There are: {', '.join(ENGINES)}")
    return engine
