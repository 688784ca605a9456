"""Reads the checkpoints of a cut, and the unconsumed items of its channels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from jobmanager.driver.running.changes.errors import ChangeRefusedError, NotACutError
from planner.physical.layout import chain_of
from planner.physical.recovery import durations_of
from rstream import open_reader
from rstream.errors import CorruptSegmentError, SequenceDiscardedError, SequenceLostError
from rstream.items.batch import VS, Items, event_schema, int64_column
from rstream.log.reader import SegmentCursor
from rstream.types import INF_TIME, MIN_TIME
from rvertex.checkpoint.checkpointer import read_checkpoint
from rvertex.checkpoint.conversion import pairs_of, places_of
from rvertex.events.run import Run, to_items
from rvertex.operators.composite_state import part_state
from rvertex.operators.cti_forwarding import ForwardCtis
from rvertex.operators.horizon import horizon_of, output_duration_of, sum_us
from rvertex.operators.lifetimes.calendar import CalendarTimes
from rvertex.operators.lifetimes.shift import Shift
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.operators.windows.session import OverSessions
from rvertex.operators.windows.session_phases import FinalSession
from rvertex.vertex.merge import REACHED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobmanager.driver.running.changes.cut import Rest
    from planner.physical.plan import PhysicalPlan
    from rstream.log.durable import DurableLog
    from rstream.store.protocol import BlobStore
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import OperatorSpec
    from rvertex.vertex.spec import Snapshot, VertexSpec


def read_snapshot(store: BlobStore, spec: VertexSpec, name: str) -> Snapshot:
    """Return the snapshot in a checkpoint.

    Raises:
        CorruptCheckpointError: the checkpoint, or a part of it, is missing or damaged.
        NotACutError: the checkpoint has positions only, without state.
    """
    snapshot = read_checkpoint(store, name, spec).snapshot
    if snapshot.replay_from is not None:
        raise NotACutError(str(store.uri), f"the last checkpoint of {spec.id} contains no state")
    return snapshot


def time_of_input(snapshot: Snapshot) -> int:
    """Return the time of the last CTI (watermark) that a vertex's MERGE has released."""
    return int(snapshot.states[0].header.get("last_cti", MIN_TIME))


def reached_by(snapshot: Snapshot) -> int:
    """Return the greatest time of all items that a vertex's MERGE has released."""
    header = snapshot.states[0].header
    return int(max(header["last_cti"], header.get(REACHED, MIN_TIME), *header["times"]))


def time_of_rows(snapshot: Snapshot) -> int:
    """Return the greatest time of all rows and watermarks that a source has read."""
    state = snapshot.states[0]
    books = state.header.get("books")
    parts = [state] if books is None else [part_state(state, str(k)) for k in range(len(books))]
    times = [int(part.header[name]) for part in parts for name in ("max_vs", "last_cti")]
    return max(times, default=int(MIN_TIME))


def unread_from(snapshot: Snapshot) -> int:
    """Return the time from which on the operators of a vertex have received no row.

    A CTI does not show it: a window aggregate delays CTIs to the start of its open window, and may
    receive rows before the source's delay is over.
    """
    is_merge = "times" in snapshot.states[0].header
    found = reached_by(snapshot) if is_merge else time_of_rows(snapshot)
    return found if found in (MIN_TIME, INF_TIME) else found + 1


def whole_since(
    vertex: VertexSpec,
    plan: PhysicalPlan,
    read_old: Callable[[VertexSpec], tuple[VertexSpec, Snapshot] | None],
) -> int:
    """Return the time from which on a vertex misses no row if an operator starts empty.

    Rows are also missing if they were in a state of an earlier vertex that starts empty. Later
    results also depend on them, for as long as the operators on the way reach back; a chain without
    a bound is not counted. ``read_old``: what a vertex of the new ``plan`` continues; None: it
    is new, so it misses all rows that others have read.
    """
    writers, durations, found = plan.writers(), durations_of(plan), int(MIN_TIME)
    is_new = read_old(vertex) is None
    #: By vertex: for how long rows that are missing after it lead to missing results, us.
    missing = {vertex.id: 0}
    for name in reversed(plan.topological_order()):
        if name not in missing:
            continue
        at, former = plan.vertex(name), read_old(plan.vertex(name))
        is_own = name == vertex.id
        chain = _up_to_windows(chain_of(at)) if is_own else chain_of(at)
        lossy = 0 if former is None else first_lossy(former[0], at)
        if former is not None and (is_own or is_new or lossy is not None):
            first = len(chain) if lossy is None else lossy
            back = missing[name] + (reach_of_chain(chain, durations[name], set(), first) or 0)
            since = unread_from(former[1])
            # a vertex that has read all of its input holds no row back
            if is_own or is_new or since != INF_TIME:
                found = max(found, since if since in (MIN_TIME, INF_TIME) else since + back)
        through = missing[name] + (reach_of_chain(chain, durations[name], set()) or 0)
        for channel in at.inputs:
            writer = writers[channel.stream]
            missing[writer] = max(missing.get(writer, 0), through)
    return found


