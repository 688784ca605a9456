"""All deliveries of a job in this process: one thread per partition of each delivery.

Theory of operation. The driver runs the deliveries of the query while the job runs. The command
``jobmanager deliver`` runs the same or other deliveries over the same root. Both use
:class:`Deliveries`. If two processes run the same delivery, the one with the newest claim delivers
(:mod:`jobmanager.delivery.claim`).
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from jobmanager.delivery.checked_output import CheckedOutput
from jobmanager.delivery.claim import DeliveryClaim, recorded_position
from jobmanager.delivery.clean_rows import CleanRows
from jobmanager.delivery.partition_delivery import ENDED, PartitionDelivery
from jobmanager.delivery.refused_rows import RefusedRows
from jobmanager.delivery.wiring import ThreadWiring
from rstream.items.batch import item_schema
from rvertex.sinks.errors import InvalidSinkError
from rvertex.sinks.spec import (
    DeliveryPlace,
    check_names,
    keeps_refused,
    name_of,
    rows_of,
    takes_changes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobmanager.delivery.output_tap import Endpoints
    from jobmanager.delivery.wiring import DeliveryWiring, Signal, Task
    from planner.physical.plan import PhysicalPlan
    from rstream.format.table import TableForm
    from rstream.store.protocol import BlobStore
    from rvertex.sinks.limits import DeliveryLimits
    from rvertex.sinks.spec import SinkSpec

_NEEDS_KEYS = (
    "this output has a start and an end for each row, so it needs a destination that keeps rows by "
    "key (mode='upsert' of PostgreSQL, upsert=True of Kafka) or appends changes (changes=True). To "
    "deliver complete rows, run the query again with this destination"
)


def _moves(key: tuple[str, ...]) -> str:
    return (
        f"rows of one key ({', '.join(key)}) are in several partitions of this output, and their "
        "order would depend on chance. Name this destination in the query and run it again, or use "
        "a key with the columns of the GROUP BY"
    )


class Deliveries:
    """Runs deliveries from one :meth:`start` until all of them are done, or until :meth:`stop`."""

    def __init__(
        self,
        specs: Sequence[SinkSpec],
        plan: PhysicalPlan,
        *,
        job_id: str,
        store: BlobStore,
        endpoints: Endpoints,
        secret: str,
        has_ended: Callable[[], bool],
        limits: DeliveryLimits,
        start_seq: int = 0,
        wiring: DeliveryWiring | None = None,
    ) -> None:
        """Prepare one delivery per partition and spec. ``store``: the store of the root.

        ``has_ended``: whether the output has no writer now.

        Raises:
            InvalidSinkError: the output does not fit a destination.
        """
        self._endpoints, self._secret, self._store = endpoints, secret, store
        self._has_ended, self._limits, self._start_seq = has_ended, limits, start_seq
        self._job_id, self._wiring = job_id, wiring or ThreadWiring()
        self._tasks: list[Task] = []
        self._wakes: list[Signal] = []
        self._parts: list[tuple[str, int, PartitionDelivery]] = []
        #: ``_makers[i]`` creates ``_parts[i]`` again for a retry.
        self._makers: list[Callable[[], tuple[Signal, PartitionDelivery]]] = []
        check_names(specs)
        for spec in specs:
            self._add(spec, output_of(plan, spec))

    def _add(self, spec: SinkSpec, plan: PhysicalPlan) -> None:
        rows = clean_rows(plan, spec)
        spec.check(rows.schema)
        if rows.has_edges and not takes_changes(spec):
            raise InvalidSinkError(name_of(spec), _NEEDS_KEYS)
        name, writers, streams = name_of(spec), plan.writers(), plan.sink_streams()
        key = spec.delivered_key
        if key and len(streams) > 1 and not plan.partitioning.covers(key):
            raise InvalidSinkError(name_of(spec), _moves(key))
        for k, (stream, uri) in zip(plan.partitions, streams, strict=True):
            make = partial(self._part, spec, k, plan.partitions, rows, writers[stream], stream, uri)
            wake, part = make()
            self._makers.append(make)
            self._wakes.append(wake)
            self._parts.append((name, k, part))

    def _part(
        self,
        spec: SinkSpec,
        k: int,
        partitions: tuple[int, ...],
        rows: CleanRows,
        writer: str,
        stream: str,
        uri: str,
    ) -> tuple[Signal, PartitionDelivery]:
        name = name_of(spec)
        claim = DeliveryClaim(self._store, name, k, partitions)
        place = DeliveryPlace(
            self._job_id,
            name,
            k,
            len(partitions),
            rows.schema,
            self._store.child(claim.folder),
            end=rows.end,
        )
        wake = self._wiring.signal()
        output = CheckedOutput(
            writer,
            stream,
            uri,
            endpoints=self._endpoints,
            secret=self._secret,
            wake=wake.set,
            wiring=self._wiring,
            destination=f"{name}, partition {k}",
            whole_instants=rows.has_edges,
        )
        return wake, PartitionDelivery(
            label=f"{name}, partition {k}",
            connect=partial(self._wiring.destination, spec, place),
            output=output,
            rows=rows,
            claim=claim,
            has_ended=self._has_ended,
            wake=wake,
            clock=self._wiring.clock,
            limits=spec.limited(self._limits),
            start_seq=self._start_seq,
            refused=RefusedRows(self._store, name, k) if keeps_refused(spec) else None,
        )

    def start(self) -> None:
        """Start the threads."""
        for at in range(len(self._parts)):
            self._tasks.append(self._run(at))

    def _run(self, at: int) -> Task:
        wake, (name, k, part) = self._wakes[at], self._parts[at]
        self._endpoints.listen(id(part), wake.set)
        return self._wiring.start(f"deliver-{name}-{k}", part.run)

    def retry(self) -> None:
        """Restart failed deliveries, and end the pauses of waiting deliveries."""
        for at, (name, k, part) in enumerate(self._parts):
            if part.state == "failed":
                self._endpoints.listen(id(part), None)
                self._wakes[at], restarted = self._makers[at]()
                self._parts[at] = (name, k, restarted)
                self._tasks[at] = self._run(at)
            else:
                part.hurry()

    def wake(self) -> None:
        """Let all deliveries check again whether the job has ended."""
        for wake in self._wakes:
            wake.set()

    def stop(self) -> None:
        """Request all deliveries to end soon."""
        for _, _, part in self._parts:
            part.stop()

    def wait(self, timeout_s: float) -> bool:
        """Wait until all threads have ended. Return whether they did so in time."""
        clock = self._wiring.clock
        ends_s = clock.monotonic_s() + timeout_s
        for task in self._tasks:
            task.join(max(ends_s - clock.monotonic_s(), 0))
        is_over = not any(task.is_alive() for task in self._tasks)
        if is_over:
            for _, _, part in self._parts:
                self._endpoints.listen(id(part), None)
        return is_over

    @property
    def is_done(self) -> bool:
        """Whether all deliveries have reached a final state."""
        return all(part.state in ENDED for _, _, part in self._parts)

    @property
    def is_fenced(self) -> bool:
        """Whether another process delivers at least one partition."""
        return any(part.state == "fenced" for _, _, part in self._parts)

    @property
    def have_checked(self) -> bool:
        """Whether each delivery has found its delivered items in the output, or has ended."""
        return all(part.has_checked or part.state in ENDED for _, _, part in self._parts)

    def positions(self) -> dict[int, int]:
        """Return, per partition, the smallest position of all deliveries.

        The position is 0 until the destination has reported it. For a delivery of another process
        it is the position recorded in the root, even if that process has died. So undelivered items
        are still there when the job is resumed.

        Raises:
            StoreError: a recorded position cannot be read.
        """
        positions: dict[int, int] = {}
        for name, k, part in self._parts:
            view = part.view()
            seq = view.delivered_seq
            if view.state == "fenced":
                seq = max(seq, recorded_position(self._store, name, k))
            positions[k] = min(seq, positions.get(k, seq))
        return positions

    def failures(self, *, but_stopped: bool = False) -> list[str]:
        """Return a message per failed or stopped delivery; with ``but_stopped`` per failed one."""
        states = ("failed",) if but_stopped else ("failed", "stopped")
        views = [(name, k, part.view()) for name, k, part in self._parts]
        return [
            f"delivery {name}, partition {k}: {view.error or view.state}"
            for name, k, view in views
            if view.state in states
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per partition of each delivery, for the status, in JSON types."""
        return [
            {"delivery": name, "partition": k, **asdict(part.view())}
            for name, k, part in self._parts
        ]


def output_of(plan: PhysicalPlan, spec: SinkSpec) -> PhysicalPlan:
    """Return the output that the query delivers to the destination ``spec``.

    Raises:
        UnknownOutputError: the query has several outputs and delivers none of them there.
    """
    named = (one for one in plan.of_outputs if spec in one.deliveries)
    return next(named, None) or plan.output_named(None)


def clean_rows(plan: PhysicalPlan, spec: SinkSpec | None = None) -> CleanRows:
    """Return the converter from items of the output to rows in the form that ``spec`` needs.

    Raises:
        InvalidSinkError: a column of the output has the name of an added column.
    """
    form = plan.changes or output_form(plan)
    rows = CleanRows(item_schema(plan.schema), form, has_edges=plan.changes is not None)
    if spec is not None and rows_of(spec, rows.schema) is not rows.schema:
        rows.add_op(spec.delivered_key)
    return rows


def output_form(plan: PhysicalPlan) -> TableForm | None:
    """Return the form of the output's files. None: they have one row per item."""
    (form,) = {edge.form for vertex in plan.vertices for edge in vertex.outputs if edge.is_sink}
    return form
