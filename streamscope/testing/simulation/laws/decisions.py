"""Laws of single decisions: how the job manager may respond to one notice.

Production code recovers from the mistakes that these laws forbid: a reader that finds no items
requests them again, a host that was used twice is replaced. Such a mistake only costs time, so no
law about the outcome would detect it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.state.messages import DeleteFiles, TwinLevel
from rvertex.messages import CheckpointTaken, HostReady, ItemsLost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jobmanager.manager.manager import JobManager
    from jobmanager.state.messages import Instruction, Notice
    from jobmanager.state.records import InstanceState, Join, VertexState

Broken = tuple[str, str]


class Decision:
    """The part of the job's state before a notice that these laws need."""

    def __init__(self, core: JobManager, notice: Notice) -> None:
        self._core, self._notice = core, notice
        self._newest = core.job.epoch
        self._is_refused = self._is_second_attempt()
        self._is_early = self._is_untried()
        self._elder = self._elder_of_twins()
        self._answered = self._joins_answered()

    def broken(self, out: Iterable[Instruction]) -> Iterator[Broken]:
        """Yield the laws that the decision breaks, each with details."""
        notice = self._notice
        if isinstance(notice, HostReady) and self._is_refused:
            host = self._core.job.current(notice.host)
            if host is not None and host.state == "ready":
                yield "second attempts do not start", notice.host
        if isinstance(notice, ItemsLost) and self._is_early:
            writer = self._core.vertices[self._core.topology.writer(notice.stream)]
            if any(i.epoch > self._newest for i in writer.instances):
                yield "readers try all writers before one restarts", repr(notice)[:200]
        if isinstance(notice, TwinLevel) and self._elder is not None:
            yield from self._items_of_retired_remain(self._elder)
        for vertex, join in self._answered:
            waits = any(j is join for j in vertex.joins)
            begun = any(i.slot == join.slot and i.epoch > self._newest for i in vertex.instances)
            if not waits and not begun and self._core.job.is_open:
                yield (
                    "a requested checkpoint starts the newcomers",
                    f"{vertex.shape.id} on slot {join.slot}",
                )
        for vertex, new in self._core.job.instances():
            if new.epoch > self._newest:
                yield from self._memory_of(vertex, new)
        gone = {name for i in out if isinstance(i, DeleteFiles) for name in i.names}
        for vertex, instance in self._core.job.instances() if gone else ():
            if instance.state in ("waiting", "starting") and instance.checkpoint in gone:
                yield "checkpoints to load are kept", f"{vertex.shape.id} {instance.checkpoint}"

    def _is_second_attempt(self) -> bool:
        notice = self._notice
        if not isinstance(notice, HostReady) or notice.attempt == 0:
            return False
        host = self._core.job.current(notice.host)
        return host is not None and host.state == "starting"

    def _is_untried(self) -> bool:
        notice = self._notice
        if not isinstance(notice, ItemsLost):
            return False
        if self._core.job.instance(notice.vertex, notice.epoch) is None:
            return False
        writer = self._core.vertices[self._core.topology.writer(notice.stream)]
        return any(i.epoch not in notice.writer_epochs for i in writer.instances)

    def _joins_answered(self) -> list[tuple[VertexState, Join]]:
        """Return the joins that wait for the checkpoint that the notice announces."""
        notice, job = self._notice, self._core.job
        if not isinstance(notice, CheckpointTaken) or not notice.asked:
            return []
        if job.instance(notice.vertex, notice.epoch) is None:
            return []
        vertex = job.vertices[notice.vertex]
        return [(vertex, join) for join in vertex.joins if join.source == notice.epoch]

    def _elder_of_twins(self) -> InstanceState | None:
        notice = self._notice
        if not isinstance(notice, TwinLevel):
            return None
        return self._core.job.instance(notice.vertex, notice.old_epoch)

    def _items_of_retired_remain(self, elder: InstanceState) -> Iterator[Broken]:
        """Law: items that readers need from a retired instance are in the memory of another."""
        job, notice = self._core.job, self._notice
        assert isinstance(notice, TwinLevel)
        vertex = job.vertices[notice.vertex]
        if elder in vertex.instances or not vertex.instances:
            return
        for stream in vertex.shape.outputs:
            if stream.is_durable or stream.reader is None or job.is_retired(stream.reader.vertex):
                continue
            needed = job.held(stream.reader.vertex, stream.reader.index)
            there = min(i.released.get(stream.id, 0) for i in vertex.instances)
            if there > max(needed, elder.released.get(stream.id, 0)):
                detail = f"{stream.id} is needed from seq {needed} and exists from seq {there}"
                yield "no memory that readers need is retired", detail

    def _memory_of(self, vertex: VertexState, new: InstanceState) -> Iterator[Broken]:
        """Law: a new instance's memory begins with the first item after its checkpoint."""
        known = {r.name: r for r in self._core.tracker.refs(vertex.shape.id)}
        ref = known.get(new.checkpoint)
        for stream in vertex.shape.outputs if ref is not None else ():
            first = ref.outputs[stream.writer.index] if ref is not None else 0
            if not stream.is_durable and new.released.get(stream.id, 0) < first:
                detail = f"{stream.id}: {new.released.get(stream.id)}, begins at {first}"
                yield "memory begins with the checkpoint", detail
