"""The first row of each key: any cuts, equal to a loop over the events."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st

from rstream.items.batch import VS, event_schema, int64_column
from rstream.types import INF_TIME
from rvertex.events.group_scan import heads_of
from rvertex.events.run import Run
from rvertex.operators.ordered import deduplicate
from rvertex.operators.ordered.deduplicate import Deduplicate
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run
from tests.support.exact import exact_rows
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from types import FrameType


@examples(8)
@given(
    run=runs(max_size=16),
    cuts=splits(),
    keys=st.sampled_from([("k",), ("s", "k")]),
    within=st.sampled_from([1, 3, int(INF_TIME)]),
)
def test_the_first_row_of_each_key_is_kept(
    run: Run, cuts: list[int], keys: tuple[str, ...], within: int
) -> None:
    out = assert_cut_invariant(Deduplicate(keys, within), [run], [PAYLOAD], cuts)
    free: dict[Any, int] = {}
    expected = []
    for row, exact in zip(run.events.to_pylist(), exact_rows(run.events), strict=True):
        key = tuple(row[name] for name in keys)
        if row[VS] >= free.get(key, row[VS]):
            free[key] = row[VS] + within
            expected.append(exact)
    assert exact_rows(out.events) == expected
    assert out.ctis.tolist() == run.ctis.tolist()


def test_dropped_events_are_counted_through_a_restore() -> None:
    spec, schemas = Deduplicate(("k",), 10), [PAYLOAD]
    events = [ev(t, k=t % 2, s="") for t in range(6)]
    first = spec.open(schemas)
    first.process([make_run(events[:4], PAYLOAD)])
    second = spec.open(schemas)
    second.load(first.snapshot())
    second.process([make_run(events[4:], PAYLOAD)])
    assert (first.duplicates, second.duplicates) == (2, 4)  # type: ignore[attr-defined]


def test_an_event_is_kept_as_soon_as_the_previous_one_has_expired() -> None:
    starts = [0, 2, 3, 5, 6, 6, 7, 9, 12, 14, 15]
    events = [ev(t, k=k, s="") for t in starts for k in (1, 2)]
    run = make_run([*events, cti(INF_TIME)], PAYLOAD)
    out = assert_cut_invariant(Deduplicate(("k",), 3), [run], [PAYLOAD], [4, 8, 12, 18])
    kept = [row[VS] for row in out.events.to_pylist()]
    assert kept == [t for t in (0, 3, 6, 9, 12, 15) for _ in (1, 2)]


def test_known_keys_keep_their_times_when_others_are_forgotten() -> None:
    starts = {0: (1,), 3: (2,), 6: (3,), 7: (2, 3, 1), 8: (2,), 10: (3, 1), 13: (2, 1)}
    run = make_run([ev(t, k=k, s="") for t, keys in starts.items() for k in keys], PAYLOAD)
    out = assert_cut_invariant(Deduplicate(("k",), 5), [run], [PAYLOAD], [1, 2, 3, 6, 7])
    kept = [(row[VS], row["k"]) for row in out.events.to_pylist()]
    assert kept == [(0, 1), (3, 2), (6, 3), (7, 1), (8, 2), (13, 2), (13, 1)]


def test_many_rows_of_one_key_are_not_scanned_for_each_kept_row() -> None:
    schema = pa.schema([("k", pa.int64())])
    vs = np.arange(1 << 16) * 10
    columns = [pa.array(vs), pa.array(vs + 1), pa.array(np.zeros_like(vs))]
    events = pa.RecordBatch.from_arrays(columns, schema=event_schema(schema))
    calls = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is heads_of.__code__:
            calls.append(event)

    operator = Deduplicate(("k",), 15).open([schema])
    sys.setprofile(count)
    try:
        out = operator.process([Run(events, np.empty(0, np.int64))])
    finally:
        sys.setprofile(None)
    assert int64_column(out.events, VS).tolist() == vs[::2].tolist()
    assert len(calls) <= 2 * deduplicate.ROUNDS_MAX
