"""Table literals: rows written as text, which are parsed, compared and printed.

::

    | time | room: string | celsius: float64 |
    |------|--------------|------------------|
    | 1s   | attic        | 18.0             |

A header names a column and, if the schema is not known otherwise, its type. ``time`` is the time of
a point event; ``start`` and ``end`` are a lifetime. A column without a type is int64, float64 or
bool if all its cells can be parsed as such, else text.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.durations import format_us, time_us
from planner.errors import InvalidDurationError
from planner.expressions.types import data_type, is_text
from rstream.errors import UsageError
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Column names of a literal for an event's times, and the event columns that they stand for.
TIMES = {"time": VS, "start": VS, "end": VE}
NULL = "null"
#: A float cell with this prefix is compared only to the digits shown.
ABOUT = "~"
_RULE = re.compile(r"[\s|:+-]+")
_CELLS = re.compile(r"(?<!\\)\|")
_NEVER = {"-inf": MIN_TIME, "inf": INF_TIME}
#: Times up to this distance from 1970 are shown as durations since 1970.
_SHORT_US = 10 * 86_400 * 1_000_000
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Table:
    """A table literal. Its cells are text until a schema is known."""

    names: tuple[str, ...]
    #: For each column: the type in its header, if it has one.
    types: dict[str, pa.DataType]
    cells: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """Return the cells of a column."""
        at = self.names.index(name)
        return [row[at] for row in self.cells]

    @property
    def payload(self) -> list[str]:
        """The columns without the event's times."""
        return [name for name in self.names if name not in TIMES]

    @property
    def has_spans(self) -> bool:
        """Whether the rows have start and end."""
        return "end" in self.names

    @property
    def schema(self) -> pa.Schema:
        """The payload columns with declared or guessed types."""
        columns = [(n, self.types.get(n) or _guessed(self.column(n))) for n in self.payload]
        return pa.schema(columns)

    def __len__(self) -> int:
        return len(self.cells)


def rows(literal: str) -> Table:
    """Parse a table literal.

    Raises:
        UsageError: a row has more or fewer cells than the header.
    """
    lines = [line.strip() for line in literal.strip().splitlines()]
    lines = [line for line in lines if line and not _RULE.fullmatch(line)]
    split = [_cells(line) for line in lines]
    if not split:
        return Table((), {}, ())
    names, types = [], {}
    for cell in split[0]:
        name, _, kind = (part.strip() for part in cell.partition(":"))
        names.append(name)
        if kind:
            types[name] = data_type(kind)
    for line, cells in zip(lines, split, strict=True):
        if len(cells) != len(names):
            raise UsageError(f"{line}: the row has {len(cells)} cells, the header {len(names)}")
    if len(set(names)) < len(names):
        raise UsageError(f"{lines[0]}: a column occurs twice")
    return Table(tuple(names), types, tuple(map(tuple, split[1:])))


def _cells(line: str) -> list[str]:
    inner = line.removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in _CELLS.split(inner)]


def _guessed(cells: Sequence[str]) -> pa.DataType:
    given = [cell for cell in cells if cell not in ("", NULL)]
    for kind in (pa.int64(), pa.float64(), pa.bool_()) if given else ():
        try:
            for cell in given:
                value_of(cell, kind)
        except ValueError:
            continue
        return kind
    return pa.string()


def value_of(cell: str, kind: pa.DataType) -> Any:
    """Parse a cell as a value of type ``kind``.

    Raises:
        ValueError: the cell is not of that type.
    """
    if cell in ("", NULL):
        return None
    if is_text(kind):
        is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"'
        return json.loads(cell) if is_quoted else cell
    types = pa.types
    if types.is_boolean(kind):
        if cell.lower() not in ("true", "false"):
            raise ValueError(f"{cell!r} is no bool")
        return cell.lower() == "true"
    if types.is_integer(kind):
        return int(cell)
    if types.is_floating(kind):
        return float(cell.removeprefix(ABOUT))
    if types.is_decimal(kind):
        try:
            return Decimal(cell)
        except InvalidOperation:
            raise ValueError(f"{cell!r} is no decimal") from None
    if types.is_date(kind):
        return date.fromisoformat(cell)
    if types.is_timestamp(kind):
        return pa.scalar(time_of(cell), pa.timestamp("us", kind.tz)).cast(kind).as_py()
    if types.is_binary(kind):
        return cell.encode()
    return json.loads(cell)


