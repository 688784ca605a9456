"""A table of keys with dense codes: saved by reference, and able to drop keys.

Codes are numbered by first appearance (:class:`~rvertex.keys.key_index.KeyIndex`). Callers keep
arrays indexed by code. After :meth:`KeyTable.keep` they must select the same codes from these
arrays.

Invariants: (1) after ``restore(save())`` every key has its old code; (2) the time of ``save`` is
proportional to the keys added since the last ``save``; (3) the time to drop keys is amortised over
the keys that were added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rvertex.events.arrays import as_one_array
from rvertex.keys.key_index import KeyIndex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_KEYS_MIN = 1024


class KeyTable:
    """Keys of columns with these types -> dense codes."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = tuple(types)
        self._index = KeyIndex(self._types)
        #: Key columns in code order, one piece for each ``save`` that had new keys.
        self._saved: list[list[pa.Array]] = []
        self._kept = 0

    def __len__(self) -> int:
        return len(self._index)

    def codes(self, columns: Sequence[pa.Array], rows: int) -> np.ndarray:
        """Return the codes of the keys, int64[rows]. New keys are added."""
        return self._index.codes_of_rows(columns, rows)

    def find(self, columns: Sequence[pa.Array], rows: int) -> np.ndarray:
        """Return the codes of the keys, int64[rows]; -1 for keys that are not in the table."""
        return self._index.codes_of_rows(columns, rows, insert=False)

    def keys(self, codes: np.ndarray | None = None) -> list[pa.Array]:
        """Return the key columns of ``codes``, or of all in code order."""
        return self._index.keys(codes)

    def is_crowded(self, beside: int = 0) -> bool:
        """Return whether another pass over all keys pays off since the last :meth:`keep`.

        Its cost is amortised over the keys that were added since. ``beside`` is the number of rows
        that the caller would visit in the same pass.
        """
        return len(self) > 2 * self._kept + _KEYS_MIN + beside

    def keep(self, codes: np.ndarray) -> None:
        """Drop all keys except ``codes`` (increasing); the key of ``codes[i]`` gets code i."""
        columns = self._index.keys(codes)
        self._index = KeyIndex(self._types)
        self._saved, self._kept = [], len(codes)
        again = self._index.codes_of_rows(columns, len(codes))
        assert len(again) == 0 or int(again[-1]) == len(codes) - 1, again

    def save(self) -> dict[str, pa.Table]:
        """Return the keys in code order, by reference, with a table per column."""
        saved = sum(len(keys[0]) for keys in self._saved) if self._types else 0
        if self._types and len(self) > saved:
            self._saved.append(self._index.keys(np.arange(saved, len(self))))
        tables = {"groups": pa.table({"code": pa.nulls(len(self))})}
        for i, kind in enumerate(self._types):
            chunks = [keys[i] for keys in self._saved]
            tables[f"key{i}"] = pa.table({"key": pa.chunked_array(chunks, kind)})
        return tables

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned. Call it only on a new table."""
        assert len(self) == 0
        count = tables["groups"].num_rows
        keys = [as_one_array(tables[f"key{i}"].column(0)) for i in range(len(self._types))]
        codes = self._index.codes_of_rows(keys, count)
        assert len(self) == count, (len(self), count)
        assert count == 0 or int(codes[-1]) == count - 1, codes