def _up_to_windows(chain: tuple[OperatorSpec, ...]) -> tuple[OperatorSpec, ...]:
    ends = [k for k, op in enumerate(chain, 1) if isinstance(op, FinalAggregate | WindowAggregate)]
    return chain[: max(ends, default=0)]


def reach_of_chain(
    operators: Sequence[OperatorSpec], durations: Durations, equal: set[int], first: int = 0
) -> int | None:
    """Return how far a chain reaches back, us; None: there is no bound.

    ``durations``: the greatest lifetimes of its ports. ``equal``: ports whose rows do not matter.
    ``first``: the number of the first operator that counts.
    """
    total: int | None = 0
    own = tuple(0 if port in equal else longest for port, longest in enumerate(durations))
    for number, wrapped in enumerate(operators):
        operator = wrapped.operator if isinstance(wrapped, ForwardCtis) else wrapped
        if number >= first:
            total = sum_us(total, _reach_of(operator, own))
        own = durations = (_lifetime(operator, durations),)
    return total


def _reach_of(operator: OperatorSpec, durations: Durations) -> int | None:
    match operator:
        case PartialAggregate() | WindowAggregate():
            return 0 if operator.points else durations[0]
        case FinalAggregate() | CalendarTimes():
            return 0
        case OverSessions() | FinalSession():  # a row up to a gap before may join the session
            return sum_us(operator.gap_us, durations[0])
        case Shift():
            return abs(operator.duration_us)
    return horizon_of(operator, durations)


def _lifetime(operator: OperatorSpec, durations: Durations) -> int | None:
    """Return the greatest lifetime of output rows, us, by which later windows must reach back."""
    if isinstance(operator, CalendarTimes) and not operator.back:
        return 0 if durations[0] == 1 else None  # a point becomes exactly one period
    return output_duration_of(operator, durations)


def lossy_stages(old: PhysicalPlan, new: PhysicalPlan, links: Mapping[str, str]) -> dict[str, str]:
    """Return by stage of ``new`` the stage before it that loses rows, if any."""
    before, after = ({v.stage: v for v in plan.vertices} for plan in (old, new))
    found: dict[str, str] = {}
    writers = new.writers()
    for stage in dict.fromkeys(new.vertex(v).stage for v in new.topological_order()):
        for channel in after[stage].inputs:
            above = new.vertex(writers[channel.stream]).stage
            former = links.get(above)
            if above in found:
                found.setdefault(stage, found[above])
            elif former is not None and first_lossy(before[former], after[above]) is not None:
                found.setdefault(stage, above)
    return found


def first_lossy(old: VertexSpec, new: VertexSpec) -> int | None:
    """Return the number of the first operator of ``new`` that lacks rows which ``old`` has read.

    Rows lost by vertices before are not counted. None: no row is lost.
    """
    was, is_now = (replace(vertex, operators=chain_of(vertex)) for vertex in (old, new))
    pairs = pairs_of(was, is_now)
    if len([pair for pair in pairs if pair.old]) < sum(not p.is_stateless for p in places_of(was)):
        return 0
    return next((pair.new.number for pair in pairs if pair.verdict == "started empty"), None)


def last_time(log: DurableLog) -> int | None:
    """Return the time of the last item of a stream; None: it has no segment."""
    segments = log.segments()
    if not segments:
        return None
    cursor = SegmentCursor(log)
    try:
        items = cursor.read(segments[-1].hi - 1, 1)
    finally:
        cursor.close()
    assert items is not None, (log.uri, segments[-1])
    return int(int64_column(items.batch, VS)[-1])


def rest_items(store: BlobStore, rest: Rest) -> list[Items]:
    """Return the items of a channel that its reader had not consumed. ``store``: their store.

    Raises:
        NotACutError: the items were lost with their host.
        ChangeRefusedError: a file of the channel is damaged.
    """
    if rest.is_ended and rest.hi - rest.lo == 1:
        empty = pa.RecordBatch.from_pylist([], schema=event_schema(rest.payload))
        return [Items(rest.lo, to_items(Run(empty, np.array([INF_TIME], np.int64))))]
    reader, rest_batches = open_reader(store, rest.lo), []
    try:
        while reader.next_seq < rest.hi:
            items = reader.read_next(rest.hi - reader.next_seq)
            if items is None:
                raise SequenceLostError(rest.stream, reader.next_seq)
            rest_batches.append(items)
    except (SequenceLostError, SequenceDiscardedError) as error:
        raise NotACutError(rest.uri, f"rows between two vertices are gone ({error})") from error
    except CorruptSegmentError as error:
        reason = f"rows on their way in channel {rest.stream} are damaged ({error})"
        raise ChangeRefusedError(rest.uri, reason) from error
    finally:
        reader.close()
    return rest_batches
