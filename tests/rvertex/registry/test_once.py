"""What is asked of rows and of the destination behind a registry, and the suite of destinations.

Cannot catch: two sites at once (test_sites.py, test_nats_log.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import streamscope as ss
from rstream.clock import ManualClock
from rvertex.registry.once import ID_BYTES_MAX, OnceDestination
from rvertex.registry.registry import IdRegistry, RegistryLimits
from rvertex.sinks.errors import InvalidSinkError, RowsRefusedError
from rvertex.sinks.limits import DeliveryLimits
from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress
from rvertex.sinks.spec import DeliveryPlace
from tests.rvertex.registry.sites import MemoryLog, Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sinks.spec import OnOld

REGISTRY = ss.sinks.registry("nats://none", "clicks")
SCHEMA = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", "UTC"))])


@dataclass
class Place:
    """What is committed."""

    next_seq: int = 0
    committed: list[Any] = field(default_factory=list)


def once(log: MemoryLog, place: Place, job: str, on_old: OnOld = "fail") -> OnceDestination:
    to = ss.sinks.console()
    spec = ss.sinks.once(to, id="id", at="at", registry=REGISTRY, on_old=on_old)
    registry = IdRegistry(log, ManualClock(10**15), "r", RegistryLimits())
    where = DeliveryPlace(job, "d", 0, 1, SCHEMA)
    found = OnceDestination(spec, where, Output(place), registry)  # type: ignore[arg-type]
    found.open(1)
    return found


def rows(
    ids: Sequence[str | None], first_seq: int = 0, at: datetime | None = None
) -> DeliveredRows:
    times = [datetime(2001, 1, 1, tzinfo=UTC) if at is None else at] * len(ids)
    arrays = [pa.array(ids, pa.string()), pa.array(times, SCHEMA.field("at").type)]
    table = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    next_seq = first_seq + len(ids)
    return DeliveredRows(first_seq, next_seq, np.arange(first_seq, next_seq), table)


def test_rows_of_other_sites_are_left_out_and_counted() -> None:
    log, east, west = MemoryLog(), Place(), Place()
    first, second = once(log, east, "east"), once(log, west, "west")
    long = "x" * (ID_BYTES_MAX + 1)
    first.write(rows(["a", "b", long]))
    second.write(rows(["b", "c", long + "y"]))
    first.commit(DeliveryProgress(3, b""))
    second.commit(DeliveryProgress(3, b""))
    assert east.committed == ["a", "b", long]
    assert west.committed == ["c", long + "y"]
    assert (second.taken, second.old, west.next_seq) == (1, 0, 3)
    second.write(rows(["d"], 3))
    second.commit(DeliveryProgress(4, b""))
    assert west.committed[-1] == "d"


def test_a_successor_writes_what_was_claimed_and_not_committed() -> None:
    log, place = MemoryLog(), Place()
    once(log, place, "east").write(rows(["a", "b"]))
    successor = once(log, place, "east")
    successor.write(rows(["a", "b"]))
    successor.commit(DeliveryProgress(2, b""))
    assert place.committed == ["a", "b"]


def test_what_a_lost_site_has_claimed_is_delivered_by_a_new_job_and_nothing_else() -> None:
    log, east, west, again = MemoryLog(), Place(), Place(), Place()
    lost = once(log, east, "east")
    lost.write(rows(["a"]))
    lost.commit(DeliveryProgress(1, b""))
    lost.write(rows(["b", "c"], 1))  # and its folder is gone
    other = once(log, west, "west")
    other.write(rows(["a", "b", "c", "d"]))
    other.commit(DeliveryProgress(4, b""))
    operator = IdRegistry(log, ManualClock(10**15), "r", RegistryLimits())
    assert set(operator.undelivered().values()) == {"east/d/0", "west/d/0"}
    operator.release("east/d/0", 1)  # its destination has one row
    newcomer = once(log, again, "again")
    newcomer.write(rows(["a", "b", "c", "d"]))
    newcomer.commit(DeliveryProgress(4, b""))
    assert (east.committed, west.committed, again.committed) == (["a"], ["d"], ["b", "c"])


def test_a_row_without_an_id_is_refused_by_its_number() -> None:
    delivery = once(MemoryLog(), Place(), "east")
    with pytest.raises(RowsRefusedError, match=re.escape("items [6, 7): id is null")):
        delivery.write(rows(["a", None], 5))


@pytest.mark.parametrize("on_old", ["fail", "skip"])
def test_rows_that_are_too_old_end_the_delivery_or_are_counted(on_old: OnOld) -> None:
    log, place = MemoryLog(), Place()
    once(log, Place(), "west").write(rows(["new"]))
    once(log, Place(), "west").open(1)
    registry = IdRegistry(log, ManualClock(10**15), "r", RegistryLimits())
    registry.resume("west/d/0", 1)
    registry.claim("west/d/0", [b"newer"], [978_307_200_000_000], 2)
    delivery = once(log, place, "east", on_old)
    old = rows(["a", "b"], at=datetime(2000, 12, 1, tzinfo=UTC))
    if on_old == "fail":
        with pytest.raises(RowsRefusedError, match="2 rows are older than the registry keeps"):
            delivery.write(old)
    else:
        delivery.write(old)
        delivery.commit(DeliveryProgress(2, b""))
        assert (delivery.old, place.committed, place.next_seq) == (2, [], 2)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"id": "no"}, "no"),
        ({"at": "no"}, "no"),
        ({"on_old": "drop"}, "on_old"),
        ({"id": "price"}, "is a text or an integer, not double"),
        ({"at": "id"}, "is the event time of the id, a timestamp"),
        ({"to": ss.sinks.console(changes=True)}, "rows that are appended"),
        (
            {"to": ss.sinks.postgres("dsn", "t", mode="upsert", key="id")},
            "rows that are appended",
        ),
    ],
)
def test_what_cannot_be_delivered_so_is_refused_when_the_query_is_built(
    options: dict[str, Any], reason: str
) -> None:
    given = {"to": ss.sinks.console(), "id": "id", "at": "at", "registry": REGISTRY} | options
    items = [ss.event(1, id=1, at=1, price=1.0)]
    columns = {"id": "int64", "at": "timestamp[us]", "price": "float64"}
    stream = ss.Stream.from_items(columns, items)
    with pytest.raises(InvalidSinkError, match=reason):
        stream.deliver(ss.sinks.once(**given))


def test_a_registry_needs_servers_and_a_name_for_streams() -> None:
    for servers, name in (("nats://a", "a.b"), ((), "a"), ("nats://a", "")):
        with pytest.raises(InvalidSinkError, match="servers= are urls, and a name has letters"):
            ss.sinks.registry(servers, name)


def test_limits_are_those_of_the_destination() -> None:
    to = ss.sinks.parquet("p", roll="2s", roll_rows=7)
    spec = ss.sinks.once(to, id="id", at="at", registry=REGISTRY)
    assert spec.limited(DeliveryLimits()) == to.limited(DeliveryLimits())
    assert (spec.name, spec.label) == (to.name, to.label)
