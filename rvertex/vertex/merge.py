"""MERGE: orders the items of k channels deterministically, as far as the channels promise.

Each channel is in normal form: no item follows that is earlier than its last one, be that a CTI
(watermark) or an event. This time is the channel's promise, and ``bound`` is the least promise. A
release contains all events with ``vs < bound``, ordered by (vs, input index, seq), and every
distinct CTI time ``<= bound`` of all channels. If the last item of every channel at the bound is an
event, no CTI of that time can follow. Then the release also contains the events at the bound of the
first such channel and of the channels before it.

Invariants: (1) the released items of a channel are a prefix of it, and ``consumed`` is the seq of
its first unreleased item; (2) items that were only read ahead are not state; (3) the concatenation
of all releases does not depend on arrival order or batch boundaries; (4) each item is sorted and
copied once, never again while it is pending; (5) :meth:`Merge.wants` is always true for the channel
with the least promise, at any limit, so MERGE cannot deadlock. A single channel is released at once
and without a copy.

When a job is changed, items that channels of the old plan delivered ahead of the others are
*carried* in extra channels (lanes). The lane of a channel that has the same writer as before
precedes that channel, so rows of equal times keep their order. All other carried items of a port
are in a lane before its channels. A lane's items stay in the state until they are released.
Source: StreamScope NSDI'16, "MERGE". Different here: channels are sorted, so an event promises too,
and every CTI of every channel is emitted, not only a CTI that raises the minimum.
"""

from __future__ import annotations

import itertools
from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import CTI, EVENT, VS, Items, event_schema, int64_column, kinds
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import ChannelOrderError
from rvertex.events.ordering import in_time_order
from rvertex.events.run import NO_CTIS, Chunk, Run, concat
from rvertex.operators.protocol import OperatorState
from rvertex.vertex.spec import Lane, Position

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Default for the most bytes of read-ahead per channel.
PENDING_BYTES_MAX = 16 << 20
#: Key in the state's header: greatest time of items that are not from channels, such as lanes.
REACHED = "reached"
#: A release with at least this many rows is divided; the fewest rows of a part.
_PARTS_MIN, _PART_ROWS = 1 << 17, 1 << 15


