"""Topics as sources, read by the real reader from a real broker."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.clock import SystemClock
from rvertex.sources.logs.kafka.positions import topic_units
from rvertex.sources.logs.kafka.reader import KafkaLog
from rvertex.sources.spec import Checks, Live, SourcePartition, SourceSpec, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rvertex.sources.spec import Unit
    from tests.support.brokers import Broker
    from tests.support.mock_cluster import MockCluster

WAIT_S = 120.0
POLL_S = 0.01
COLUMNS = pa.schema([("t", pa.int64()), ("k", pa.string())])


def value(t: int, k: str = "a") -> bytes:
    return json.dumps({"t": t, "k": k}).encode()


def topic_spec(
    broker: Broker | MockCluster,
    topic: str,
    *,
    config: dict[str, str] | None = None,
    **options: Any,
) -> SourceSpec:
    """A JSON source; ``on_bad_row`` and ``on_lost`` are rules, other options are the topic's."""
    checks = Checks(options.pop("on_bad_row", "fail"))
    live = Live(on_lost=options.pop("on_lost", "fail"))
    given = {"bootstrap.servers": broker.servers, **(config or {})}
    return SourceSpec(
        kind=Topic("json", tuple(given.items()), **options),
        path=f"kafka://{broker.servers}/{topic}",
        shown=f"topic {topic}",
        schema=COLUMNS,
        columns=COLUMNS,
        vs="t",
        checks=checks,
        live=live,
    )


class Reading:
    """A reader and the rows that it returned."""

    def __init__(self, spec: SourceSpec, units: tuple[Unit, ...], positions: list[int]) -> None:
        self._came = threading.Event()
        self.log = KafkaLog(
            SourcePartition(spec, units, 0), positions, SystemClock(), self._came.set
        )
        self.next = list(positions)
        self.rows: list[list[tuple[int, int]]] = [[] for _ in units]
        self.dead: list[int] = []

    def until(self, position: int, partition: int = 0, rows_max: int = 1_000) -> None:
        """Read the partition exactly up to this position, over any number of fetches."""

        def is_read() -> bool:
            self.step(partition, min(rows_max, position - self.next[partition]))
            return self.next[partition] >= position

        if self.next[partition] < position:
            self.wait(is_read)

    def step(self, partition: int = 0, rows_max: int = 1_000) -> bool:
        found = self.log.read(partition, rows_max)
        if found is not None:
            times = found.batch.column("t").to_pylist()
            self.rows[partition] += zip(found.positions.tolist(), times, strict=True)
            self.next[partition] = found.next_position
            if found.dead is not None:
                self.dead += found.dead.column("position").to_pylist()
        return True

    def wait(self, holds: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < deadline_s, (self.next, self.log.waiting)
            self._came.wait(POLL_S)
            self._came.clear()


@contextlib.contextmanager
def reading(
    spec: SourceSpec, positions: list[int] | None = None, *, units: tuple[Unit, ...] | None = None
) -> Iterator[Reading]:
    """Return a reader of all partitions of the topic, for one vertex."""
    found = units or topic_units(spec)
    opened = Reading(spec, found, positions or [unit.first_seq for unit in found])
    try:
        yield opened
    finally:
        opened.log.close()
