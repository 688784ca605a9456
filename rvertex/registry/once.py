"""Delivers only rows whose ids no other site delivers: claims them in a registry before it writes.

The token of a claim is the partition's name at its destination. No other job has this name, and a
resumed job has the same. So if a process crashes between its claims and its commit, no row is lost:
its successor reads the same rows, claims them with the same token, and writes them.

Invariants: (1) a row is written only after its id was claimed for this partition; (2) the progress
of the destination counts all rows, including skipped ones. Source: Photon 2, 3.3.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.clock import SystemClock
from rstream.secret_values import secret_value
from rvertex.registry.errors import RegistryAwayError, RegistryClientError
from rvertex.registry.open_shard import RegistryLimits
from rvertex.registry.registry import IdRegistry
from rvertex.registry.shard import Verdict
from rvertex.sinks.errors import RowsRefusedError
from rvertex.sinks.spec import destination

if TYPE_CHECKING:
    from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress, Destination
    from rvertex.sinks.spec import DeliveryPlace, OnceSink, RegistrySpec

_log = logging.getLogger(__name__)

#: Ids with more bytes than this are claimed by their digest.
ID_BYTES_MAX = 32
_DIGEST_BYTES = 16
#: Most shards of a registry to which claims are written at the same time.
SHARDS_AT_ONCE = 32


@functools.cache
def opened_registry(spec: RegistrySpec) -> IdRegistry:
    """Return the registry of this process; all deliveries share it, to commit together."""
    try:
        from rvertex.registry.nats_log import NatsLog
    except ModuleNotFoundError as error:
        raise RegistryClientError(spec.name) from error
    servers = [secret_value("servers", server) for server in spec.servers]
    log = NatsLog(servers, spec.name, replicas=spec.replicas)
    limits = RegistryLimits(keep_us=spec.keep_us)
    pool = ThreadPoolExecutor(SHARDS_AT_ONCE, f"registry-{spec.name}")
    return IdRegistry(log, SystemClock(), spec.name, limits, shards=spec.shards, pool=pool)


class OnceDestination:
    """One partition; see :class:`rvertex.sinks.protocol.Destination`."""

    def __init__(
        self, spec: OnceSink, place: DeliveryPlace, to: Destination, registry: IdRegistry
    ) -> None:
        self._spec, self._to, self._registry = spec, to, registry
        self._token = place.stream
        #: Number of rows that another site delivers, and of rows older than the registry keeps.
        self.taken, self.old = 0, 0
        self._has_rows = False

    def open(self, epoch: int) -> DeliveryProgress | None:
        """Open the destination. Claims of an earlier instance belong to this instance."""
        progress = self._to.open(epoch)
        if progress is None:
            # Create it now: a registry that is missing later is known to be lost
            self._registry.create()
        else:
            has_claimed = progress.next_seq > 0
            self._registry.resume(self._token, progress.next_seq, has_claimed=has_claimed)
        self._registry.use_for(self._spec.answer)
        return progress

    def write(self, rows: DeliveredRows) -> None:
        """Claim the ids, and write the rows whose ids were claimed."""
        if not rows.table.num_rows:
            self._to.write(rows)
            return
        self._has_rows = True
        ids, times_us = self._ids(rows)
        verdicts = self._registry.claim(self._token, ids, times_us, rows.next_seq)
        self.taken += verdicts.count(Verdict.TAKEN)
        if old := verdicts.count(Verdict.OLD):
            self._skip(rows, verdicts.index(Verdict.OLD), old)
        kept = np.array([verdict is Verdict.OURS for verdict in verdicts])
        if not kept.all():
            table = rows.table.filter(pa.array(kept))
            rows = replace(rows, seqs=rows.seqs[kept], table=table)
        self._to.write(rows)

    def _skip(self, rows: DeliveredRows, first: int, count: int) -> None:
        """Skip rows whose ids may have been delivered and deleted from the registry."""
        if self._spec.on_old == "fail":
            seq = int(rows.seqs[first])
            reason = f"{count} rows are older than the registry keeps"
            advice = (
                "a longer keep= of the registry would have known them; if another site has "
                'delivered them, on_old="skip" leaves them out'
            )
            raise RowsRefusedError(self._spec.label, seq, seq + 1, reason, advice)
        if not self.old:
            extra = {"sink": self._token, "rows": count}
            _log.warning("skips rows that are older than the registry keeps", extra=extra)
        self.old += count

    def commit(self, progress: DeliveryProgress) -> None:
        """Commit; the next claim records that these rows are at their destination."""
        self._to.commit(progress)
        self._registry.delivered(self._token, progress.next_seq)
        if not self._has_rows:
            self._flush()
        self._has_rows = False

    def close(self) -> None:
        """Close the destination; the registry stays open for the other partitions."""
        self._flush()
        self._to.close()

    def _flush(self) -> None:
        # If a record of delivered ids is not written now, it is when the delivery opens again.
        with contextlib.suppress(RegistryAwayError):
            self._registry.flush()

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
        return [id_bytes(value) for value in ids.to_pylist()], times_us.to_pylist()


def id_bytes(value: str | bytes | int) -> bytes:
    """Return an id as the registry stores it."""
    data = value if isinstance(value, bytes) else str(value).encode()
    if len(data) <= ID_BYTES_MAX:
        return data
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def open_destination(spec: OnceSink, place: DeliveryPlace) -> OnceDestination:
    """Open the destination, as :attr:`rvertex.sinks.spec.SinkSpec.home` requires."""
    inner = destination(spec.to, place)
    return OnceDestination(spec, place, inner, opened_registry(spec.registry))
