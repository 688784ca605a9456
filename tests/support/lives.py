"""A vertex with restarts: offers, steps and restores in any order, and all its output.

A restore is from a state or from positions. From positions, the vertex reads the input of its state
again, and drops its output meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from rstream.items.batch import Items, item_schema
from rstream.items.digest import StreamDigest
from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.checkpoint.codec import decode_snapshot, encode_snapshot
from rvertex.events.run import Run, to_items
from rvertex.operators.filter import Filter
from rvertex.operators.joins.inner import TemporalJoin
from rvertex.operators.windows.hopping import PartialAggregate, WindowAggregate
from rvertex.sources.spec import Csv, LatePolicy, SourcePartition, SourceSpec
from rvertex.vertex.rvertex import RVertex
from rvertex.vertex.spec import InputChannel, OutputEdge, Recovery, VertexId, VertexSpec
from tests.support.builders import Ev, make_events
from tests.support.exact import assert_same_items
from tests.support.strategies import events, times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.protocol import OperatorSpec

LEFT = pa.schema([("k", pa.int64()), ("x", pa.float64())])
RIGHT = pa.schema([("k", pa.int64()), ("n", pa.int64())])
JOINED = TemporalJoin(("k",), ("k",), (("left", "k", "k"), ("left", "x", "x"), ("right", "n", "n")))
SUMS = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("sum", "x", "total"),
    AggregateSpec("last", "x", "newest"),
)
CHECKPOINT = Recovery()


@dataclass(frozen=True)
class NotNegative:
    """``column >= 0``."""

    column: str

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.greater_equal(batch.column(self.column), 0.0)


def payload_after(operators: Sequence[OperatorSpec], ports: list[pa.Schema]) -> pa.Schema:
    for operator in operators:
        ports = [operator.output_schema(ports)]
    return ports[0]


def vertex_spec(
    ports: Sequence[pa.Schema],
    operators: Sequence[OperatorSpec],
    *,
    source: SourceSpec | None,
    channel_ports: Sequence[int],
    recovery: Recovery = CHECKPOINT,
) -> VertexSpec:
    """A vertex with a hashed edge of three streams and a single stream."""
    return VertexSpec(
        id=VertexId("v.0"),
        stage="v",
        index=0,
        inputs=tuple(
            InputChannel(f"in{i}", f"in{i}", port, ports[port], "volatile")
            for i, port in enumerate(channel_ports)
        ),
        source=None if source is None else SourcePartition(source, (), 0),
        operators=tuple(operators),
        outputs=(
            OutputEdge(("a", "b", "c"), ("a", "b", "c"), ("k",), "volatile"),
            OutputEdge(("d",), ("d",), (), "async"),
        ),
        output_payload=payload_after(operators, list(ports)),
        state_schema="tag",
        recovery=recovery,
    )


def source_vertex(
    delay_us: int = 6,
    cti_every_us: int = 4,
    late: LatePolicy = "drop",
    recovery: Recovery = CHECKPOINT,
    *,
    early: bool = False,
) -> VertexSpec:
    """Rows out of order, a filter (perhaps early), the first phase of an aggregate."""
    spec = SourceSpec(
        kind=Csv(),
        path="",
        schema=LEFT,
        columns=LEFT,
        vs="t",
        delay_us=delay_us,
        cti_every_us=cti_every_us,
        late=late,
    )
    predicate = NotNegative("x")
    operators: list[OperatorSpec] = [PartialAggregate(("k",), 8, 4, SUMS, points=True)]
    if early:
        spec = replace(spec, keep=predicate)
    else:
        operators.insert(0, Filter(predicate))
    return vertex_spec([LEFT], operators, source=spec, channel_ports=[], recovery=recovery)


def join_vertex(recovery: Recovery = CHECKPOINT) -> VertexSpec:
    """Two channels to the left side of a join, one to the right; then an aggregate of intervals."""
    operators: list[OperatorSpec] = [JOINED, WindowAggregate(("k",), 8, 4, SUMS, points=False)]
    return vertex_spec(
        [LEFT, RIGHT], operators, source=None, channel_ports=[0, 0, 1], recovery=recovery
    )


Inputs = list[pa.RecordBatch]
#: An input and a number of its rows; -1: a step; -2: a restore of the serialised snapshot.
Action = tuple[int, int]
STEP, RESTORE = -1, -2


class Life:
    """A vertex, and the contents of its outputs after any number of restarts."""

    def __init__(self, spec: VertexSpec, inputs: Inputs, pending_rows_max: int) -> None:
        self.spec = spec
        self.inputs = inputs
        self.pending_rows_max = pending_rows_max
        self.vertex = RVertex(spec, pending_rows_max=pending_rows_max)
        self.outputs: list[list[pa.RecordBatch]] = [[] for _ in spec.output_streams]
        self.last = self.vertex.get_snapshot()
        #: Items that each restore had to read again.
        self.reread: list[int] = []

    def offer(self, channel: int, rows: int) -> None:
        channel %= len(self.inputs)
        at = self.vertex.read_positions[channel]
        piece = self.inputs[channel].slice(at, self.vertex.rows_wanted(channel, rows))
        if piece.num_rows and self.vertex.wants(channel):
            self.vertex.offer(channel, Items(at, piece))

    def step(self) -> bool:
        result = self.vertex.execute()
        if result is None:
            return False
        for held, items in zip(self.outputs, result.outputs, strict=True):
            if items is not None:
                assert items.first_seq == sum(batch.num_rows for batch in held)
                held.append(items.batch)
        return True

    def restore(self) -> None:
        """Crash and restart from a checkpoint; items that were only read ahead are read again."""
        snapshot = self.vertex.get_snapshot()
        assert self.last.precedes(snapshot)
        self.last = snapshot
        data = encode_snapshot(snapshot)
        again = decode_snapshot(data, name="test", state_schema=self.spec.state_schema)
        self.vertex = RVertex(self.spec, pending_rows_max=self.pending_rows_max)
        self.vertex.load(again)
        assert self.vertex.read_positions == self.vertex.consumed == snapshot.reads
        assert tuple(self.vertex.output_seqs) == snapshot.outputs
        self.reread.append(sum(snapshot.inputs) - sum(snapshot.reads))

    def act(self, action: Action) -> None:
        channel, rows = action
        if channel == STEP:
            self.step()
        elif channel == RESTORE:
            self.restore()
        else:
            self.offer(channel, rows)

    def drain(self) -> None:
        """Offer all remaining items, as long as the vertex wants them."""
        worked = True
        while worked:  # ends: every round but the last reads, releases or rebuilds something
            before = self.vertex.read_positions, self.vertex.is_replaying
            for channel in range(len(self.inputs)):
                self.offer(channel, 1_000)
            has_output = self.step()
            after = self.vertex.read_positions, self.vertex.is_replaying
            worked = has_output or before != after
        if self.spec.source is not None and not self.vertex.is_finished:
            assert self.vertex.read_positions == (self.inputs[0].num_rows,)
            self.vertex.end_source()
            self.step()

    def items(self) -> list[pa.RecordBatch]:
        payloads = [self.spec.payload_of(edge) for edge in self.spec.outputs for _ in edge.streams]
        return [
            pa.concat_batches([pa.RecordBatch.from_pylist([], schema=item_schema(payload)), *held])
            for payload, held in zip(payloads, self.outputs, strict=True)
        ]


def run_vertex(
    spec: VertexSpec, inputs: Inputs, actions: Sequence[Action], pending_rows_max: int = 1_000
) -> Life:
    run = Life(spec, inputs, pending_rows_max)
    for action in actions:
        run.act(action)
    run.drain()
    assert run.vertex.is_finished
    return run


def assert_same_run(actual: Life, expected: Life) -> None:
    for k, (got, want) in enumerate(zip(actual.items(), expected.items(), strict=True)):
        assert_same_items(got, want, f"output {k}")
    assert actual.vertex.digests() == expected.vertex.digests()
    assert actual.vertex.consumed == expected.vertex.consumed
    assert actual.vertex.counts == expected.vertex.counts


def check_digests(run: Life) -> None:
    """Check that the running digests are those of the items."""
    for items, digest in zip(run.items(), run.vertex.digests(), strict=True):
        whole = StreamDigest()
        if items.num_rows:
            whole.update(0, items)
        assert whole.to_bytes() == digest


def schedules(channels: int) -> st.SearchStrategy[list[Action]]:
    offer = st.tuples(st.integers(0, channels - 1), st.integers(1, 7))
    rest = st.sampled_from([(STEP, 0), (STEP, 0), (RESTORE, 0)])
    return st.lists(st.one_of(offer, offer, rest), max_size=30)


def arrival(table: list[Ev]) -> pa.RecordBatch:
    """Return rows in order of arrival, which is the order of the table."""
    batches = [make_events([event], LEFT) for event in table]
    return pa.concat_batches([make_events([], LEFT), *batches])


def channel(table: list[Ev], payload: pa.Schema, ctis: list[int]) -> pa.RecordBatch:
    return to_items(Run(make_events(table, payload), np.array([*ctis, INF_TIME], np.int64)))


@st.composite
def three_channels(draw: st.DrawFn, time_max: int = 30, duration_max: int = 9) -> Inputs:
    cti_times = st.lists(
        st.integers(0, time_max // 3).map(lambda k: 3 * k), max_size=5, unique=True
    )
    tables = [
        draw(events(payload, times=times(0, time_max), duration_max=duration_max, max_size=12))
        for payload in (LEFT, LEFT, RIGHT)
    ]
    return [
        channel(table, payload, sorted(draw(cti_times)))
        for table, payload in zip(tables, (LEFT, LEFT, RIGHT), strict=True)
    ]
