"""MERGE against a naive sort of all items, for any arrival order, cuts and restores.

Not covered: a host that offers unread items, or reads on although ``wants`` is false.
"""

from __future__ import annotations

import itertools
import pickle
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import CTI, EVENT, VE, VS, Items
from rstream.types import INF_TIME, MIN_TIME
from rvertex.checkpoint.ranges.items import merge_state
from rvertex.errors import ChannelOrderError
from rvertex.vertex.merge import Merge
from rvertex.vertex.spec import CARRIED
from tests.support.budget import examples
from tests.support.builders import Item, cti, ev, make_items, table_of
from tests.support.small_limits import small_limits

if TYPE_CHECKING:
    from random import Random

    from rvertex.events.run import Run

PAYLOAD = pa.schema([("c", pa.int64()), ("n", pa.int64())])
Row = tuple[int, int]  # (time, kind), sorted so that a CTI precedes the events of its time


def channel_batch(channel: int, rows: list[Row]) -> pa.RecordBatch:
    items: list[Item] = [
        cti(time) if kind == CTI else ev(time, time + 1 + n % 3, c=channel, n=n)
        for n, (time, kind) in enumerate(rows)
    ]
    return make_items(items, PAYLOAD)


@st.composite
def channels(draw: st.DrawFn) -> tuple[list[list[Row]], list[int]]:
    row = st.tuples(st.integers(-4, 12), st.sampled_from([EVENT, EVENT, CTI]))
    tables = []
    for _ in range(draw(st.integers(1, 4))):
        rows = sorted(draw(st.lists(row, max_size=10)), key=lambda r: (r[0], r[1] == EVENT))
        if draw(st.sampled_from([True, True, False])):
            rows.append((INF_TIME, CTI))
        tables.append(rows)
    ports = sorted(draw(st.lists(st.integers(0, 1), min_size=len(tables), max_size=len(tables))))
    return tables, [port - ports[0] for port in ports]


def naive(tables: list[list[Row]], ports: list[int]) -> list[list[Item]]:
    """Sort all items, and keep those up to the lowest CTI of all channels, by port."""
    bound = min(max((time for time, _ in rows), default=MIN_TIME) for rows in tables)
    if len(tables) == 1:
        bound = INF_TIME
    at_bound = [c for c, rows in enumerate(tables) if rows and rows[-1][0] == bound]
    settled = -1
    if bound < INF_TIME and all(tables[c][-1][1] == EVENT for c in at_bound):
        settled = min(at_bound, default=-1)
    everything = [
        (time, kind == EVENT, c, n)
        for c, rows in enumerate(tables)
        for n, (time, kind) in enumerate(rows)
        if time < bound or (time == bound and (kind == CTI or c <= settled))
    ]
    out: list[list[Item]] = [[] for _ in range(max(ports) + 1)]
    seen: set[int] = set()
    for time, is_event, c, n in sorted(everything):
        if is_event:
            out[ports[c]].append(ev(time, time + 1 + n % 3, c=c, n=n))
        elif time not in seen:
            seen.add(time)
            for port in out:
                port.append(cti(time))
    return out


def new_merge(ports: list[int]) -> Merge:
    return Merge([PAYLOAD] * len(ports), ports, pending_rows_max=4)


def restored(merge: Merge, ports: list[int]) -> Merge:
    again = new_merge(ports)
    again.load(merge.snapshot(), merge.consumed)
    assert again.consumed == again.read_positions == merge.consumed
    assert again.is_finished == merge.is_finished
    assert again.snapshot() == merge.snapshot()
    return again


def released_by(merge: Merge, *, in_parts: bool) -> list[list[Run]]:
    if in_parts:
        with small_limits():
            return merge.release_parts()
    return [runs] if (runs := merge.release()) else []


def tables_of(released: list[list[Run]], ports: int) -> list[list[Item]]:
    return [[row for runs in released for row in table_of(runs[port])] for port in range(ports)]


Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["offer", "offer", "release", "restore"]),
        st.integers(0, 3),
        st.integers(0, 5),
    ),
    max_size=30,
)


@examples(50)
@given(channels(), steps)
def test_merge_is_a_sort_for_any_arrival_order(
    case: tuple[list[list[Row]], list[int]], steps: list[Step]
) -> None:
    tables, ports = case
    batches = [channel_batch(c, rows) for c, rows in enumerate(tables)]
    merge, released = new_merge(ports), []
    rest = [("offer", i, 99) for i in reversed(range(len(tables)))]
    for step, channel, rows in [*steps, *rest]:
        if step == "offer":
            i = channel % len(tables)
            at = merge.read_positions[i]
            merge.offer(i, Items(at, batches[i].slice(at, rows)))
        elif step == "release":
            released += released_by(merge, in_parts=rows % 2 > 0)
        else:
            merge = restored(merge, ports)
        merge.check()
    released += released_by(merge, in_parts=True)
    assert merge.release() is None
    for runs in released:
        for run in runs:
            run.check()
            assert np.array_equal(run.ctis, runs[0].ctis)
    assert tables_of(released, max(ports) + 1) == naive(tables, ports)
    finished = all(rows and rows[-1][0] == INF_TIME for rows in tables)
    assert merge.is_finished == finished
    if finished:
        assert merge.consumed == tuple(map(len, tables))