def time_of(cell: str) -> int:
    """Parse a cell as a time, us: a duration since 1970, ISO 8601, microseconds, or ``inf``.

    Raises:
        ValueError: the cell is not a time.
    """
    if cell in _NEVER:
        return _NEVER[cell]
    try:
        return time_us(int(cell) if cell.lstrip("-").isdigit() else cell)
    except InvalidDurationError as error:
        raise ValueError(str(error)) from None


def show_time(us: int) -> str:
    """Format a time for a literal: as a duration if it is within ten days of 1970."""
    for text, never in _NEVER.items():
        if us == never:
            return text
    if abs(us) <= _SHORT_US:
        return format_us(us)
    shown: str = pa.scalar(us, pa.timestamp("us")).cast(pa.string()).as_py()
    shown = shown.removesuffix("000000").removesuffix(".").replace(" ", "T")
    return f"{shown}Z"


def show_value(value: Any) -> str:
    """Format a value for a literal."""
    match value:
        case None:
            return NULL
        case bool():
            return str(value).lower()
        case str():
            is_plain = value and value == value.strip() and value != NULL and '"' not in value
            return value.replace("|", "\\|") if is_plain else json.dumps(value)
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="backslashreplace")
        case list() | dict() | tuple():
            return json.dumps(value, default=str)
        case _:
            return str(value)


def show(names: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Format a table literal: its lines, with aligned columns."""
    widths = [max(len(line[k]) for line in [names, *lines]) for k in range(len(names))]

    def shown(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return [shown(names), rule, *map(shown, lines)]


def compare(expected: Table, found: pa.Table, *, in_order: bool, what: str) -> str:
    """Compare events with a literal; return a message with the difference, or "" if equal.

    Raises:
        UsageError: the literal lacks a column, or has one that the events do not have.
    """
    columns = [name for name in found.column_names if name not in (VS, VE)]
    if not expected.names:
        names = ["start", "end", *columns]
    else:
        names = list(expected.names)
        if sorted(expected.payload) != sorted(columns):
            raise UsageError(f"the table has the columns {expected.payload}, {what} has {columns}")
    got = [[_shown(found, name, k) for name in names] for k in range(found.num_rows)]
    want = [_normal(expected, found.schema, row) for row in expected.cells]
    if not in_order:
        got, want = sorted(got), sorted(want)
    if len(got) == len(want):
        want = [
            [_matched(name, found.schema, a, b) for name, a, b in zip(names, w, g, strict=True)]
            for w, g in zip(want, got, strict=True)
        ]
    if got == want:
        return ""
    everything = show(names, [*want, *got])
    head, lines = everything[:2], everything[2:]
    diff = difflib.ndiff(lines[: len(want)], lines[len(want) :])
    shown = [line for line in diff if not line.startswith("?")]
    marked = "\n".join([f"  {head[0]}", f"  {head[1]}", *shown])
    return f"{what} is not as expected (- expected, + found):\n{marked}"


def _shown(found: pa.Table, name: str, row: int) -> str:
    value = found.column(TIMES.get(name, name))[row].as_py()
    return show_time(value) if name in TIMES else show_value(value)


def _normal(table: Table, schema: pa.Schema, row: Sequence[str]) -> list[str]:
    """Format a row of a literal as :func:`show_value` does; floats keep their ``~``."""
    cells = []
    for name, cell in zip(table.names, row, strict=True):
        if name in TIMES:
            cells.append(show_time(time_of(cell)))
        elif cell.startswith(ABOUT) and pa.types.is_floating(schema.field(name).type):
            cells.append(cell)
        else:
            cells.append(show_value(value_of(cell, schema.field(name).type)))
    return cells


def _matched(name: str, schema: pa.Schema, want: str, got: str) -> str:
    """Return the actual cell if it is a float that counts as equal, else the expected cell."""
    if name in TIMES or NULL in (want, got) or not pa.types.is_floating(schema.field(name).type):
        return want
    if want.startswith(ABOUT):
        digits = len(want.partition(".")[2])
        is_same = round(float(got), digits) == float(want[1:])
    else:
        is_same = math.isclose(float(want), float(got), rel_tol=_TOLERANCE)
        is_same = is_same or (want == got == "nan")
    return got if is_same else want
