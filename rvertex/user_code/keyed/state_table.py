"""Reads the saved state of a keyed process as rows, and changes one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rvertex.state.row_log import INDEX_TABLES, NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rvertex.user_code.keyed.state_fields import StateField

Tables = dict[str, pa.Table]
KEYS, CURRENT = "keys", "current"
TIMERS, TIMES = "timers", "times"


def read_rows(tables: Tables, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row per key: key columns, fields, and ``timers`` (times by name)."""
    rows = []
    for row in _current(tables).to_pylist():
        timers = dict(zip(row[TIMERS], row[TIMES], strict=True))
        named = {name: row[f"key{i}"] for i, name in enumerate(keys)}
        fields = {n.removeprefix("field "): v for n, v in row.items() if n.startswith("field ")}
        rows.append({**named, **fields, TIMERS: timers})
    return rows


def with_row(
    tables: Tables, fields: Sequence[StateField], key: Sequence[Any], values: Mapping[str, Any]
) -> Tables:
    """Return the tables with these fields of a key changed.

    Other fields keep their values; for a new key they get the defaults.

    Raises:
        pyarrow.ArrowException, OverflowError, TypeError: a value has another type than its field.
    """
    schema = tables[KEYS].schema
    at = {f"key{i}": value for i, value in enumerate(key)}
    row: dict[str, Any] = {f"field {f.name}": [] if f.is_list else f.default for f in fields}
    row |= {TIMERS: [], TIMES: []} | at
    others = []
    for other in _current(tables).to_pylist():
        if all(other[name] == value for name, value in at.items()):
            row = other
        else:
            others.append(other)
    changed = row | {f"field {name}": value for name, value in values.items()}
    rows = [{**each, NUMBER: n} for n, each in enumerate([*others, changed])]
    masks = pa.table([pa.array([True] * len(rows))], schema=tables[CURRENT].schema)
    kept = {name: table for name, table in tables.items() if name not in INDEX_TABLES}
    return {**kept, KEYS: pa.Table.from_pylist(rows, schema), CURRENT: masks}


def _current(tables: Tables) -> pa.Table:
    return tables[KEYS].filter(tables[CURRENT].column(0).combine_chunks())