@pytest.mark.parametrize(
    "limits", [{"pending_rows_max": 4}, {"pending_rows_max": 1 << 20, "pending_bytes_max": 1}]
)
@examples(50)
@given(channels(), st.randoms(use_true_random=False))
def test_reading_only_the_requested_channels_never_stalls(
    limits: dict[str, int], case: tuple[list[list[Row]], list[int]], random: Random
) -> None:
    """The channel with the lowest time may always add a row."""
    tables, ports = case
    tables = [[*(r for r in rows if r[0] < INF_TIME), (INF_TIME, CTI)] for rows in tables]
    batches = [channel_batch(c, rows) for c, rows in enumerate(tables)]
    merge = Merge([PAYLOAD] * len(ports), ports, **limits)
    for _ in range(sum(map(len, tables)) + 1):
        merge.release()
        merge.check()
        wanted = [i for i in range(len(tables)) if merge.wants(i)]
        if wanted:
            i = random.choice(wanted)
            at = merge.read_positions[i]
            merge.offer(i, Items(at, batches[i].slice(at, 2)))
    assert merge.is_finished
    assert merge.consumed == merge.read_positions == tuple(map(len, tables))


def test_an_event_promises_as_much_as_a_cti() -> None:
    merge = new_merge([0, 0])
    merge.offer(0, Items(0, channel_batch(0, [(1, EVENT), (5, EVENT)])))
    assert merge.release() is None
    merge.offer(1, Items(0, channel_batch(1, [(3, EVENT)])))
    (run,) = merge.release() or []
    assert table_of(run) == [ev(1, 2, c=0, n=0), ev(3, 4, c=1, n=0)]
    assert merge.consumed == (1, 1)


def test_at_equal_times_an_event_waits_for_earlier_channels_and_for_ctis() -> None:
    merge = new_merge([0, 1])
    merge.offer(0, Items(0, channel_batch(0, [(4, EVENT)])))
    merge.offer(1, Items(0, channel_batch(1, [(4, CTI)])))
    assert [len(run.ctis) for run in merge.release() or []] == [1, 1]
    assert merge.consumed == (0, 1)
    merge.offer(1, Items(1, channel_batch(1, [(4, EVENT), (4, EVENT)]).slice(0, 1)))
    assert [run.events.num_rows for run in merge.release() or []] == [1, 0]
    assert merge.consumed == (1, 1)
    merge.offer(0, Items(1, channel_batch(0, [(4, EVENT), (5, CTI)])))
    assert [table_of(run)[:1] for run in merge.release() or []] == [
        [ev(4, 5, c=0, n=0)],
        [ev(4, 5, c=1, n=0)],
    ]
    assert merge.consumed == (2, 2)


@examples(100)
@given(channels(), steps, steps)
def test_consumed_positions_are_totally_ordered(
    case: tuple[list[list[Row]], list[int]], first: list[Step], second: list[Step]
) -> None:
    tables, ports = case
    batches = [channel_batch(c, list(dict.fromkeys(rows))) for c, rows in enumerate(tables)]
    seen: list[tuple[int, ...]] = []
    for steps in (first, second):
        merge = new_merge(ports)
        for step, channel, rows in steps:
            i = channel % len(tables)
            at = merge.read_positions[i]
            if step == "restore":
                merge = restored(merge, ports)
            else:
                merge.offer(i, Items(at, batches[i].slice(at, rows)))
            merge.release()
            seen.append(merge.consumed)
    seen.sort(key=sum)
    for a, b in itertools.pairwise(seen):
        assert all(x <= y for x, y in zip(a, b, strict=True)), (a, b)


def test_a_single_channel_is_not_copied() -> None:
    merge = new_merge([0])
    batch = channel_batch(0, [(t, EVENT) for t in range(8)] + [(8, CTI)])
    merge.offer(0, Items(0, batch))
    (run,) = merge.release() or []
    assert run.events.column("n").buffers()[1].address == batch.column("n").buffers()[1].address
    assert run.ctis.tolist() == [8]
    assert merge.consumed == (9,)


