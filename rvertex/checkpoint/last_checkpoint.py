"""The last checkpoint of an instance when its job stops, at a consistent cut of the whole job.

After the request a source reads no more rows. Any other vertex first reads its channels up to the
ends that their writers had at their own last checkpoints. The checkpoint then contains the whole
state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.vertex.rvertex import RVertex


class LastCheckpoint:
    """The last checkpoint of one instance; used by the host's thread."""

    def __init__(self, vertex: RVertex) -> None:
        self._vertex, self._is_source = vertex, vertex.spec.source is not None
        self._ends: tuple[int, ...] | None = None
        self._is_due = False

    def request(self, ends: tuple[int, ...]) -> None:
        """Stop at the cut. ``ends``: where each channel ends in the cut."""
        self._ends, self._is_due = ends, True

    @property
    def is_requested(self) -> bool:
        """Whether the job stops."""
        return self._ends is not None

    def poll(self, take: Callable[[], None]) -> bool:
        """Take the checkpoint once all input before the cut is read and executed.

        Returns whether the vertex is a source at the cut, which must not read more rows.
        """
        if self._ends is None or self._vertex.is_replaying:
            return False
        at = enumerate(zip(self._vertex.read_positions, self._ends, strict=False))
        if any(seq < end and self._vertex.wants(k) for k, (seq, end) in at):
            return False
        if self._is_due:
            self._is_due = False
            take()
        return self._is_source
