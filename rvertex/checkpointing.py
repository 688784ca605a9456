"""When an instance takes a checkpoint, and how it comes to be usable.

Invariants: (1) at most one is under way; (2) one is announced only when it is stored and the
outputs of durable streams are durable up to it; (3) its name is never used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rvertex.step import VertexRunner
    from rvertex.types import Snapshot


class Checkpointer:
    """Takes a snapshot when one is due, follows its upload, announces it when it is usable."""

    def __init__(self, runner: VertexRunner) -> None:
        self._runner = runner
        self._taken_s = runner.now_s()
        self._count = 0
        self._last_positions = runner.vertex.consumed
        self._pending: tuple[str, Snapshot, Future[int]] | None = None

    def turn(self) -> None:
        """Start a checkpoint if one is due, or bring the pending one to its end."""
        if self._pending is not None:
            self._settle(*self._pending)
        elif self._is_due():
            self._start()

    def _is_due(self) -> bool:
        runner = self._runner
        if runner.now_s() - self._taken_s < runner.checkpoint_interval_s:
            return False
        return runner.vertex.consumed != self._last_positions

    def _start(self) -> None:
        snapshot = self._runner.vertex.get_snapshot()
        self._taken_s = self._runner.now_s()
        self._count += 1
        name = checkpoint_name(self._runner.spec.id, self._runner.epoch, self._count)
        self._last_positions = snapshot.inputs
        self._pending = (name, snapshot, self._runner.upload(name, snapshot))

    def _settle(self, name: str, snapshot: Snapshot, upload: Future[int]) -> None:
        if not upload.done() or not self._runner.is_durable(snapshot.outputs):
            return
        self._pending = None
        self._runner.announce(name, snapshot, upload.result())


def checkpoint_name(vertex: str, epoch: int, count: int) -> str:
    """Where a checkpoint lies below the job's root."""
    return f"checkpoints/{vertex}/{epoch:08d}-{count:06d}.ckpt"
