"""Destinations of a query: frozen specs, checked where they are written, without connections."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from planner import Query, Stream, agg, event, sinks, tumbling
from planner.errors import InvalidPlanError
from planner.physical.lower import lower
from rvertex.sinks.errors import InvalidSinkError

if TYPE_CHECKING:
    from pathlib import Path

    from rvertex.sinks.spec import SinkSpec


def windows() -> Stream:
    stream = Stream.from_items({"k": "string"}, [event(1, k="a")]).group_by("k")
    return stream.window(tumbling("1s")).agg(n=agg.count())


def test_a_query_and_its_plan_have_its_deliveries(tmp_path: Path) -> None:
    kafka = sinks.kafka("t", servers="env:BROKERS", key="k", config={"linger.ms": 5})
    query = windows().deliver(kafka, sinks.postgres("env:DSN", "t", mode="upsert", key=["k"]))
    assert isinstance(query, Query)
    assert [spec.label for spec in query.deliveries] == ["kafka:t", "postgres:t"]
    assert kafka.config == (("linger.ms", "5"),)
    assert query.recover_with("replay").deliveries == query.deliveries
    plan = lower(query, root=str(tmp_path), parallelism=1)
    assert pickle.loads(pickle.dumps(plan)).deliveries == query.deliveries
    assert plan.plan_hash == lower(windows().to_parquet(), root="r", parallelism=1).plan_hash


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (sinks.kafka("t", servers="s", key="gone"), "no column 'gone'"),
        (sinks.kafka("t", servers="s", mode="both"), "choose one of transactions, headers"),  # type: ignore[arg-type]
        (sinks.kafka("t", servers="s", key="k", format="arrow"), "packs many rows"),
        (sinks.postgres("d", "t", mode="upsert"), "takes key="),
    ],
)
def test_invalid_deliveries_are_rejected_at_once(spec: SinkSpec, says: str) -> None:
    with pytest.raises(InvalidSinkError, match=says):
        windows().deliver(spec)


def test_two_deliveries_with_one_name_are_rejected() -> None:
    one, two = (sinks.kafka("t", servers=servers) for servers in ("a", "b"))
    with pytest.raises(InvalidSinkError, match="two deliveries have this name"):
        windows().deliver(one, two)
    assert windows().deliver(one, sinks.kafka("t", servers="b", name="other")).deliveries


def test_a_delivery_needs_a_destination() -> None:
    with pytest.raises(InvalidPlanError, match="takes destinations"):
        windows().deliver()
