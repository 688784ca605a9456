"""Keys with dense codes that can be saved by reference, and that forget keys nobody needs.

Codes are given by first appearance (:class:`~rvertex.keys.key_index.KeyIndex`). Callers keep arrays
by code beside the table and must select from them what :meth:`KeyTable.keep` keeps.

Invariants: (1) ``restore(save())`` gives every key its code again; (2) ``save`` costs time in the
keys that are new since the last one; (3) forgetting costs amortised time per key that came.
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
    """Keys over columns of ``types``."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = tuple(types)
        self._index = KeyIndex(self._types)
        #: Key columns of the keys, in pieces as snapshots found them.
        self._saved: list[list[pa.Array]] = []
        self._kept = 0

    def __len__(self) -> int:
        return len(self._index)

    def codes(self, columns: Sequence[pa.Array], rows: int) -> np.ndarray:
        """int64[rows], new keys being added."""
        return self._index.codes_of_rows(columns, rows)

    def find(self, columns: Sequence[pa.Array], rows: int) -> np.ndarray:
        """int64[rows], -1 for keys that are not there."""
        return self._index.codes_of_rows(columns, rows, insert=False)

    def keys(self, codes: np.ndarray | None = None) -> list[pa.Array]:
        """The key columns of ``codes``, or of all in code order."""
        return self._index.keys(codes)

    def is_crowded(self, beside: int = 0) -> bool:
        """Whether so many keys came since the last :meth:`keep` that looking at all is paid for.

        ``beside``: rows that the caller would have to look at as well.
        """
        return len(self) > 2 * self._kept + _KEYS_MIN + beside

    def keep(self, codes: np.ndarray) -> None:
        """Forget all keys but ``codes`` (increasing); key ``codes[i]`` gets code i."""
        columns = self._index.keys(codes)
        self._index = KeyIndex(self._types)
        self._saved, self._kept = [], len(codes)
        again = self._index.codes_of_rows(columns, len(codes))
        assert len(again) == 0 or int(again[-1]) == len(codes) - 1, again

    def save(self) -> dict[str, pa.Table]:
        """The keys in code order, by reference, each column a table of its own."""
        saved = sum(len(keys[0]) for keys in self._saved) if self._types else 0
        if self._types and len(self) > saved:
            self._saved.append(self._index.keys(np.arange(saved, len(self))))
        tables = {"groups": pa.table({"code": pa.nulls(len(self))})}
        for i, kind in enumerate(self._types):
            chunks = [keys[i] for keys in self._saved]
            tables[f"key{i}"] = pa.table({"key": pa.chunked_array(chunks, kind)})
        return tables

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over what ``save`` returned; only called on a new table."""
        assert len(self) == 0
        count = tables["groups"].num_rows
        keys = [as_one_array(tables[f"key{i}"].column(0)) for i in range(len(self._types))]
        codes = self._index.codes_of_rows(keys, count)
        assert len(self) == count, (len(self), count)
        assert count == 0 or int(codes[-1]) == count - 1, codes
