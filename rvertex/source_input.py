"""The input side of a source vertex: rows of a partition in, settled runs out.

It gives :class:`rvertex.reorder.Reorder` the face that MERGE has, so that a vertex does not care
which of the two feeds it. Rows are numbered from 0; a row counts as consumed when it was offered,
because the reorder buffer is state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvertex.reorder import Reorder
from rvertex.types import Position

if TYPE_CHECKING:
    import pyarrow as pa

    from rstream.batch import Items
    from rvertex.operators.protocol import OperatorState
    from rvertex.run import Run
    from rvertex.sources.spec import SourcePartition


class SourceInput:
    """One source partition as the only input of a vertex."""

    def __init__(self, partition: SourcePartition) -> None:
        spec = partition.spec
        self.payload: pa.Schema = spec.schema
        self._reorder = Reorder(
            spec.schema,
            delay_us=spec.delay_us,
            late=spec.late,
            cti_every_us=spec.cti_every_us,
        )
        self._stop_row: int | None = None

    @property
    def consumed(self) -> tuple[int, ...]:
        """Next row to consume."""
        return (self._reorder.consumed,)

    @property
    def read_positions(self) -> tuple[int, ...]:
        """Next row to offer: the same, nothing is read ahead."""
        return self.consumed

    @property
    def late_events(self) -> int:
        """Late rows so far, dropped or adjusted."""
        return self._reorder.late_dropped + self._reorder.late_adjusted

    @property
    def max_vs(self) -> int:
        """Greatest ``vs`` offered so far."""
        return self._reorder.max_vs

    def wants(self, channel: int) -> bool:
        """A source is always ready for more rows, unless it has replayed what it should."""
        assert channel == 0, channel
        return self._reorder.consumed != self._stop_row

    def offer(self, channel: int, items: Items) -> None:
        """The next rows of the partition, in arrival order."""
        assert channel == 0, channel
        assert self._stop_row is None or items.next_seq <= self._stop_row, (items, self._stop_row)
        self._reorder.offer(items.first_seq, items.batch)

    def end(self) -> None:
        """There are no more rows."""
        self._reorder.end()

    def release(self) -> list[Run] | None:
        """What is settled, as the run of the only port."""
        run = self._reorder.release()
        return None if run is None else [run]

    def snapshot(self) -> OperatorState:
        """The reorder buffer and its frontier."""
        return self._reorder.snapshot()

    def load(self, state: OperatorState, consumed: tuple[int, ...]) -> None:
        """Continue from a snapshot."""
        self._reorder.load(state)
        assert self.consumed == consumed, (self.consumed, consumed)

    @property
    def position(self) -> Position:
        """Where it stands after a release: the next row to read."""
        reorder = self._reorder
        return Position(self.consumed, max(reorder.max_vs, reorder.last_cti), reorder.last_cti)

    def scalars(self) -> OperatorState:
        """The state at :attr:`position` but for the rows that wait, which a replay reads again."""
        return self._reorder.scalars()

    def replay(self, state: OperatorState, inputs: tuple[int, ...], until: tuple[int, ...]) -> None:
        """Continue at ``inputs`` and take exactly the rows before ``until``."""
        self.load(state, inputs)
        (self._stop_row,) = until

    @property
    def stops(self) -> tuple[int | None, ...]:
        """The row at which a replay ends."""
        return (self._stop_row,)

    def resume(self) -> None:
        """The replay has ended: go on without a bound."""
        self._stop_row = None
