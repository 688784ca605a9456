"""Requirements for rows and for a destination behind a registry, and the suite of destinations.

Not covered: two sites at once (test_sites.py, test_nats_log.py).
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
from rvertex.registry.errors import RegistryLostError, RegistryUseError
from rvertex.registry.once import ID_BYTES_MAX, OnceDestination
from rvertex.registry.open_shard import RegistryLimits
from rvertex.registry.registry import IdRegistry
from rvertex.sinks.errors import InvalidSinkError, RowsRefusedError
from rvertex.sinks.limits import DeliveryLimits
from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress
from rvertex.sinks.spec import DeliveryPlace
from tests.rvertex.registry.sites import MemoryLog, Output, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sinks.spec import OnOld

REGISTRY = ss.sinks.registry("nats://none", "clicks")
SCHEMA = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", "UTC"))])


@dataclass
class Place:
    """A destination: the committed rows."""

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


def test_a_query_with_other_rows_cannot_open_a_registry_in_use() -> None:
    def answer(to: Any, at: str = "at", **named: str) -> str:
        return ss.sinks.once(to, id="id", at=at, registry=REGISTRY, **named).answer

    east, west = (ss.sinks.kafka("billed", servers=site) for site in ("east:1", "west:1"))
    folders = [ss.sinks.parquet(f"s3://{site}/billed") for site in ("east", "west")]
    assert answer(east) == answer(west) == "kafka:billed by id and at"
    assert answer(folders[0]) == answer(folders[1]) == "parquet by id and at"
    assert answer(ss.sinks.kafka("shown", servers="east:1")) != answer(east) != answer(east, "to")
    assert answer(east, answer="clicks") == answer(folders[0], answer="clicks") == "clicks"
    with pytest.raises(InvalidSinkError, match="answer= must be a text that names the rows"):
        answer(east, answer=3)  # type: ignore[arg-type]
    log = MemoryLog()
    once(log, Place(), "east")
    registry = IdRegistry(log, ManualClock(10**15), "r", RegistryLimits())
    with pytest.raises(RegistryUseError, match="'console by id and at', and this one has 'kafka:b"):
        registry.use_for(answer(east))


def rows(
    ids: Sequence[str | None], first_seq: int = 0, at: datetime | None = None
) -> DeliveredRows:
    times = [datetime(2001, 1, 1, tzinfo=UTC) if at is None else at] * len(ids)
    arrays = [pa.array(ids, pa.string()), pa.array(times, SCHEMA.field("at").type)]
    table = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    next_seq = first_seq + len(ids)
    return DeliveredRows(first_seq, next_seq, np.arange(first_seq, next_seq), table)


def test_rows_claimed_by_other_sites_are_skipped_and_counted() -> None:
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


def test_a_successor_delivers_claimed_rows_that_were_not_committed() -> None:
    log, place = MemoryLog(), Place()
    once(log, place, "east").write(rows(["a", "b"]))
    successor = once(log, place, "east")
    successor.write(rows(["a", "b"]))
    successor.commit(DeliveryProgress(2, b""))
    assert place.committed == ["a", "b"]


def test_only_claims_of_a_lost_site_are_delivered_by_a_new_job() -> None:
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


def test_a_row_without_an_id_is_rejected_with_its_number() -> None:
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
def test_unsupported_deliveries_are_rejected_when_the_query_is_built(
    options: dict[str, Any], reason: str
) -> None:
    given = {"to": ss.sinks.console(), "id": "id", "at": "at", "registry": REGISTRY} | options
    items = [ss.event(1, id=1, at=1, price=1.0)]
    columns = {"id": "int64", "at": "timestamp[us]", "price": "float64"}
    stream = ss.Stream.from_items(columns, items)
    with pytest.raises(InvalidSinkError, match=reason):
        stream.deliver(ss.sinks.once(**given))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"name": "a.b"}, "a name may have only letters"),
        ({"name": ""}, "a name may have only letters"),
        ({"name": None}, "a name may have only letters"),
        ({"servers": ()}, "servers= is a url"),
        ({"servers": None}, "servers= is a url"),
        ({"servers": [3]}, "servers= is a url"),
        ({"shards": 0}, "shards=0: must be a whole number from 1 to 4,096"),
        ({"shards": "2"}, "shards='2'"),
        ({"shards": 4097}, "shards=4097"),
        ({"replicas": 6}, "replicas=6: must be a whole number from 1 to 5"),
        ({"replicas": True}, "replicas=True"),
        ({"keep": "7us"}, "keep= must be at least 8 microseconds"),
    ],
)
def test_an_invalid_registry_is_rejected(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSinkError, match=re.escape(reason)):
        ss.sinks.registry(**({"servers": "nats://a", "name": "a"} | given))


def test_invalid_arguments_of_once_are_rejected() -> None:
    to: Any = ss.sinks.console()
    any_: Any = "clicks"
    behind = ss.sinks.once(to, id="id", at="at", registry=REGISTRY)
    for registry in (any_, None):
        with pytest.raises(InvalidSinkError, match="the registry must be made by"):
            ss.sinks.open_registry(registry)
        with pytest.raises(InvalidSinkError, match="the registry must be made by"):
            ss.sinks.once(to, id="id", at="at", registry=registry)
    for other in (any_, behind):
        with pytest.raises(InvalidSinkError, match="it takes another destination"):
            ss.sinks.once(other, id="id", at="at", registry=REGISTRY)


def test_two_destinations_of_a_query_need_separate_registries() -> None:
    rows = ss.Stream.from_items({"id": "int64", "at": "timestamp[us]"}, [ss.event(1, id=1, at=1)])
    one, two = (
        ss.sinks.once(ss.sinks.parquet(path), id="id", at="at", registry=REGISTRY)
        for path in ("one", "two")
    )
    with pytest.raises(InvalidSinkError, match="claims ids in the registry 'clicks', too"):
        rows.deliver(one, two)
    other = ss.sinks.registry("nats://none", "others")
    rows.deliver(one, ss.sinks.once(two.to, id="id", at="at", registry=other))
    with pytest.raises(ss.InvalidPlanError, match="deliver\\(\\) takes destinations"):
        rows.deliver("parquet")  # type: ignore[arg-type]


def test_an_emptied_registry_is_named_and_grants_no_id_again() -> None:
    log, place = MemoryLog(), Place()
    running = once(log, place, "east")
    running.write(rows(["a", "b"]))
    running.commit(DeliveryProgress(2, b""))
    log.store = Store()
    with pytest.raises(RegistryLostError, match="the log of shard 0 starts again at entry 1"):
        running.write(rows(["c"], 2))
    log.store = Store()
    with pytest.raises(
        RegistryLostError, match="its streams are empty, although east/d/0 has claimed ids in it"
    ):
        once(log, place, "east")
    IdRegistry(log, ManualClock(10**15), "r", RegistryLimits()).create()
    once(log, place, "east").write(rows(["c"], 2))


def test_a_partition_without_rows_notices_no_missing_registry() -> None:
    log, place = MemoryLog(), Place()
    quiet = once(log, place, "east")
    quiet.write(rows([]))
    quiet.commit(DeliveryProgress(5, b""))
    once(log, place, "east").write(rows(["a"], 5))


def test_limits_come_from_the_destination() -> None:
    to = ss.sinks.parquet("p", roll="2s", roll_rows=7)
    spec = ss.sinks.once(to, id="id", at="at", registry=REGISTRY)
    assert spec.limited(DeliveryLimits()) == to.limited(DeliveryLimits())
    assert (spec.name, spec.label) == (to.name, to.label)
