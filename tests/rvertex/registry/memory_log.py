"""The logs of a registry in memory, for tests of one process."""

from __future__ import annotations

import threading

from rvertex.registry.errors import RegistryAwayError
from tests.rvertex.registry.sites import Store


class MemoryLog:
    """See :class:`rvertex.registry.protocol.ClaimLog`."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = Store() if store is None else store
        self.appends = 0
        #: Appends wait for it, so that others gather.
        self.gate = threading.Event()
        self.gate.set()
        self.is_away = False

    def append(self, shard: int, data: bytes) -> int:
        self.gate.wait(10)
        self.appends += 1
        if self.is_away:
            raise RegistryAwayError("r", "away")
        return self.store.append(shard, data)

    def read(self, shard: int, next_seq: int, until_seq: int | None) -> list[tuple[int, bytes]]:
        return [entry for entry in self.store.logs.get(shard, []) if entry[0] >= next_seq]

    def trim(self, shard: int, below_seq: int) -> None:
        kept = [entry for entry in self.store.logs.get(shard, []) if entry[0] >= below_seq]
        self.store.logs[shard] = kept

    def read_map(self) -> tuple[int, bytes] | None:
        return self.store.map

    def write_map(self, data: bytes, version: int | None) -> bool:
        if (self.store.map[0] if self.store.map else None) != version:
            return False
        self.store.map = (version or 0) + 1, data
        return True