class Merge:
    """Merges channels ``0..k-1`` into one run per port, all runs with the same CTIs.

    Channels of port 0 precede channels of port 1. ``pending_rows_max`` and ``pending_bytes_max``
    limit the read-ahead of a channel that the others do not wait for. One read may exceed them.
    """

    def __init__(
        self,
        payloads: Sequence[pa.Schema],
        ports: Sequence[int],
        *,
        pending_rows_max: int,
        pending_bytes_max: int = PENDING_BYTES_MAX,
    ) -> None:
        assert len(payloads) == len(ports) > 0, (len(payloads), len(ports))
        assert list(ports) == sorted(ports), ports
        assert pending_rows_max > 0, pending_rows_max
        assert pending_bytes_max > 0, pending_bytes_max
        self._ports = tuple(ports)
        self._port_schemas = [
            event_schema(payloads[self._ports.index(port)]) for port in range(ports[-1] + 1)
        ]
        self._pending_rows_max = pending_rows_max
        self._pending_bytes_max = pending_bytes_max
        self._channels = [_Channel(i) for i in range(len(ports))]
        #: The unreleased items from the old plan of a changed job.
        self._carried: dict[Lane, _Channel] = {}
        #: The greatest CTI that was released.
        self._last_cti: int = MIN_TIME
        #: The greatest time of released items that are in no channel.
        self._reached: int = MIN_TIME

    @property
    def consumed(self) -> tuple[int, ...]:
        """Per channel, the seq of its first item that was not released."""
        return tuple(c.next_seq - c.pending_rows for c in self._channels)

    @property
    def read_positions(self) -> tuple[int, ...]:
        """Per channel, the next seq that :meth:`offer` accepts."""
        return tuple(c.next_seq for c in self._channels)

    @property
    def is_finished(self) -> bool:
        """Whether ``CTI(INF_TIME)`` was released, so that no item follows."""
        return self._last_cti == INF_TIME

    def wants(self, i: int) -> bool:
        """Return whether to read more of channel ``i``: it has the least promise, or has room."""
        channel = self._channels[i]
        if channel.bound == INF_TIME:
            return False
        has_room = channel.pending_bytes < self._pending_bytes_max
        if has_room and channel.pending_rows < self._pending_rows_max:
            return True
        return channel.bound == self._bound()

    def offer(self, i: int, items: Items) -> None:
        """Buffer the next items of channel ``i``; they must start at its read position.

        Raises:
            ChannelOrderError: the channel is not in normal form.
        """
        self._channels[i].append(items)

    def release(self) -> list[Run] | None:
        """Return one run per port of the items that the promises allow; None if there are none."""
        parts = self.release_parts()
        if len(parts) <= 1:
            return parts[0] if parts else None
        return [concat([run for (run,) in parts])]

    def release_parts(self) -> list[list[Run]]:
        """Return the result of :meth:`release`, divided into several if that copies fewer rows."""
        taken, ctis = self._take()
        if len(taken) == 1 and sum(map(len, taken[0])) >= _PARTS_MIN:
            pieces = [piece for chunk in taken[0] for piece in chunk.events()]
            if pieces and _follow(pieces):
                return [[run] for run in _parts(pieces, ctis)]
        pairs = zip(taken, self._port_schemas, strict=True)
        runs = [Run(_in_order(chunks, schema), ctis) for chunks, schema in pairs]
        return [] if all(run.is_empty for run in runs) else [runs]

    def _take(self) -> tuple[list[list[Chunk]], np.ndarray]:
        """Remove the items that the promises allow: chunks per port, and CTIs."""
        is_single = len(self._channels) == 1 and not self._carried
        bound = INF_TIME if is_single else self._bound()
        released = self._released_at(bound)
        taken: list[list[Chunk]] = [[] for _ in self._port_schemas]
        times: list[np.ndarray] = []
        # In the order of the inputs: ``_in_order`` sorts stably, so this order decides ties.
        # ``_released_at`` relies on it.
        for i, channel, port in self._in_rank():
            for chunk in channel.take(bound, with_events=i < released):
                taken[port].append(chunk)
                times.append(chunk.cti_times())
                if channel is not self._channels[i]:
                    self._reached = max(self._reached, int(chunk.vs[-1]))
        self._carried = {lane: c for lane, c in self._carried.items() if c.pending_rows}
        return taken, self._new_ctis(times)

    def _in_rank(self) -> list[tuple[int, _Channel, int]]:
        """Return all channels and lanes in the order of ties: by channel index, item and port."""
        plain = list(zip(range(len(self._channels)), self._channels, self._ports, strict=True))
        if not self._carried:
            return plain
        lanes = [(i, 2, items, port) for i, items, port in plain]
        for (port, channel), items in self._carried.items():
            at = self._ports.index(port) if channel is None else channel
            lanes.append((at, channel is not None, items, port))
        ranked = sorted(lanes, key=itemgetter(0, 1))
        return [(i, items, port) for i, _, items, port in ranked]

    def snapshot(self) -> OperatorState:
        """Return the state; it depends only on the items below :attr:`consumed`."""
        times = [c.consumed_time for c in self._channels]
        kinds = [c.consumed_kind for c in self._channels]
        header = {"times": times, "kinds": kinds, "last_cti": self._last_cti}
        if self._reached > MIN_TIME:
            header[REACHED] = self._reached
        tables = {lane.name: c.table() for lane, c in self._carried.items()}
        return OperatorState(header, tables)

    def pending_tables(self) -> list[pa.Table | None]:
        """Return, per channel, the rows that wait for other channels; None: no rows."""
        return [c.table() if c.pending_rows else None for c in self._channels]

    def load(self, state: OperatorState, consumed: Sequence[int]) -> None:
        """Continue at ``consumed``, the positions that belong to ``state``, with no read-ahead."""
        times: list[int] = state.header["times"]
        assert len(times) == len(consumed) == len(self._channels), (times, consumed)
        last = zip(consumed, times, state.header["kinds"], strict=True)
        self._channels = [_Channel(i, *of_channel) for i, of_channel in enumerate(last)]
        self._carried = {}
        for name, table in state.tables.items():
            place = Lane.named(name)
            self._carried[place] = lane = _Channel(place.port)
            for batch in table.to_batches():
                lane.append(Items(lane.next_seq, batch))
        self._last_cti = int(state.header["last_cti"])
        self._reached = int(state.header.get(REACHED, MIN_TIME))

    @property
    def position(self) -> Position:
        """Positions, greatest time and last CTI.

        Exactly the items before these positions were released.
        """
        times = [c.consumed_time for c in self._channels]
        return Position(self.consumed, max(self._reached, *times), self._last_cti)

    def scalars(self) -> OperatorState:
        """Return the state at :attr:`position`; MERGE has no other state."""
        return self.snapshot()

    def replay(self, state: OperatorState, inputs: Sequence[int], until: Sequence[int]) -> None:
        """Continue at ``inputs`` and release exactly the items before ``until``."""
        self.load(state, inputs)
        for channel, seq in zip(self._channels, until, strict=True):
            channel.stop_seq = seq

    @property
    def stops(self) -> tuple[int | None, ...]:
        """Per channel, the seq at which a replay ends; None: no limit."""
        return tuple(c.stop_seq for c in self._channels)

    def resume(self) -> None:
        """End the replay, and read without a limit."""
        for channel in self._channels:
            assert channel.pending_rows == 0, channel.pending_rows
            channel.stop_seq = None

    def check(self) -> None:
        """Assert the invariants; for tests."""
        for channel in self._channels:
            channel.check()

    def _bound(self) -> int:
        return min(channel.bound for channel in self._channels)

    def _released_at(self, bound: int) -> int:
        """Return how many channels, from the first, may release their items at ``bound``.

        It is 0 while a CTI of that time may follow: until every channel is past ``bound`` or has an
        event there. The first channel that is not past it may still get events of that time, so the
        channels after it wait.
        """
        if bound == INF_TIME:
            return 0
        at_bound = [i for i, channel in enumerate(self._channels) if channel.bound == bound]
        is_complete = all(self._channels[i].last_kind == EVENT for i in at_bound)
        return at_bound[0] + 1 if is_complete else 0

    def _new_ctis(self, times: list[np.ndarray]) -> np.ndarray:
        """Return the distinct ``times`` after the last released CTI."""
        given = [t for t in times if len(t)]
        if not given:
            return NO_CTIS
        ctis = np.unique(np.concatenate(given)) if len(given) > 1 else given[0]
        ctis = ctis[np.searchsorted(ctis, self._last_cti, side="right") :]
        if len(ctis):
            self._last_cti = int(ctis[-1])
        return ctis


