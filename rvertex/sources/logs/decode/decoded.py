"""The results of decoders, and the search for values that cannot be decoded.

Invariant: the rows of a value, and whether it is bad, depend on that value alone, not on other
values that are decoded together with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from rstream.items.exact import exact_cast
from rvertex.sources.files import first_line
from rvertex.sources.formats.rows.bad_rows import VALUE_CHARS_MAX
from rvertex.sources.mixed import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

NO_VALUE = "the record has no value (a tombstone)"


@dataclass(frozen=True, slots=True)
class Bad:
    """Why a value cannot be decoded. ``column``: set if one column is the cause."""

    reason: str
    column: str | None = None
    value: str | None = None

    @property
    def short_value(self) -> str | None:
        """The value, shortened for dead letters."""
        return None if self.value is None else self.value[:VALUE_CHARS_MAX]

    def __str__(self) -> str:
        reason = self.reason if self.value is None else f"{self.reason}: {self.value}"
        return reason if self.column is None else f"column {self.column!r}: {reason}"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of good values, and the bad values."""

    rows: pa.RecordBatch
    #: For each row, the value it was decoded from: int64[rows], sorted.
    value_of: np.ndarray
    bad: Mapping[int, Bad]


class Decoder(Protocol):
    """Decodes values into rows of one schema."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Return the rows, in the order of the values."""


class Refused(Exception):  # noqa: N818 - never seen by users
    """One or more of the values that were decoded together are bad."""


def decode_one_row_each(
    values: Sequence[bytes | None],
    schema: pa.Schema,
    parse: Callable[[Sequence[bytes]], pa.RecordBatch],
    inspect: Callable[[Sequence[bytes]], Iterable[Mapping[int, Bad]]],
    explain: Callable[[bytes], Bad],
) -> Decoded:
    """Decode values that have one row each.

    ``parse`` returns a row per value or raises :class:`Refused`. First all values are parsed at
    once. If that fails, ``inspect`` finds some or all bad values, and the others are parsed. If
    that fails too, they are halved until each bad value is alone.
    """
    bad: dict[int, Bad] = {}
    left = np.arange(len(values))
    present: Sequence[bytes] = values  # type: ignore[assignment]
    if None in values:
        bad = {i: Bad(NO_VALUE) for i, value in enumerate(values) if value is None}
        left = np.delete(left, list(bad))
        present = [value for value in values if value is not None]
    pieces: list[pa.RecordBatch] = []
    good: list[np.ndarray] = []
    stages: Iterator[Mapping[int, Bad]] | None = None
    todo = [np.arange(len(left))]
    while todo:  # ends: each piece is parsed, or halved until it is one value
        part = todo.pop()
        if not len(part):
            continue
        some = [present[k] for k in part.tolist()] if len(part) < len(present) else present
        try:
            pieces.append(parse(some))
            good.append(left[part])
        except Refused:
            if len(part) == 1:
                bad[int(left[part[0]])] = explain(some[0])
            else:
                stages = iter(inspect(some)) if stages is None else stages
                dead = next(filter(None, stages), None)
                if dead is not None:  # the other values must be parsed anyway
                    bad |= {int(left[k]): why for k, why in dead.items()}
                    todo.append(part[np.isin(part, list(dead), invert=True)])
                    continue
                half = len(part) // 2
                todo += [part[half:], part[:half]]
    value_of = np.concatenate([left[:0], *good])
    return Decoded(joined(pieces, schema), value_of, dict(sorted(bad.items())))


def joined(pieces: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Join the pieces to one batch."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return pa.concat_batches(pieces)


def conformed(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch | Bad:
    """Return the columns of ``schema``: null if missing, and converted if no value changes."""
    columns = []
    for field in schema:
        column = _column(table, field)
        if isinstance(column, Bad):
            return column
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(table: pa.Table, field: pa.Field) -> pa.Array | Bad:
    at = table.schema.get_field_index(field.name)
    if at < 0:
        if field.name in table.schema.names:
            return Bad("the message has this column more than once", field.name)
        return pa.nulls(table.num_rows, field.type)
    column = table.column(at)
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if array.type == field.type:
        return array
    if pa.types.is_struct(array.type) and pa.types.is_struct(field.type):
        return _struct(array, field)
    refusal = f"it is {array.type} here, but {field.type} in the plan"
    if not fits(array.type, field.type):
        return Bad(refusal, field.name)
    try:
        return exact_cast(array, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return Bad(f"{refusal}: {first_line(error)}", field.name)


def _struct(array: pa.StructArray, field: pa.Field) -> pa.Array | Bad:
    """Convert the fields of a struct to the declared fields, as columns are converted."""
    inner = pa.Table.from_arrays(array.flatten(), names=[f.name for f in array.type])
    fields = conformed(inner, pa.schema(list(field.type))) if len(field.type) else None
    if isinstance(fields, Bad):
        return Bad(fields.reason, f"{field.name}.{fields.column}")
    if fields is None or not len(array):
        return pa.nulls(len(array), field.type)
    return pa.StructArray.from_arrays(fields.columns, fields=list(field.type), mask=array.is_null())
