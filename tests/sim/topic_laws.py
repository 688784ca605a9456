"""A simulated topic of changes, and its law: readers have the valid rows.

The valid rows follow from the output's items by plain arithmetic: a start edge adds its row, an end
edge removes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rstream.items.batch import EVENT
from rvertex.sinks.protocol import DELETE, UPDATE_BEFORE
from rvertex.sinks.spec import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from rvertex.sinks.kafka.records import Record
    from streamscope.testing.simulation.scheduler import Scheduler
    from tests.sim.destinations import Kind

Key = tuple[Any, ...]


@dataclass(frozen=True)
class TopicSink(KafkaSink):
    """A topic whose readers keep rows by key; its writers are fenced as in Kafka."""

    kind: Kind = "sessions"

    @property
    def label(self) -> str:
        return self.name


class TopicLaws:
    """The records of one partition, and the output rows that they represent."""

    def __init__(self, world: Scheduler, place: object, sink: TopicSink, items: pa.Table) -> None:
        self._world, self._place, self._sink = world, place, sink
        payload = items.column_names[3:]
        kinds, times, others = (items.column(i).to_pylist() for i in range(3))
        rows = zip(*(items.column(n).to_pylist() for n in payload), strict=True)
        #: By seq: the time of each event, whether it is an end edge, its key and its row.
        self._events: list[tuple[int, bool, Key, dict[str, Any]] | None] = []
        for kind, time, other, values in zip(kinds, times, others, rows, strict=True):
            row = dict(zip(payload, values, strict=True))
            key = tuple(row[name] for name in sink.key)
            self._events.append((time, other < time, key, row) if kind == EVENT else None)
        self._values: dict[Key, dict[str, Any]] = {}
        self._alive: list[tuple[Key, dict[str, Any]]] = []
        self._next_seq = 0

    def take(self, records: Iterable[Record], next_seq: int) -> None:
        """Add records that became visible together.

        ``next_seq``: the delivery's position after them.
        """
        for record in records:
            assert record.key is not None
            decoded = json.loads(record.key)
            key = tuple(decoded.values()) if isinstance(decoded, dict) else (decoded,)
            value = None if record.value is None else json.loads(record.value)
            if self._sink.format == "debezium-json":
                self._event(key, value, record.seq)
            elif self._sink.changes:
                self._change(key, value, record.seq)
            elif value is not None:
                self._values[key] = value
            else:
                self._remove(key, record.seq)
        self._follow(next_seq)
        expected = dict(self._alive)
        if len(expected) != len(self._alive):
            self._violate("one row per key", f"at seq {next_seq}")
        found = {
            key: {name: value[name] for name in expected.get(key, value)}
            for key, value in self._values.items()
        }
        if found != expected:
            self._violate("a topic has what is alive", f"at seq {next_seq}: {found}, {expected}")

    def _event(self, key: Key, event: dict[str, Any], seq: int) -> None:
        """A Debezium event: its "before" is the present row of the key."""
        self._world.met[f"delivery: events {event['op']}"] += 1
        if self._values.get(key) != event["before"]:
            self._violate("an event follows the one before", f"{key} at seq {seq}: {event}")
        if event["after"] is None:
            self._remove(key, seq)
        else:
            self._values[key] = event["after"]

    def _change(self, key: Key, row: dict[str, Any], seq: int) -> None:
        """Apply a record with a kind of change: a row starts or ends."""
        op = row.pop("op")
        self._world.met[f"delivery: changes {op}"] += 1
        if op == DELETE:
            self._remove(key, seq)
        elif op == UPDATE_BEFORE:
            if self._values.pop(key, None) is None:
                self._violate("an update has a row", f"{key} at seq {seq}")
        else:
            if key in self._values:
                self._violate("a row begins when the one before has ended", f"{key} at seq {seq}")
            self._values[key] = row

    def _remove(self, key: Key, seq: int) -> None:
        """Remove the row of the key."""
        self._world.met["delivery: tombstones"] += 1
        if self._values.pop(key, None) is None:
            self._violate("a tombstone has a row", f"{key} at seq {seq}")
        if self._has_row_after(seq, key):
            self._violate("only net changes are delivered", f"{key} at seq {seq}")

    def _has_row_after(self, seq: int, key: Key) -> bool:
        """Whether a row of the key is valid after the instant of an item."""
        event = self._events[seq]
        assert event is not None
        signs = [
            -1 if is_end else 1
            for time, is_end, other, _ in filter(None, self._events)
            if other == key and time <= event[0]
        ]
        return sum(signs) > 0

    def _follow(self, next_seq: int) -> None:
        for event in self._events[self._next_seq : next_seq]:
            if event is None:
                continue
            _, is_end, key, row = event
            if is_end:
                self._alive.remove((key, row))
            else:
                self._alive.append((key, row))
        self._next_seq = max(self._next_seq, next_seq)

    def _violate(self, law: str, detail: str) -> None:
        self._world.violate(law, f"{self._place}: {detail}")
