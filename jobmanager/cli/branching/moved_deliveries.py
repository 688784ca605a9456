"""Lets an exported job continue the deliveries of the job whose savepoint it starts from.

A destination stores, under the id of the job, how many items it has and their digest. So the
exported job delivers under the former id (the setting ``delivers_as``). It computes the items after
the savepoint again, skips all that the destination has, and compares the digest.

Invariants: (1) the output of the exported job begins with the digest of all earlier items, and has
each later item before the savepoint that a destination may lack; (2) its claims are later than the
claims of the former job, so a destination rejects the former job; (3) it is not changed before its
output has all delivered items, because a changed job would compute other items in their place.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from jobmanager.delivery.claim import BEHIND, move_claims, recorded_position
from jobmanager.delivery.refused_rows import copy_refused
from jobmanager.driver.running.changes.errors import ChangeRefusedError
from jobmanager.driver.running.changes.snapshots import read_snapshot
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.root import GENERATION, display_uri
from jobmanager.storage.shown import shown_status
from rstream import open_reader
from rstream.clock import SystemClock
from rstream.log.durable import DurableLog
from rstream.log.prefix_digest import PrefixDigest
from rstream.store.blobs import open_store
from rstream.store.marks import put_beginning
from rvertex.sinks.spec import FunctionSink, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobmanager.storage.root import JobRoot
    from jobmanager.storage.savepoints import Savepoint
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore


def check_deliveries(
    root: JobRoot, plan: PhysicalPlan, saved: Mapping[str, Any], name: str
) -> None:
    """Check that another job can continue the deliveries. ``saved``: settings at the savepoint.

    Raises:
        ChangeRefusedError: the destinations may have other rows than the savepoint's query would
            compute, or a delivery has its position in the folder of a job that still runs.
    """
    place = display_uri(root.uri)
    branch = f"; for a trial that delivers nothing use jobmanager branch {place}@TIME NEW.py"
    if saved.get(GENERATION, 0) != root.settings().get(GENERATION, 0):
        reason = (
            f"it was changed after savepoint {name}, and may have delivered rows since; export a "
            f"later savepoint{branch}"
        )
        raise ChangeRefusedError(place, reason)
    functions = [spec for spec in plan.deliveries if isinstance(spec, FunctionSink)]
    if functions and shown_status(root, SystemClock().now_us())["state"] in OPEN_STATES:
        reason = (
            f"delivery {name_of(functions[0])} has its position in the folder of the job, "
            f"which still runs; stop it first{branch}"
        )
        raise ChangeRefusedError(place, reason)


def move_deliveries(
    root: JobRoot,
    target: JobRoot,
    plans: tuple[PhysicalPlan, PhysicalPlan],
    ends: Mapping[str, tuple[int, bytes]],
) -> None:
    """Write what the exported job needs to continue the deliveries.

    ``plans``: here and there. ``ends``: see :func:`ends_of`.

    Raises:
        ChangeRefusedError: items of the output are not durable yet.
    """
    plan, there = plans
    names = [name_of(spec) for spec in plan.deliveries]
    target.store.put(BEHIND, b"")
    for name in names:
        move_claims(root.store, target.store, name)
        copy_refused(root.store, target.store, name)
    delivered = _delivered(root, plan, names)
    own = [uri for _, uri in there.sink_streams()]
    streams = zip(plan.partitions, plan.sink_streams(), own, strict=True)
    for k, (stream, uri), own_uri in streams:
        end, digest = ends[stream]
        prefix = PrefixDigest(root.open_store(uri))
        # Readers read the last delivered item again, because it may be the end of the stream.
        prefix.reach(max(min(delivered[k], end) - 1, 0))
        store = open_store(own_uri)
        if prefix.seq < end:
            _copy(root.open_store(uri), store, stream, prefix.seq, end)
            digest = prefix.digest.to_bytes()
        if begin := min(prefix.seq, end):
            put_beginning(store, begin, digest)


def _delivered(root: JobRoot, plan: PhysicalPlan, names: list[str]) -> dict[int, int]:
    """Return per partition a seq; each delivery has delivered all items below it."""
    rows = root.read_status().get("deliveries", ())
    shown = {(row["delivery"], row["partition"]): row["delivered_seq"] for row in rows}
    return {
        k: min(max(shown.get((n, k), 0), recorded_position(root.store, n, k)) for n in names)
        for k in plan.partitions
    }


def ends_of(
    root: JobRoot, plan: PhysicalPlan, savepoint: Savepoint
) -> dict[str, tuple[int, bytes]]:
    """Return the end of each stream of the output at the savepoint, and the digest of its items.

    Only the writers of the output are read: a checkpoint may have gigabytes.
    """
    ends: dict[str, tuple[int, bytes]] = {}
    outputs = {stream for stream, _ in plan.sink_streams()}
    for row in savepoint.vertices:
        vertex = plan.vertex(row.vertex)
        if outputs.isdisjoint(vertex.output_streams):
            continue
        if row.checkpoint:
            digests = read_snapshot(root.store, vertex, row.checkpoint).digests
        else:
            digests = tuple(map(bytes.fromhex, row.digests))
        ends |= zip(vertex.output_streams, zip(row.outputs, digests, strict=True), strict=True)
    return ends


def _copy(source: BlobStore, target: BlobStore, stream: str, begin: int, end: int) -> None:
    log = DurableLog(target, stream, form=DurableLog(source, stream).read_form())
    with contextlib.closing(open_reader(source, begin)) as reader:
        while reader.next_seq < end:
            items = reader.read_next(end - reader.next_seq)
            if items is None:
                reason = f"rows of {stream} before the savepoint are not durable yet; try again"
                raise ChangeRefusedError(source.uri, reason)
            log.write(items)
