"""The formatting of state sizes. Not covered: numbers that a host reports wrongly."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import streamscope as ss
from jobmanager.state.state_size import EVERY_US_MAX, POINTS_MAX, StateSizes, key_lines, state_lines
from planner.physical.lower import lower

MIB = 1 << 20


def row(stage: str, **fields: Any) -> dict[str, Any]:
    return {"stage": stage, "state": "running", "memory_bytes": 0, **fields}


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([row("s01")], []),
        ([row("s01", memory_bytes=5 * MIB)], ["s01: state 5 MiB, all in memory"]),
        ([row("s01", memory_bytes=5 * MIB, state="finished")], []),
        (
            [
                row("s01", memory_bytes=MIB, scratch_bytes=MIB, scratch_files=1, state_keys=10**6),
                row("s02", memory_bytes=3 * MIB, state_keys=12),
                row("s01", memory_bytes=MIB, scratch_bytes=1021 * MIB, scratch_files=2),
            ],
            [
                "s01: state 1 GiB in 3 runs, 1M keys, of which 2 MiB in memory",
                "s02: state 3 MiB, 12 keys, all in memory",
            ],
        ),
    ],
)
def test_each_stage_has_a_line(rows: list[dict[str, Any]], lines: list[str]) -> None:
    assert [*state_lines({"vertices": rows})] == lines


def test_vertices_without_keys_are_named() -> None:
    shares = {"s02": {"s02.0": 1.0, "s02.1": 0.0}, "s03": {"s03.0": 0.25, "s03.1": 0.75}}
    assert [*key_lines({"key_shares": shares})] == [
        "s02: keys in s02.0 100%; no rows for s02.1",
        "s03: keys in s03.0 25%, s03.1 75%",
    ]
    assert [*key_lines({})] == []


class Last(ss.KeyedProcess):
    output = {"n": "int64"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        ctx.emit(n=1)


def test_the_sizes_of_unbounded_states_are_remembered_for_a_day() -> None:
    items = ss.Stream.from_items({"k": "int64"}, [ss.event(1, k=1)])
    keyed = items.group_by("k").process(Last, deterministic=True)
    counted = keyed.group_by("n").window(ss.tumbling(10)).agg(c=ss.agg.count())
    vertices = lower(counted.to_parquet(), root="r").vertices
    (stage,) = {v.stage for v in vertices if v.recovery.horizon_us is None}
    rows = [{"stage": v.stage, "state_bytes": 100 if v.stage == stage else 7} for v in vertices]
    of_stage = 100 * sum(v.stage == stage for v in vertices)
    sizes, minute_us = StateSizes(), 60_000_000
    for minute in range(50):
        found = sizes.look(vertices, rows, minute * minute_us)
    assert list(found) == [stage]
    assert found[stage] == [(k * minute_us, of_stage) for k in range(50)]
    for minute in range(50, 7 * 24 * 60):
        found = sizes.look(vertices, rows, minute * minute_us)
    times = [at_us for at_us, _ in found[stage]]
    assert len(times) == POINTS_MAX
    assert {b - a for a, b in itertools.pairwise(times)} == {EVERY_US_MAX}
    assert times[-1] > (minute - 30) * minute_us