@pytest.mark.parametrize(
    ("rows", "more", "seq"),
    [
        ([(2, EVENT), (1, EVENT)], [], 1),
        ([(2, EVENT), (2, CTI)], [], 1),
        ([(4, CTI), (3, EVENT)], [], 1),
        ([(2, EVENT), (5, EVENT)], [(4, EVENT)], 2),
        ([(2, EVENT), (5, EVENT)], [(5, CTI)], 2),
    ],
)
def test_a_channel_out_of_order_is_rejected(rows: list[Row], more: list[Row], seq: int) -> None:
    merge = new_merge([0, 1])
    with pytest.raises(ChannelOrderError) as caught:  # noqa: PT012  either batch may be the bad one
        merge.offer(1, Items(0, channel_batch(1, rows)))
        merge.offer(1, Items(len(rows), channel_batch(1, more)))
    error: Any = pickle.loads(pickle.dumps(caught.value))
    assert (error.channel, error.seq) == (1, seq)
    assert f"channel 1: the item at seq {seq}" in str(error)


def test_a_gap_is_an_internal_error() -> None:
    merge = new_merge([0])
    with pytest.raises(AssertionError):
        merge.offer(0, Items(1, channel_batch(0, [(1, EVENT)])))


def test_many_channels_of_many_rows() -> None:
    rng = np.random.default_rng(2)
    merge = Merge([PAYLOAD] * 5, [0] * 5, pending_rows_max=1 << 20)
    rows: list[np.ndarray] = []
    for c in range(5):
        vs, n = np.sort(rng.integers(0, 900, 2_000)), np.arange(2_000)
        columns = [np.zeros(len(n), np.int8), vs, vs + 1, np.full(len(n), c), n]
        schema = channel_batch(c, []).schema
        batch = pa.RecordBatch.from_arrays([pa.array(x) for x in columns], schema=schema)
        rows.append(np.stack([vs, np.full(len(n), c), n]))
        merge.offer(c, Items(0, batch))
        merge.offer(c, Items(len(n), make_items([cti(INF_TIME)], PAYLOAD)))
    (run,) = merge.release() or []
    got = np.stack([run.events.column(name).to_numpy() for name in (VS, "c", "n")])
    want = np.concatenate(rows, axis=1)
    assert np.array_equal(got, want[:, np.lexsort((want[2], want[1], want[0]))])
    assert run.events.schema.names == [VS, VE, "c", "n"]


def test_a_channel_that_is_ahead_is_limited_by_bytes() -> None:
    batch = channel_batch(0, [(t, EVENT) for t in range(10)])
    merge = Merge([PAYLOAD] * 2, [0, 0], pending_rows_max=1 << 20, pending_bytes_max=batch.nbytes)
    merge.offer(0, Items(0, batch.slice(0, 9)))
    assert merge.wants(0)
    merge.offer(0, Items(9, batch.slice(9)))
    assert (merge.wants(0), merge.wants(1)) == (False, True)
    merge.offer(1, Items(0, channel_batch(1, [(5, CTI)])))
    assert merge.release() is not None
    assert merge.wants(0)


def test_the_position_counts_rows_that_are_in_no_channel() -> None:
    """A MERGE that continues after a change has the time of the items released before it."""
    lane = pa.Table.from_batches([make_items([ev(7, x=1), ev(30, x=2)], PAYLOAD)])
    state, inputs = merge_state(1, 5, 12, {f"{CARRIED}0": lane})
    merge = new_merge([0])
    merge.load(state, inputs)
    assert merge.position.time == 12
    merge.offer(0, Items(0, make_items([cti(40)], PAYLOAD)))
    assert merge.release() is not None
    again = new_merge([0])
    again.load(merge.snapshot(), merge.consumed)
    assert again.position.time == merge.position.time == 40


def test_parts_contain_the_same_items_as_one_run() -> None:
    """Channels of one port follow each other in time, perhaps at the same instant."""
    draw, several = random.Random(5), 0
    for _ in range(60):
        channels, begin = draw.randrange(1, 4), 0
        merges = [new_merge([0] * channels) for _ in range(2)]
        for c in range(channels):
            times = sorted(draw.choices(range(begin, begin + 5), k=draw.randrange(1, 9)))
            rows = sorted({(t, CTI) for t in times if draw.random() < 0.4})
            rows = sorted([*rows, *((t, EVENT) for t in times), (99, CTI)], key=in_order)
            items, at = channel_batch(c, rows), 0
            while at < len(rows):
                count = draw.randrange(1, 4)
                for merge in merges:
                    merge.offer(c, Items(at, items.slice(at, count)))
                at += count
            begin = max(times) + draw.randrange(2)
        parts = released_by(merges[0], in_parts=True)
        several += len(parts) > 1
        whole = released_by(merges[1], in_parts=False)
        assert tables_of(parts, 1) == tables_of(whole, 1)
        assert merges[0].consumed == merges[1].consumed
    assert several > 20


def in_order(row: Row) -> tuple[int, bool]:
    return row[0], row[1] == EVENT
