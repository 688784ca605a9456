"""The laws of retention: items that a delivery needs stay; deleted items leave their digest.

The job knows the deliveries of the query. It knows a delivery of another process once the position
of that is in the root. An earlier check may delete items that it needs; the delivery must then fail
with an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from rstream.items.digest import StreamDigest
from streamscope.testing.simulation.storage import root_of
from tests.sim.workload import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rstream import Items
    from rvertex.messages import Mark
    from streamscope.testing.simulation.scheduler import Scheduler
    from tests.sim.workload import Workload

Key = tuple[str, int]
#: The error of a delivery whose next items were deleted.
IS_GONE = "its retention keeps it from seq"
AT = re.compile(rf"{root_of(ROOT)}deliveries/([^/]+)/(\d+)/at")
BEGINS = re.compile(r"(.*/)_begins-(\d{20})")


class RetentionLaws:
    """Checks every deletion by the job, and all data that become durable."""

    def __init__(
        self, world: Scheduler, workload: Workload, needs: Callable[[], Mapping[Key, int]]
    ) -> None:
        """``needs``: the first undelivered item per partition of a delivery."""
        self._world, self._workload, self._needs = world, workload, needs
        self._streams = {root_of(uri): stream for stream, uri in workload.sinks}
        self._own = {sink.name for sink in workload.deliveries}
        #: When each position was first in the root.
        self._told_s: dict[Key, float] = {}
        #: The deletions per partition: when the needs were checked, and what was deleted.
        self._let_go: dict[int, list[tuple[float, int]]] = defaultdict(list)
        self._begins: list[tuple[str, int, bytes]] = []

    def was_put(self, path: str, data: bytes) -> None:
        """Called when something becomes durable."""
        if (match := AT.fullmatch(path)) is not None:
            key = unquote(match[1]), int(match[2])
            self._told_s.setdefault(key, self._world.now_s)
        elif (match := BEGINS.fullmatch(path)) is not None and match[1] in self._streams:
            self._world.met["retention: items are collected"] += 1
            self._begins.append((self._streams[match[1]], int(match[2]), data))

    def is_let_go(self, process: str, marks: Sequence[Mark], looked_s: float) -> None:
        """Check that retention keeps the last delivered item and all later items."""
        streams = [stream for stream, _ in self._workload.sinks]
        found = {streams.index(mark.stream): mark.seq for mark in marks}
        told = {
            k: s for k, s in found.items() if s > max((n for _, n in self._let_go[k]), default=0)
        }
        for k, seq in found.items():
            self._let_go[k].append((looked_s, seq))
        for (name, k), needed in self._needs().items():
            is_known = name in self._own or self._told_s.get((name, k), looked_s) < looked_s
            if is_known and told.get(k, 0) > max(needed - 1, 0):
                detail = f"{process}: {(name, k)} is at {needed}, all below {told[k]} is let go"
                self._world.violate("what a delivery needs stays", detail)

    def may_be_gone(self, key: Key) -> bool:
        """Whether items of this delivery were deleted before it had stored its position."""
        told_s, needed = self._told_s.get(key, float("inf")), self._needs().get(key, 0)
        found = any(at_s <= told_s and seq >= needed for at_s, seq in self._let_go[key[1]])
        return key[0] not in self._own and found

    def beginning(self, root: str) -> int:
        """Return the first item that an output must still have."""
        stream = self._streams[root]
        return max((seq for found, seq, _ in self._begins if found == stream), default=0)

    def beginnings_are_right(self, items: Mapping[str, Sequence[Items]]) -> None:
        """The digest of deleted items remains."""
        for stream, seq, data in self._begins:
            batch, total = pa.concat_batches([i.batch for i in items[stream]]), StreamDigest()
            total.update(0, batch.slice(0, seq))
            if seq > batch.num_rows or data != total.to_bytes().hex().encode() + b"\n":
                self._world.violate("what is gone has its digest", f"{stream}: {seq}")
