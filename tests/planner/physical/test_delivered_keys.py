"""For a destination with one row per key, all rows of a key are in one output partition.

Partitions are delivered at the same time, so for a key in two of them the last commit would win.
Not covered: how a destination stores the rows of one partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import streamscope as ss
from planner.physical.lower import lower

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan

SEATS = {"guest": "string", "seat": "int64", "hall": "string"}


def seats() -> ss.Stream:
    """The current seat of each guest: a seat changes its guest, so it moves between vertices."""
    rows = [ss.event(t, guest=f"g{t % 3}", seat=t % 4, hall="a") for t in range(9)]
    return ss.Stream.from_items(SEATS, rows).upserts("guest")


def planned(query: ss.Query, parallelism: int = 3) -> PhysicalPlan:
    return lower(query, root="memory://job", parallelism=parallelism)


def postgres(*key: str, name: str = "") -> ss.sinks.PostgresSink:  # type: ignore[name-defined]
    return ss.sinks.postgres("dbname=x", "seats", mode="upsert", key=key, name=name)


def test_rows_move_to_the_partition_of_their_key() -> None:
    plan = planned(seats().deliver(postgres("seat")))
    (edge,) = plan.stages[-1].inputs
    assert (edge.routing, edge.keys) == ("hash", ("seat",))
    assert len(plan.sink_streams()) == 3
    assert plan.partitioning.covers(("seat",))


@pytest.mark.parametrize("key", [("guest",), ("seat", "guest"), ("guest", "start")])
def test_rows_already_partitioned_by_key_do_not_move(key: tuple[str, ...]) -> None:
    appended = planned(seats().deliver(ss.sinks.postgres("dbname=x", "seats")))
    assert len(planned(seats().deliver(postgres(*key))).stages) == len(appended.stages)


def test_points_are_moved_too() -> None:
    rows = [ss.event(t, guest="g", seat=t, hall="a") for t in range(9)]
    points = ss.Stream.from_items(SEATS, rows, partitions=2)
    kafka = ss.sinks.kafka("t", servers="x", key="guest", upsert=True)
    plan = planned(points.deliver(kafka))
    assert plan.partitioning.covers(("guest",))


def test_several_keys_are_partitioned_by_their_common_columns() -> None:
    both = (postgres("seat", "hall", name="a"), postgres("hall", "guest", name="b"))
    plan = planned(seats().deliver(*both))
    (edge,) = plan.stages[-1].inputs
    assert (edge.routing, edge.keys) == ("hash", ("hall",))


@pytest.mark.parametrize(
    "specs",
    [(postgres("seat", name="a"), postgres("hall", name="b")), (postgres("start"),)],
)
def test_keys_without_a_common_column_share_one_partition(specs: tuple[object, ...]) -> None:
    assert len(planned(seats().deliver(*specs)).sink_streams()) == 1  # type: ignore[arg-type]


def test_a_result_in_one_partition_stays() -> None:
    most = seats().group_by().agg(seat=ss.agg.max("seat"))
    plan = planned(most.deliver(postgres("seat")))
    assert len(plan.stages) == len(planned(most.deliver(ss.sinks.console())).stages)
