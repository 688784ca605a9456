"""A partition added while a job runs: the earlier output does not change.

A vertex reads a log for a while, with restores. Then a vertex with one more partition continues
from its snapshot. A vertex that starts from an older snapshot, or from none, emits the same. Cannot
catch: a host that adds it too early (tests/jobmanager/test_added_partitions.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import assume, given, strategies as st

from rstream.types import INF_TIME
from rvertex.checkpoint.codec import decode_snapshot, encode_snapshot
from rvertex.sources.logs.entries import LogEntry
from tests.rvertex.vertex.test_log_input import ACTIONS, LogLife
from tests.support.budget import examples
from tests.support.exact import assert_same_items
from tests.support.logs import log_partitions, log_vertex

if TYPE_CHECKING:
    import pyarrow as pa

    from rvertex.sources.spec import LatePolicy
    from rvertex.vertex.spec import Snapshot, VertexSpec
    from tests.support.logs import LogPartition


class Stand:
    """The position of a vertex, its output, and its known entries."""

    def __init__(self, life: LogLife) -> None:
        life.step()
        self.snapshot: Snapshot = life.vertex.get_snapshot()
        self.outputs: list[list[pa.RecordBatch]] = [[*held] for held in life.outputs]
        self.told = [*life.told]

    def go_on(self, spec: VertexSpec, log: list[LogPartition]) -> LogLife:
        """Continue from here with more partitions, without new entries."""
        life = LogLife(spec, log, ahead=100)
        data = encode_snapshot(self.snapshot)
        life.vertex.load(decode_snapshot(data, name="test", state_schema="tag"))
        life.outputs = [[*held] for held in self.outputs]
        life.told = [*self.told, 0]
        for partition, told in zip(log, life.told, strict=True):
            life.input.decide(partition.entries[:told])
        return life


def joining(partition: LogPartition, number: int, time: int) -> LogPartition:
    """The partition, with the entry that adds it placed before all others."""
    join = LogEntry("advance", number, 0, 0, time)
    others = (replace(entry, index=entry.index + 1) for entry in partition.entries)
    return replace(partition, entries=(join, *others))


def told_to_join(life: LogLife) -> LogLife:
    life.input.decide(life.log[-1].entries[:1])
    life.told[-1] = 1
    return life


@examples(25)
@given(
    log=log_partitions().filter(lambda log: len(log) > 1),
    schedule=st.lists(ACTIONS, max_size=30),
    old=st.integers(0, 30),
    later=st.lists(ACTIONS, max_size=20),
    delay_us=st.sampled_from([0, 3, 9]),
    late=st.sampled_from(["drop", "adjust"]),
)
def test_all_restarted_vertices_emit_the_same_items(
    log: list[LogPartition],
    schedule: list[tuple[int, int]],
    old: int,
    later: list[tuple[int, int]],
    delay_us: int,
    late: LatePolicy,
) -> None:
    whole = log_vertex(len(log), delay_us=delay_us, cti_every_us=4, replays=False, late=late)
    assert whole.source is not None
    units = whole.source.units
    few = replace(whole, source=replace(whole.source, units=units[:-1]))
    more = replace(whole, source=replace(whole.source, units=units[:-1], added=units[-1:]))
    life = LogLife(few, log[:-1])
    before = Stand(life)
    for at, action in enumerate(schedule):
        life.act(action)
        before = Stand(life) if at == old else before
    now = Stand(life)
    awaiting = now.go_on(more, log)
    while awaiting.step():  # rows that the predecessor had read but not emitted
        pass
    bound = awaiting.input.bound
    assume(bound < INF_TIME)
    assert awaiting.items() == life.items()  # a partition that is not there yet delays nothing
    log = [*log[:-1], joining(log[-1], len(log) - 1, bound + 1)]
    lives = [
        told_to_join(stand.go_on(more, log)) for stand in (Stand(LogLife(few, log[:-1])), before)
    ]
    last = told_to_join(now.go_on(more, log))
    for action in later:
        last.act(action)
    for one in (*lives, last):
        one.drain()
        for k, (got, want) in enumerate(zip(one.items(), lives[0].items(), strict=True)):
            assert_same_items(got, want, f"output {k}")
        assert one.vertex.digests() == lives[0].vertex.digests()
        assert one.vertex.consumed == lives[0].vertex.consumed
