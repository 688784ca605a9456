"""All state of an object as plain values, to compare a restored object with the original.

It shows at once if a field is missing in a snapshot, even if a test ends before the field matters.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Collection

_OURS = ("rstream.", "rvertex.")


def state_of(value: Any, but: Collection[str] = ()) -> Any:
    """The fields of one of our objects and of all objects in it, by name, except those in ``but``.

    Batch boundaries do not count, nor whether text is stored in dictionaries.
    """
    match value:
        case pa.RecordBatch() | pa.Table():
            return value.to_pylist()
        case pa.Array() | pa.ChunkedArray():
            return value.to_pylist()
        case np.ndarray():
            return value.tolist()
        case np.generic():
            return value.item()
        case dict():
            return {key: state_of(held, but) for key, held in value.items()}
        case list() | tuple() | deque():
            return _joined([state_of(held, but) for held in value], value)
        case set() | frozenset():
            return sorted(map(repr, value))
    if type(value).__module__.startswith(_OURS):
        return {
            name: state_of(getattr(value, name), but)
            for name in _fields(value)
            if name not in but and hasattr(value, name)
        }
    return value if isinstance(value, (bool, int, float, str, bytes, type(None))) else type(value)


def _joined(states: list[Any], values: Any) -> list[Any]:
    batches = all(isinstance(held, (pa.RecordBatch, np.ndarray)) for held in values)
    return [row for state in states for row in state] if batches else states


def _fields(value: Any) -> list[str]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return sorted({*slots, *getattr(value, "__dict__", ())} - {"__dict__", "__weakref__"})
