"""The dialects of SQL that a text may be in, and where these differ.

Without a dialect a text means what docs/SQL.md says. A dialect decides how integers divide, where
nulls stand in ORDER BY, whether names have cases, how columns without a name are called, what a
number is as a time, and how long rows last that have a time and no end.
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
    """How one dialect reads what others read in another way."""

    name: str
    #: ``7 / 2`` of integers is 3.
    divides_whole: bool = False
    #: ``-7 % 2`` and ``-7 DIV 2`` cut toward zero; else they round down.
    cuts_to_zero: bool = False
    nulls: Nulls = "nulls_are_last"
    #: Names without quotes match in any case.
    ignores_case: bool = False
    #: Of a column without a name: its text, the name of its function, its place from 1.
    called: Callable[[str, str, int], str] | None = None
    #: ``list[0]`` is the first element.
    lists_from_zero: bool = False
    #: What 1 is when it is cast to a time, in microseconds; None: such casts are refused.
    epoch_us: int | None = 1
    #: A time as text has neither microseconds that are 0 nor ``Z``.
    plain_times: bool = False
    #: A row with a time and no end is there from then on, as in a table that only grows.
    keeps_rows: bool = False
    #: DECIMAL without digits; None: 38 digits without a fraction.
    decimal: pa.DataType | None = None
    #: FLOAT has 64 bits.
    float_is_double: bool = False
    #: What ``CAST(x AS VARCHAR(n))`` does, and VARCHAR(n) of a declared column.
    varchar_cast: Literal["refuse", "cut", "ignore"] = "refuse"
    #: What ``CAST(x AS CHAR(n))`` does; ``pad`` fills with blanks.
    char_cast: Literal["refuse", "pad", "ignore"] = "refuse"
    #: What ``CAST(t AS TIMESTAMP(p))`` does with the digits behind the p-th.
    timestamp_cast: Literal["refuse", "cut", "round"] = "refuse"
    #: Halves are rounded away from this time.
    zero_time_us: int = 0
    varchar_column: Literal["refuse", "ignore"] = "refuse"
    #: ``REGEXP_REPLACE`` without the flag ``g`` replaces the first match.
    replaces_first: bool = False
    #: ``CAST(2.5 AS INT)`` is 3, of a decimal; of a float the even neighbour.
    rounds_to_whole: bool = False
    #: ``AVG`` of integers is an integer.
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
    name="flink",
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
    name="spark",
    cuts_to_zero=True,
    nulls="nulls_are_small",
    ignores_case=True,
    called=_as_written,
    lists_from_zero=True,
    epoch_us=1_000_000,
    plain_times=True,
    keeps_rows=True,
    decimal=pa.decimal128(10, 0),
    varchar_cast="ignore",
    char_cast="ignore",
)
_POSTGRES = Engine(
    name="postgres",
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
    timestamp_cast="round",
    zero_time_us=946_684_800_000_000,  # 2000-01-01
    replaces_first=True,
    rounds_to_whole=True,
)
_DUCKDB = Engine(
    name="duckdb",
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
    name="ksqldb",
    divides_whole=True,
    cuts_to_zero=True,
    ignores_case=True,
    called=lambda _text, _function, place: f"KSQL_COL_{place - 1}",
    epoch_us=None,
    plain_times=True,
)
ENGINES = {engine.name: engine for engine in (_FLINK, _SPARK, _POSTGRES, _DUCKDB, _KSQLDB)}


def engine_of(name: str | None) -> Engine:
    """The dialect of that name; without a name the one of this page.

    Raises:
        InvalidPlanError: there is no such dialect.
    """
    if name is None:
        return PLAIN
    found = ENGINES.get(name.lower())
    if found is None:
        near = get_close_matches(name.lower(), ENGINES, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidPlanError(f"no dialect {name!r}{hint} There are: {', '.join(ENGINES)}")
    return found