class _Channel:
    """The read-ahead and promise of one channel; checks its normal form."""

    def __init__(
        self,
        index: int,
        next_seq: int = 0,
        consumed_time: int = MIN_TIME,
        consumed_kind: int = CTI,
    ) -> None:
        self._index = index
        self._pending: deque[Chunk] = deque()
        #: Kind of the last item that was read.
        self.last_kind = consumed_kind
        self.next_seq = next_seq
        self.pending_rows = self.pending_bytes = 0
        #: Time of the last item that was read. No later item is earlier.
        self.promise = consumed_time
        #: Time of the last item that was released.
        self.consumed_time = consumed_time
        self.consumed_kind = consumed_kind
        #: Items from this seq on are read only after the replay has ended. None: there is no
        #: replay.
        self.stop_seq: int | None = None

    @property
    def bound(self) -> int:
        """The promise.

        INF_TIME once the replay's end is reached, so that no channel waits for it.
        """
        return INF_TIME if self.next_seq == self.stop_seq else self.promise

    def append(self, items: Items) -> None:
        assert items.first_seq == self.next_seq, (self._index, items.first_seq, self.next_seq)
        assert self.stop_seq is None or items.next_seq <= self.stop_seq, (self._index, items)
        if items.batch.num_rows == 0:
            return
        chunk = Chunk(items.batch, int64_column(items.batch, VS), kinds(items.batch))
        self._require_normal_form(chunk)
        self._pending.append(chunk)
        self.pending_rows += len(chunk)
        self.pending_bytes += chunk.nbytes
        self.next_seq = items.next_seq
        self.promise, self.last_kind = int(chunk.vs[-1]), int(chunk.kind[-1])

    def take(self, bound: int, *, with_events: bool) -> list[Chunk]:
        """Remove and return items before ``bound``; ``with_events``: also the events at it."""
        taken: list[Chunk] = []
        while self._pending:
            chunk = self._pending[0]
            rows = chunk.rows_released(bound, with_events=with_events)
            if rows == len(chunk):
                self.pending_bytes -= chunk.nbytes
                taken.append(self._pending.popleft())
                continue
            if rows:
                taken.append(chunk.part(0, rows))
                self._pending[0] = rest = chunk.part(rows, len(chunk))
                self.pending_bytes -= chunk.nbytes - rest.nbytes
            break
        if taken:
            self.pending_rows -= sum(map(len, taken))
            self.consumed_time = int(taken[-1].vs[-1])
            self.consumed_kind = int(taken[-1].kind[-1])
        return taken

    def table(self) -> pa.Table:
        """Return the unreleased items. There must be some."""
        return pa.Table.from_batches([chunk.batch for chunk in self._pending])

    def check(self) -> None:
        assert self.pending_rows == sum(map(len, self._pending))
        assert self.pending_bytes == sum(chunk.nbytes for chunk in self._pending)
        assert self.consumed_time <= self.promise, (self.consumed_time, self.promise)

    def _require_normal_form(self, chunk: Chunk) -> None:
        """Raise unless times never decrease and CTIs precede events of the same time."""
        vs, kind = chunk.vs, chunk.kind
        bad = vs[1:] < vs[:-1]
        if kind.any():
            bad |= (vs[1:] == vs[:-1]) & (kind[1:] == CTI) & (kind[:-1] == EVENT)
        first, time = int(vs[0]), self.promise
        is_ordered = first > time or (
            first == time and (int(kind[0]) == EVENT or self.last_kind == CTI)
        )
        if is_ordered and not bad.any():
            return
        row = 0 if not is_ordered else int(bad.argmax()) + 1
        before = time if row == 0 else int(vs[row - 1])
        raise ChannelOrderError(self._index, self.next_seq + row, int(vs[row]), before)


