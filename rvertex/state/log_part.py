"""A part of a log of rows: blocks, which rows are current, and an index of their keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.hashing import hash_rows
from rstream.types import INF_TIME
from rvertex.state.hash_index import HashIndex, by_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rvertex.state.memory import Holder


@dataclass(slots=True)
class LogPart:
    """Blocks of rows, with masks of the current and the held rows (the masks change in place)."""

    blocks: list[pa.RecordBatch]
    current: np.ndarray
    held: np.ndarray
    #: The column of expiry times, and the greatest expiry time if it is known.
    until: str | None = None
    known_last: int | None = None
    is_stored: bool = False
    index: HashIndex | None = None
    last: int = field(init=False, default=INF_TIME)
    #: The number of the first row of each block.
    firsts: np.ndarray = field(init=False)
    #: The position of the first row of each block, and the end of the last.
    starts: np.ndarray = field(init=False)
    #: The number of current rows that no reader holds.
    free: int = field(init=False)

    def __post_init__(self) -> None:
        self.firsts = np.array([block.column(0)[0].as_py() for block in self.blocks], np.int64)
        self.starts = np.cumsum([0, *(block.num_rows for block in self.blocks)])
        if self.known_last is not None:
            self.last = self.known_last
        elif self.until is not None:
            self.last = max(int(times.max()) for times in self.times())
        self.count()

    @property
    def rows(self) -> int:
        return len(self.current)

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks)

    def move(self, blocks: list[pa.RecordBatch]) -> None:
        """Replace the blocks by equal rows on scratch; the next lookup builds the index again."""
        self.blocks, self.index, self.is_stored = blocks, None, True
        self.__post_init__()

    def times(self) -> list[np.ndarray]:
        """Return the expiry times of each block."""
        return [block.column(self.until).to_numpy() for block in self.blocks]

    def count(self) -> None:
        """Count the free rows after a mask was changed."""
        self.free = int((self.current & ~self.held).sum())

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        """The positions of the rows with these sorted numbers; numbers without a row are skipped.

        No number may be below the part's first number.
        """
        at = self.firsts.searchsorted(numbers, side="right") - 1
        positions = []
        for k, local in by_block(at):
            known = self.blocks[k].column(0).to_numpy()
            inside = known.searchsorted(numbers[local])
            is_row = known.take(inside, mode="clip") == numbers[local]
            positions.append(self.starts[k] + inside[is_row])
        return np.concatenate(positions)

    def take(self, at: np.ndarray, holder: Holder) -> pa.RecordBatch:
        """Return the rows at increasing positions."""
        block = self.starts.searchsorted(at, side="right") - 1
        parts = [
            self.blocks[k].take(pa.array(at[local] - self.starts[k]))
            for k, local in holder.read_once(by_block(block))
        ]
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def numbers(self, at: np.ndarray) -> np.ndarray:
        """Return the numbers of the rows at increasing positions."""
        block = self.starts.searchsorted(at, side="right") - 1
        parts = [
            self.blocks[k].column(0).to_numpy()[at[local] - self.starts[k]]
            for k, local in by_block(block)
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def masked(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """Yield each block with these columns, and which of its rows are current."""
        for block, lo, hi in zip(self.blocks, self.starts[:-1], self.starts[1:], strict=True):
            yield block.select(columns), self.current[lo:hi]

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the current rows, block by block."""
        for block, mask in self.masked(self.blocks[0].schema.names):
            kept = block if mask.all() else block.filter(pa.array(mask))
            if kept.num_rows:
                yield kept

    def hashes(self, keys: Sequence[str]) -> np.ndarray:
        """Return the hashes of all rows by their keys, uint64[rows]."""
        each = [hash_rows([block.column(name) for name in keys]) for block in self.blocks]
        return np.concatenate(each)
