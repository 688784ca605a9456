"""The destination suite with rows that end: the destination's table has the valid rows.

Each row of the suite comes with an extra row (ghost), which ends when the next row comes, often in
another write, commit or run of the writer. So a reader gets the suite's rows and only the newest
ghost.

Not covered: a repeated start of a row, which changes nothing for a reader of keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from rvertex.sinks.protocol import DeliveredRows
from rvertex.sinks.spec import DeliveryPlace, KafkaSink, PostgresSink, destination
from tests.rvertex.sinks.conformance import END, Deliveries, check_rows, deliver, opened
from tests.rvertex.sinks.kafka.places import BROKERS, KafkaPlace
from tests.rvertex.sinks.places import CTI_EVERY, SCHEMA, Row, items, progress
from tests.rvertex.sinks.test_postgres import PostgresPlace

if TYPE_CHECKING:
    from rvertex.sinks.protocol import Destination
    from tests.rvertex.sinks.places import Place
    from tests.support.brokers import Broker
    from tests.support.postgres_server import PostgresServer

KEY, ENDED = ("part", "n"), "ended"
CHANGING = SCHEMA.append(pa.field(ENDED, pa.int64()))
GHOST = "ghost"


def with_ghosts(rows: DeliveredRows) -> DeliveredRows:
    """Before each row: the end of the previous row's ghost.

    After it: the start of its own ghost.
    """
    part, n, word = rows.table.columns
    numbers = n.to_numpy()
    before = numbers - np.where((numbers - 1) % CTI_EVERY == 0, 2, 1)
    each = np.repeat(np.arange(len(numbers)), 3)
    is_row = np.tile([False, False, True], len(numbers))
    columns = [
        part.take(pa.array(each)),
        pa.array(np.stack([-before, -numbers, numbers], axis=1).ravel()),
        pa.concat_arrays([word, pa.array([GHOST])]).take(
            pa.array(np.where(is_row, each, len(numbers)))
        ),
    ]
    ends = np.tile([True, False, False], len(numbers))
    columns.append(pa.array(numbers[each], mask=~ends))
    there = np.stack([before > 0, numbers > 0, numbers > 0], axis=1).ravel()
    table = pa.RecordBatch.from_arrays(columns, schema=CHANGING).filter(pa.array(there))
    return DeliveredRows(
        rows.first_seq,
        rows.next_seq,
        rows.seqs[each][there],
        table,
        ends=ends[there],
        instants=numbers[each][there],
    )


class Changing:
    """A destination that gets ghosts in addition to its rows."""

    def __init__(self, inner: Destination) -> None:
        self._inner = inner
        self.open, self.commit, self.close = inner.open, inner.commit, inner.close

    def write(self, rows: DeliveredRows) -> None:
        self._inner.write(with_ghosts(rows))


@dataclass(frozen=True)
class ChangingPlace:
    """A place whose destination keeps one row per key."""

    inner: PostgresPlace | KafkaPlace

    def destination(self, partition: int, schema: pa.Schema = SCHEMA) -> Any:
        assert schema == SCHEMA
        sink = self.inner.sink
        return Changing(
            destination(sink, DeliveryPlace(sink.label, "d", partition, 2, CHANGING, end=ENDED))
        )

    def rows(self) -> list[Row]:
        """The suite's rows. In each partition only the newest ghost is valid."""
        found = self._living()
        assert all(row.pop(ENDED) is None for row in found)
        newest: dict[int, int] = {}
        for row in found:
            newest[row["part"]] = max(newest.get(row["part"], 0), row["n"])
        ghosts = {row["part"]: -row["n"] for row in found if row["word"] == GHOST}
        assert ghosts == newest
        assert len(ghosts) == sum(row["word"] == GHOST for row in found)
        return [row for row in found if row["word"] != GHOST]

    def _living(self) -> list[Row]:
        """The valid rows, with the column of the ends."""
        return self.inner.rows()


@dataclass(frozen=True)
class CompactedPlace(ChangingPlace):
    """A topic after its compaction."""

    inner: KafkaPlace

    def _living(self) -> list[Row]:
        sink, living = self.inner.sink, {}
        for record in BROKERS[sink.servers].read_committed(sink.topic):
            if record.value is None:
                del living[record.key]  # a tombstone always has a row
            else:
                living[record.key] = self.inner.row(record)
        # Keys are spread over the topic's partitions.
        return sorted(living.values(), key=lambda row: (row["part"], row["n"]))


@pytest.mark.slow
class TestUpsertedTable(Deliveries):
    @pytest.fixture
    def place(self, postgres: PostgresServer, postgres_schema: str) -> ChangingPlace:
        sink = PostgresSink(postgres.dsn, f"{postgres_schema}.rows", "upsert", KEY)
        return ChangingPlace(PostgresPlace(sink, key=KEY))


@pytest.mark.slow
class TestCompactedTopic(Deliveries):
    @pytest.fixture
    def place(self, broker: Broker, topic: str) -> CompactedPlace:
        BROKERS[broker.servers] = broker
        return CompactedPlace(KafkaPlace(KafkaSink(topic, broker.servers, key=KEY, upsert=True)))

    def test_partitions_are_independent(self, place: Place) -> None:
        """Their keys share the topic's partitions, where a reader waits for open transactions.

        A commit after an open transaction is stored, and becomes visible when that transaction
        ends: by a commit, or by a successor's abort.
        """
        with opened(place, 0, 5) as zero, opened(place, 1, 2) as one:
            zero.write(items(0, 0, 8))
            deliver(one, 1, 0, 5)
            zero.commit(progress(0, 8))
            check_rows(place, {0: 8, 1: 5})
            zero.write(items(0, 8, 11))
            deliver(one, 1, 5, 9)
            with opened(place, 0, 6, next_seq=8) as successor:
                check_rows(place, {0: 8, 1: 9})
                deliver(successor, 0, 8, END)
                check_rows(place, {0: END, 1: 9})