def _in_order(chunks: list[Chunk], schema: pa.Schema) -> pa.RecordBatch:
    """Return the events of ``chunks``, given in input order, as one batch sorted by ``_vs``."""
    pieces = [piece for chunk in chunks for piece in chunk.events()]
    if not pieces:
        empty = [pa.nulls(0, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(empty, schema=schema)
    joined = join_batches(pieces)
    if all(a.vs[-1] <= b.vs[0] for a, b in itertools.pairwise(chunks)):
        return joined
    return in_time_order(joined)[0]


def _follow(pieces: list[pa.RecordBatch]) -> bool:
    """Return whether each piece begins no earlier than the one before it ends."""
    starts = [int64_column(piece, VS) for piece in pieces]
    return all(a[-1] <= b[0] for a, b in itertools.pairwise(starts))


def _parts(pieces: list[pa.RecordBatch], ctis: np.ndarray) -> list[Run]:
    """Return events that follow each other in time, and the CTIs, as consecutive runs."""
    parts: list[list[pa.RecordBatch]] = []
    rows = _PART_ROWS
    for piece in pieces:
        if rows >= _PART_ROWS:
            parts.append([])
            rows = 0
        parts[-1].append(piece)
        rows += piece.num_rows
    # A CTI follows all earlier events: it is in the last part that begins before it.
    begins = np.array([int64_column(part[0], VS)[0] for part in parts])
    of = np.maximum(begins.searchsorted(ctis) - 1, 0)
    return [Run(join_batches(part), ctis[of == k]) for k, part in enumerate(parts)]
