"""Delivers rows whose ids no other site delivers: claims them in a registry before it writes.

The token of a claim is the partition's name at its destination, which no other job has and which a
resumed job has again. So a process that died between its claims and its commit leaves nothing lost:
its successor reads the same rows, claims them with the same token, and writes them.

Invariants: (1) a row is written only after its id was claimed for this partition; (2) the progress
of the destination counts all rows, the skipped ones too. Source: Photon 2, 3.3.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.clock import SystemClock
from rstream.secret_values import secret_value
from rvertex.registry.errors import RegistryClientError
from rvertex.registry.registry import IdRegistry, RegistryLimits
from rvertex.registry.shard import Verdict
from rvertex.sinks.errors import RowsRefusedError

if TYPE_CHECKING:
    from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress, Destination
    from rvertex.sinks.spec import DeliveryPlace, OnceSink, RegistrySpec

#: Longer ids are replaced by their digest.
ID_BYTES_MAX = 32
_DIGEST_BYTES = 16


@functools.cache
def opened_registry(spec: RegistrySpec) -> IdRegistry:
    """The registry of this process, which all its deliveries share to commit together."""
    try:
        from rvertex.registry.nats_log import NatsLog
    except ModuleNotFoundError as error:
        raise RegistryClientError(spec.name) from error
    servers = [secret_value("servers", server) for server in spec.servers]
    log = NatsLog(servers, spec.name, replicas=spec.replicas)
    limits = RegistryLimits(keep_us=spec.keep_us)
    return IdRegistry(log, SystemClock(), spec.name, limits, shards=spec.shards)


class OnceDestination:
    """One partition; see :class:`rvertex.sinks.protocol.Destination`."""

    def __init__(
        self, spec: OnceSink, place: DeliveryPlace, to: Destination, registry: IdRegistry
    ) -> None:
        self._spec, self._to, self._registry = spec, to, registry
        self._token = place.stream
        #: Ids that were written since the last commit, and their times.
        self._written: tuple[list[bytes], list[int]] = ([], [])
        #: Rows that another site delivers, and rows that are older than the registry keeps.
        self.taken, self.old = 0, 0

    def open(self, epoch: int) -> DeliveryProgress | None:
        """Open the destination; the claims of a predecessor belong to this one."""
        self._written = ([], [])
        return self._to.open(epoch)

    def write(self, rows: DeliveredRows) -> None:
        """Claim the ids, and write the rows that are for this site."""
        if not rows.table.num_rows:
            self._to.write(rows)
            return
        ids, times_us = self._ids(rows)
        verdicts = self._registry.claim(self._token, ids, times_us)
        self.taken += verdicts.count(Verdict.TAKEN)
        self.old += verdicts.count(Verdict.OLD)
        kept = np.array([verdict is Verdict.OURS for verdict in verdicts])
        if not kept.all():
            table = rows.table.filter(pa.array(kept))
            rows = replace(rows, seqs=rows.seqs[kept], table=table)
        for n in np.flatnonzero(kept).tolist():
            self._written[0].append(ids[n])
            self._written[1].append(times_us[n])
        self._to.write(rows)

    def commit(self, progress: DeliveryProgress) -> None:
        """Commit; tokens of rows that are at their destination are not needed any more."""
        self._to.commit(progress)
        if self._written[0]:
            self._registry.delivered(self._token, *self._written)
        self._written = ([], [])

    def close(self) -> None:
        """Close the destination; the registry stays open for the other partitions."""
        self._written = ([], [])
        self._to.close()

    def _ids(self, rows: DeliveredRows) -> tuple[list[bytes], list[int]]:
        ids, times = rows.table.column(self._spec.id), rows.table.column(self._spec.at)
        for name, column in ((self._spec.id, ids), (self._spec.at, times)):
            if column.null_count:
                seq = int(rows.seqs[np.flatnonzero(column.is_null())[0]])
                raise RowsRefusedError(
                    self._spec.label,
                    seq,
                    seq + 1,
                    f"{name} is null, so no site can claim the row",
                    f"filter these rows out, or deliver them without once(): {name}.is_not_null()",
                )
        times_us = times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64())
        return [_bytes(value) for value in ids.to_pylist()], times_us.to_pylist()


def _bytes(value: str | bytes | int) -> bytes:
    data = value if isinstance(value, bytes) else str(value).encode()
    if len(data) <= ID_BYTES_MAX:
        return data
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
