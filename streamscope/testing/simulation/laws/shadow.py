"""The state of a job manager that would take over now, for the laws about durable data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from jobmanager.manager import takeover
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import LOG_CODEC
from jobmanager.state.recovery import plan_restarts
from jobmanager.state.topology import Topology
from jobmanager.storage.notice_log import FENCE, folder_of, parts_in_force
from rstream import MemoryBlobs
from rstream.store.segment_names import NAME
from streamscope.testing.simulation.storage import root_of
from streamscope.testing.simulation.workload import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobmanager.state.tracker import CheckpointRef
    from rvertex.vertex.spec import VertexSpec
    from streamscope.testing.simulation.workload import Workload

VerticesOn: TypeAlias = "Callable[[dict[str, bytes]], Sequence[VertexSpec]]"
SEGMENT = re.compile(rf"(.*/){NAME}")
HOME = root_of(ROOT)
NOTICES = f"{HOME}notices/"


class Shadow:
    """A job manager that has recalled all durable notices and has no host.

    It reads notices like a successor, but deletes no files after the last one. After each notice,
    its state is compared with the store.
    """

    def __init__(self, workload: Workload, vertices_on: VerticesOn) -> None:
        """``vertices_on``: for a store's blobs, the vertices of the plan that a successor reads."""
        self.topology = Topology(workload.vertices)
        self._vertices_on, self._config = vertices_on, workload.config
        self.core = JobManager(self.topology, workload.config)
        self.chosen: dict[str, CheckpointRef] = {}
        self._fence = ""
        #: Whether notices became durable since the last call of ``catch_up``.
        self.is_behind = True
        self._next_seqs: dict[str, int] = {}

    def catch_up(self, blobs: dict[str, bytes]) -> None:
        """Recall the valid notices that became durable since the last call."""
        if not self.is_behind:
            return
        self.is_behind = False
        newest = max((n for n in blobs if n.startswith(NOTICES) and n.endswith(FENCE)), default="")
        if newest != self._fence:  # another job manager has started; other log files are valid now
            self._fence = newest
            self.topology = Topology(self._vertices_on(blobs))
            self.core = JobManager(self.topology, self._config)
            self._next_seqs = {}
        for part in parts_in_force(MemoryBlobs(blobs, HOME)):
            self._replay(blobs, f"{HOME}{folder_of(part.epoch)}/", part.begin, part.end)

    def _replay(self, blobs: dict[str, bytes], folder: str, begin: int, end: int) -> None:
        for name in sorted(n for n in blobs if n.startswith(folder)):
            match, next_seq = SEGMENT.fullmatch(name), max(self._next_seqs.get(folder, 0), begin)
            if match is None or int(match[3]) <= next_seq or int(match[2]) >= end:
                continue
            table = read_table(blobs[name])
            wanted = slice(next_seq - int(match[2]), end - int(match[2]))
            for data in table.column("notice").to_pylist()[wanted]:
                takeover.recall(self.core.job, LOG_CODEC.decode(data))
            self._next_seqs[folder] = min(int(match[3]), end)

    def restarts(self) -> dict[str, CheckpointRef]:
        """Return the checkpoint from which each vertex would restart if all processes died now."""
        lost = [v for v in self.core.vertices if not self.core.job.is_retired(v)]
        self.chosen = plan_restarts(lost, self.topology, self.core.tracker, self)
        return self.chosen

    def known(self) -> list[tuple[str, CheckpointRef]]:
        """Return the checkpoints of all vertices that may be restarted."""
        rows = [v for v in self.core.vertices if not self.core.job.is_retired(v)]
        return [(v, ref) for v in rows for ref in self.core.tracker.refs(v)]

    def consumed(self, vertex: str) -> tuple[int, ...]:
        return self.core.job.consumed(vertex)

    def is_serving(self, vertex: str) -> bool:
        return False

    def is_retired(self, vertex: str) -> bool:
        return self.core.job.is_retired(vertex)

    def released(self, stream: str) -> int:
        return 0

    @property
    def collected(self) -> dict[str, int]:
        return self.core.job.collected

    @property
    def lost(self) -> dict[str, int]:
        return {}


def read_table(data: bytes) -> pa.Table:
    """Read a Parquet file without other threads."""
    file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
    return file.read(use_threads=False)
