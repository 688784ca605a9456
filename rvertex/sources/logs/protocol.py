"""What a live log gives to a source vertex: rows with positions, and where the log says it ends.

Invariants: (1) positions of a partition grow, and may have gaps; (2) a log that is read again from
a position gives the same rows with the same positions; (3) only the log says where it ends. Source:
ADR 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class LogRows:
    """The next rows of one log partition.

    ``batch`` has the columns ``_vs, _ve`` and the payload, in the order of the log; ``positions``
    (int64) says where each row stands. The partition goes on at ``next_position``, which lies past
    all positions: what lies between without a row is a gap (or a row that could not be decoded).
    ``batch`` may be empty.
    """

    positions: np.ndarray
    batch: pa.RecordBatch
    next_position: int
    #: Rows of that range that could not be decoded, with the columns of :func:`dead_payload`.
    dead: pa.RecordBatch | None = None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """At ``seen_s`` (monotonic clock) the log said that the partition ends at ``position``."""

    position: int
    seen_s: float


class LogReader(Protocol):
    """Reads the partitions ``0..k-1`` of one source vertex; fetches in the background.

    The vertex's host calls it from one thread. No call but ``close`` waits.
    """

    def read(self, partition: int, rows_max: int) -> LogRows | None:
        """The next 1 to ``rows_max`` rows, or a gap; None if there is nothing yet.

        Raises:
            SourceRowError: a row could not be decoded, and the source's ``on_error`` is "fail".
            LostInputError: the log no longer has the rows at the reader's position.
            StreamEngineError: the log answers in a way that waiting does not mend.
        """
        ...

    def end(self, partition: int) -> LogEnd | None:
        """What the log last said of its end, if all rows before it were given by ``read``."""
        ...

    def skip_to(self, partition: int, position: int) -> None:
        """Go on at ``position``; what was fetched before it is dropped."""
        ...

    def lag(self, partition: int) -> int | None:
        """Rows between what ``read`` gave and the log's end, as far as known."""
        ...

    @property
    def waiting(self) -> str:
        """What the reader waits for besides rows, such as a broker that is away; "" if nothing."""
        ...

    def close(self) -> None:
        """Stop fetching; idempotent."""
        ...
