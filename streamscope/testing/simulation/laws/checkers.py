"""The laws, one small checker each. They check durable data only.

Content is read with plain pyarrow (tables by the codec), and ranges are computed by brute force.
Only ``recoverable`` calls production code: it computes what a job manager that takes over now would
do, and checks that against the store.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.errors import BrokenFileError, NoCheckpointError
from rstream.format.codec import SegmentFile
from rstream.items.batch import SEQ
from rstream.store.memory_blobs import MemoryBlobs
from rstream.store.seals import sealed_names
from rstream.store.segment_names import parse_segment_name
from rvertex.checkpoint.codec import load_checkpoint
from rvertex.errors import CorruptCheckpointError
from streamscope.testing.simulation.laws.shadow import HOME, NOTICES, SEGMENT, Shadow, read_table
from streamscope.testing.simulation.storage import root_of
from streamscope.testing.simulation.workload import hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.state.topology import StreamShape
    from rvertex.vertex.spec import VertexSpec
    from streamscope.testing.simulation.scheduler import Scheduler
    from streamscope.testing.simulation.storage import Disk
    from streamscope.testing.simulation.workload import Workload

MARK = "_low_water_mark"
#: Marker file with the first retained item of an output whose delivered items are deleted.
BEGINS = re.compile(r"(.*/)_begins-(\d+)")
CHECKPOINTS, INTAKE = f"{HOME}checkpoints/", f"{HOME}intake/"
Position = tuple[int, ...]


class Checkers:
    """Checks the laws at every put and delete of the store."""

    def __init__(self, scheduler: Scheduler, workload: Workload) -> None:
        self._world = scheduler
        self.workload = workload
        self.blobs: dict[str, bytes] = {}
        self._folders = {
            root_of(uri): stream
            for vertex in workload.vertices
            for edge in vertex.outputs
            for stream, uri in zip(edge.streams, edge.uris, strict=True)
        }
        self._volatile = {
            root_of(uri)
            for vertex in workload.vertices
            for edge in vertex.outputs
            if edge.durability == "volatile"
            for uri in edge.uris
        }
        self._roots = {stream: root for root, stream in self._folders.items()}
        self._schemas = {str(v.id): v.state_schema for v in workload.vertices}
        self._live = {
            str(v.id) for v in workload.vertices if v.source and v.source.spec.live is not None
        }
        #: Set once there is one.
        self.disk: Disk | None = None
        self.durable: dict[tuple[str, int], int] = {}
        self._marks: dict[str, int] = {}
        self._positions: dict[str, dict[str, Position]] = {}
        self._parts: set[str] = set()
        self._shadow = Shadow(workload, self.vertices_on)
        #: The first file deleted since the last look; empty: none.
        self._deleted = ""
        #: For each path: the bytes of a segment, and the hashes of its items.
        self._contents: dict[str, tuple[bytes, list[int]]] = {}
        #: By root of a stream: the ranges of its segments during one call of ``recoverable``.
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        self._begins: dict[str, int] = {}
        self.segments = self.checkpoints = self.deletions = 0
        #: Whether the job has ended; then files that only recovery needs may be deleted.
        self.is_over = False

    def on_put(self, path: str, data: bytes) -> None:
        """Check a file that became durable."""
        self.look()
        self._shadow.is_behind |= path.startswith(NOTICES)
        match = SEGMENT.fullmatch(path)
        if path.endswith(MARK):
            self.marks_are_monotone(path, int(data))
        elif path.startswith(CHECKPOINTS) and "/parts/" in path:
            self.parts_are_put_once(path)
        elif path.startswith(CHECKPOINTS):
            self.checkpoints += 1
            self.snapshots_are_ordered(path, data)
        elif match is not None and match[1] in self._folders:
            self.segments += 1
            stream, lo = self._folders[match[1]], int(match[2])
            self._world.met["segment spilled"] += match[1] in self._volatile
            self._world.met["segment merged"] += any(
                n.startswith(match[1]) and _is_within(n, match) for n in self.blobs
            )
            content = self._hashes(path, data)
            if len(content) != int(match[3]) - lo:
                self._world.violate("no gap", f"{path} holds {len(content)} items")
            self.no_conflict(stream, lo, content)
            self.is_right(stream, lo, content)

    def on_delete(self, path: str) -> None:
        """Note a deleted file."""
        if self.is_over:
            return
        if SEGMENT.fullmatch(path) or path.startswith(CHECKPOINTS):
            self.deletions += 1
            self._deleted = self._deleted or path

    # ---- overridden for jobs that read logs or deliver

    def vertices_on(self, blobs: dict[str, bytes]) -> Sequence[VertexSpec]:
        """Return the vertices in the plan that a successor would read from the store."""
        del blobs
        return self.workload.vertices

    def is_right(self, stream: str, lo: int, content: list[int]) -> None:
        """Compare durable items with the expected items."""
        self.as_uninterrupted(stream, lo, content)

    def delivered(self) -> dict[str, int]:
        """Return, for each output stream, the least position of its deliveries."""
        return {}

    def end_of(self, stream: str) -> int:
        """Return the end of a stream whose writer has finished."""
        return len(self.workload.expected.get(stream, []))

    def has_ended(self) -> None:
        """Called when the job has ended and no law is broken."""

    def beginning(self, root: str) -> int:
        """Return the first item of an output that must exist."""
        del root
        return 0

    # ---- the laws

    def look(self) -> None:
        """Check after deletions; called between two steps and before each put."""
        if self._deleted:
            when, self._deleted = f"after the deletion of {self._deleted}", ""
            self.recoverable(when)

    def marks_are_monotone(self, path: str, mark: int) -> None:
        """Law: a low-water mark never decreases."""
        if mark < self._marks.get(path, 0):
            self._world.violate(
                "marks are monotone", f"{path} went from {self._marks[path]} to {mark}"
            )
        self._marks[path] = mark

    def parts_are_put_once(self, path: str) -> None:
        """Law: the name of a deleted part is never used again."""
        if path in self._parts:
            self._world.violate("parts are put once", path)
        self._parts.add(path)

    def snapshots_are_ordered(self, path: str, data: bytes) -> None:
        """Law: snapshots of a vertex are totally ordered, and a name is used for one snapshot."""
        vertex = path.removeprefix(CHECKPOINTS).split("/")[0]
        try:
            snapshot = load_checkpoint(
                data,
                name=path,
                state_schema=self._schemas[vertex],
                fetch=lambda parts: [self.blobs.get(HOME + part) for part in parts],
            ).snapshot
        except CorruptCheckpointError:  # a replaced instance's, without parts
            return
        # Instances of a live source may read its partitions in different orders.
        inputs = () if vertex in self._live else snapshot.inputs
        position = (*inputs, *snapshot.outputs)
        positions = self._positions.setdefault(vertex, {})
        if positions.setdefault(path, position) != position:
            self._world.violate(
                "snapshots are ordered", f"{path}: {positions[path]}, then {position}"
            )
        for name, other in positions.items():
            rows = list(zip(position, other, strict=True))
            if any(a < b for a, b in rows) and any(a > b for a, b in rows):
                self._world.violate("snapshots are ordered", f"{path} against {name}: {rows}")

    def no_conflict(self, stream: str, lo: int, content: list[int]) -> None:
        """Law: a seq has the same content in all segments that ever existed."""
        for seq, value in enumerate(content, lo):
            if self.durable.setdefault((stream, seq), value) != value:
                self._world.violate("no conflict", f"{stream} seq {seq}")
                return

    def as_uninterrupted(self, stream: str, lo: int, content: list[int]) -> None:
        """Law: durable items equal the items of the uninterrupted run at the same seqs."""
        expected = self.workload.expected.get(stream, [])[lo : lo + len(content)]
        if content != expected:
            self._world.violate("as uninterrupted", f"{stream} [{lo}, {lo + len(content)})")

    def recoverable(self, when: str) -> None:
        """Law: no needed data is deleted. If all processes died now, the job could recover."""
        try:
            self._shadow.catch_up(self.blobs)
        except BrokenFileError as error:
            self._world.violate("the log has no hole", f"{when}: {error}")
            return
        self._ranges = self._all_ranges()
        self._known_checkpoints_exist(when)
        self._deliveries_can_continue(when)
        try:
            restarts = self._shadow.restarts()
        except NoCheckpointError as error:
            self._world.violate("nothing live collected", f"{when}: {error}")
            return
        for vertex, ref in restarts.items():
            if ref.name and HOME + ref.name not in self.blobs:
                self._world.violate("nothing live collected", f"{when}: {ref.name} is needed")
            for part in ref.parts:
                # Blobs of entries are named only to be deleted, and never read. A successor may
                # name blobs that are being deleted because another job manager named them.
                if HOME + part not in self.blobs and not (HOME + part).startswith(INTAKE):
                    detail = f"{when}: {part} of {ref.name} is needed"
                    self._world.violate("nothing live collected", detail)
            for k, stream in enumerate(self._shadow.topology.vertices[vertex].inputs):
                self._input_exists(stream, ref.reads[k], when)
            for k, stream in enumerate(self._shadow.topology.vertices[vertex].outputs):
                lo, hi = self._durable(stream.id, ref.outputs[k])
                if stream.is_durable and hi < ref.outputs[k]:
                    detail = f"{when}: {stream.id} is durable in [{lo}, {hi}), {vertex} needs {ref}"
                    self._world.violate("nothing live collected", detail)

    def _all_ranges(self) -> dict[str, list[tuple[int, int]]]:
        """Return the durable ranges of each stream, sorted; also notes where outputs begin."""
        found: dict[str, list[tuple[int, int]]] = {}
        self._begins.clear()
        for name, data in self.blobs.items():
            # the file may be empty after a power failure
            if data and (noted := BEGINS.fullmatch(name)):
                self._begins[noted[1]] = max(self._begins.get(noted[1], 0), int(noted[2]))
            if name.endswith(".parquet") and (match := SEGMENT.fullmatch(name)):
                found.setdefault(match[1], []).append((int(match[2]), int(match[3])))
        return {root: sorted(ranges) for root, ranges in found.items()}

    def _known_checkpoints_exist(self, when: str) -> None:
        """Law: a successor keeps no deleted checkpoint, even one that is not needed now."""
        for vertex, ref in self._shadow.known():
            if ref.name and HOME + ref.name not in self.blobs:
                self._world.violate(
                    "a successor uses no deleted checkpoint", f"{when}: {vertex} {ref.name}"
                )

    def _deliveries_can_continue(self, when: str) -> None:
        """Law: the output exists from the position of each delivery."""
        for stream, seq in self.delivered().items():
            start, _ = self._durable(stream, seq)
            if start > seq:
                detail = f"{when}: {stream} begins at {start}, a delivery is at {seq}"
                self._world.violate("nothing live collected", detail)

    def _input_exists(self, stream: StreamShape, seq: int, when: str) -> None:
        """Law: a stream's items exist from ``seq`` to the seq at which its writer continues."""
        writer = self._shadow.chosen.get(stream.writer.vertex)
        end = writer.outputs[stream.writer.index] if writer is not None else self.end_of(stream.id)
        if seq >= end:
            return
        hi = self._durable(stream.id, seq)[1] if stream.is_durable else seq
        if hi < end:
            detail = f"{when}: {stream.id} [{seq}, {end}) is needed, it is there up to {hi}"
            self._world.violate("nothing live collected", detail)

    def _durable(self, stream: str, seq: int) -> tuple[int, int]:
        """Return the durable range that contains ``seq``."""
        root = self._roots[stream]
        # the mark may be empty after a power failure
        mark = int(self.blobs.get(root + MARK) or b"0")
        mark = max(mark, self._begins.get(root, 0))
        ranges = [(lo, hi) for lo, hi in self._ranges.get(root, ()) if hi > mark]
        start = max(mark, ranges[0][0]) if ranges else mark
        if seq < start:
            return start, seq
        end = start
        for lo, hi in ranges:
            if lo > end:
                break
            end = max(end, hi)
        return start, end

    def output_is_complete(self) -> None:
        """Law: the sinks have each item of the uninterrupted run exactly once."""
        for stream, uri in self.workload.sinks:
            root = root_of(uri)
            found: list[int] = []
            kept = self.beginning(root)
            expected = self.workload.expected.get(stream, [])
            sealed = sealed_names(MemoryBlobs(self.blobs, root)) or ()
            for name in sorted(n for n in self.blobs if n.startswith(root)):
                match = SEGMENT.fullmatch(name)
                if match is None or name.removeprefix(root) not in sealed:
                    continue  # a zombie wrote this file after the output was complete
                if not found and int(match[2]) <= kept:
                    found = expected[: int(match[2])]
                if int(match[2]) != len(found):
                    law = "no gap" if int(match[2]) > len(found) else "no duplicate output"
                    self._world.violate(law, f"{name} follows seq {len(found)}")
                    return
                found += self._hashes(name, self.blobs[name])
            if found != expected:
                self._world.violate("output", f"{stream}: {len(found)} items of {len(expected)}")

    def _hashes(self, path: str, data: bytes) -> list[int]:
        """Content hashes of a segment's items; each segment is read only once."""
        known = self._contents.get(path)
        if known is None or known[0] != data:
            known = self._contents[path] = data, read_hashes(path, data)
        return known[1]


def _is_within(name: str, match: re.Match[str]) -> bool:
    """Return whether a file is a segment within the matched one."""
    other = SEGMENT.fullmatch(name)
    return other is not None and int(other[2]) >= int(match[2]) and int(other[3]) < int(match[3])


def read_hashes(path: str, data: bytes) -> list[int]:
    """Content hashes of a segment's items. Only the codec can read the CTIs of a clean table."""
    table = read_table(data)
    if SEQ in table.column_names:
        return [h for batch in table.drop_columns([SEQ]).to_batches() for h in hashes(batch)]
    seqs = parse_segment_name(path.rpartition("/")[2])
    assert seqs is not None, path
    file = SegmentFile(pa.BufferReader(data), path, seqs, columns=None)
    found: list[int] = []
    while (seq := seqs.lo + len(found)) < seqs.hi:
        found += hashes(file.read_group(seq, verify=True).batch)
    return found
