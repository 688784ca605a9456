"""Hashes content: equal for equal plans in every process, on every machine.

Dataclasses are written as their class and fields, Arrow data as its schema and values. A value
without a stable form (a function, an object with an address in its ``repr``) is an error.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import fields, is_dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

_PLAIN = (type(None), bool, int, float, str, bytes, Decimal, date, timedelta)


def fingerprint(value: object) -> str:
    """Return a hash of ``value`` as 64 hex digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def canonical(value: object) -> str:
    """Return ``value`` as text, without anything that varies between runs."""
    kind: type[Any] = type(value)
    if kind in _PLAIN:  # first, because most values are plain
        return f"{kind.__name__}:{value!r}"
    names = _field_names(kind)  # type: ignore[arg-type]  # mypy: no class is hashable
    if names is not None:
        inner = ",".join([f"{name}={canonical(getattr(value, name))}" for name in names])
        return f"{kind.__name__}({inner})"
    if isinstance(value, tuple | list):
        return "[" + ",".join([canonical(v) for v in value]) + "]"
    if isinstance(value, pa.Schema):
        return "schema[" + ",".join(f"{f.name!r}:{f.type}" for f in value) + "]"
    if isinstance(value, pa.DataType):
        return f"type[{value}]"
    if isinstance(value, pa.RecordBatch):
        return f"rows[{canonical(value.schema)},{_content(value)}]"
    if isinstance(value, _PLAIN):
        return f"{kind.__name__}:{value!r}"
    raise TypeError(f"{type(value).__name__} has no canonical form")


@functools.cache
def _field_names(kind: type[Any]) -> tuple[str, ...] | None:
    """Return the fields of a dataclass that its hash includes; None for other classes."""
    if not is_dataclass(kind):
        return None
    return tuple(f.name for f in fields(kind) if f.metadata.get("fingerprint", True))


def _content(batch: pa.RecordBatch) -> str:
    rows = repr([column.to_pylist() for column in batch.columns])
    return hashlib.sha256(rows.encode()).hexdigest()
