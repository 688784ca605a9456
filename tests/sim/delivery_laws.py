"""The laws of deliveries, checked where rows arrive: at the destination.

The expected rows are computed from the output's items by plain arithmetic; only the names of the
time columns come from production code.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobmanager.delivery.clean_rows import CleanRows
from jobmanager.delivery.deliveries import output_form
from rstream.items.batch import EVENT, item_schema
from rstream.items.digest import StreamDigest
from rstream.types import INF_TIME, MIN_TIME
from rvertex.sinks.parquet import KEY
from streamscope.testing.simulation.laws.shadow import read_table
from tests.sim.changing import ChangingWorkload
from tests.sim.retention_laws import IS_GONE, RetentionLaws
from tests.sim.topic_laws import TopicLaws, TopicSink

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planner.physical.plan import PhysicalPlan
    from rstream import Items
    from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress
    from streamscope.testing.simulation.scheduler import Scheduler
    from tests.sim.destinations import AnySink
    from tests.sim.workload import Workload

Key = tuple[str, int]
Row = tuple[Any, ...]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The error of a delivery with a start position that has already started.
HAS_BEGUN = "continue it without --from"


class DeliveryLaws:
    """Gets every event at the destinations."""

    def __init__(self, world: Scheduler, workload: Workload) -> None:
        self._world, self.workload = world, workload
        #: Columns of the rows, if a change may add some; rows from before have null in them.
        self._names: list[str] = []
        if isinstance(workload, ChangingWorkload):
            self._names = _names_of(workload.plans[1])
        self.retention = RetentionLaws(world, workload, self._needs)
        #: The destination of each delivery by name, and its start.
        self.sinks: dict[str, AnySink] = {}
        self.starts: dict[str, int] = {}
        #: Deliveries that started too late: their items were deleted.
        self.too_late: set[str] = set()
        #: Deliveries that a process has reported as complete.
        self.finished: set[Key] = set()
        self._writers: dict[tuple[Key, int], str] = {}
        self._epochs: dict[Key, int] = defaultdict(int)
        self._rows: dict[Key, list[tuple[int, Row]]] = defaultdict(list)
        self._calls: dict[Key, dict[int, list[Row]]] = defaultdict(dict)
        self._topics: dict[Key, TopicLaws] = {}
        #: Committed positions, with their digests.
        self._digests: dict[Key, dict[int, bytes]] = defaultdict(dict)

    @property
    def keys(self) -> list[Key]:
        """Return the key of each partition of each delivery that was ever started."""
        count = len(self.workload.sinks)
        return [(n, k) for n in self.sinks if n not in self.too_late for k in range(count)]

    def topic(self, key: Key) -> TopicLaws:
        """Return the laws of a topic, which know the contents of the output."""
        name, k = key
        if key not in self._topics:
            stream, _ = self.workload.sinks[k]
            batches = [items.batch for items in self.workload.answers[stream]]
            sink = self.sinks[name]
            assert isinstance(sink, TopicSink), sink
            self._topics[key] = TopicLaws(self._world, key, sink, pa.Table.from_batches(batches))
        return self._topics[key]

    def _needs(self) -> dict[Key, int]:
        """Return the first undelivered item of each committing delivery."""
        return {
            key: max(self._digests[key], default=self.starts[key[0]])
            for key in self.keys
            if self.sinks[key[0]].kind in ("epochs", "sessions")
        }

    # ---- told by destinations

    def was_opened(self, key: Key, epoch: int, writer: str) -> None:
        """An epoch belongs to one process."""
        self._world.note(f"{writer} opens {key} as {epoch}")
        owner = self._writers.setdefault((key, epoch), writer)
        if owner != writer:
            self._world.violate("one epoch, one writer", f"{key} {epoch}: {owner}, {writer}")
        self._epochs[key] = max(self._epochs[key], epoch)

    def was_committed(
        self,
        key: Key,
        epoch: int,
        former: DeliveryProgress | None,
        rows: Sequence[DeliveredRows],
        progress: DeliveryProgress,
    ) -> None:
        """Rows are in order, without repeats, and never from a replaced writer.

        Progress matches them.
        """
        name, _ = key
        self._world.note(f"{key} is delivered to {progress.next_seq} by {epoch}")
        self._world.met["delivery: commits"] += 1
        if epoch < self._epochs[key]:
            detail = f"{key}: {epoch} commits after {self._epochs[key]} opened"
            self._world.violate("no zombie delivers", detail)
        low = self.starts[name] if former is None else former.next_seq
        if progress.next_seq < low:
            self._world.violate("progress grows", f"{key}: from {low} to {progress.next_seq}")
        for part in rows:
            for seq, row in zip(part.seqs.tolist(), self._rows_in(part.table), strict=True):
                if not low <= seq < progress.next_seq:
                    detail = f"{key}: seq {seq} in a commit of [{low}, {progress.next_seq})"
                    self._world.violate("each row once, in order", detail)
                    return
                self._rows[key].append((seq, row))
                low = seq + 1
        self._note_digest(key, progress.next_seq, progress.digest)

    def was_called(self, key: Key, first_seq: int, batch: pa.RecordBatch) -> None:
        """A function is called again only with the same number and rows."""
        self._world.note(f"{key} is called with {batch.num_rows} rows from {first_seq}")
        self._world.met["delivery: calls"] += 1
        calls, rows = self._calls[key], self._rows_in(batch)
        if first_seq not in calls and first_seq < max(calls, default=0):
            self._world.violate("calls are in order", f"{key}: {first_seq} after {max(calls)}")
        if calls.setdefault(first_seq, rows) != rows:
            self._world.violate("a call is repeated as it was", f"{key}: {first_seq}")

    def was_reported(self, process: str, rows: Iterable[dict[str, Any]]) -> None:
        """Law: no delivery gives up, because every fault here is temporary."""
        for row in rows:
            key = row["delivery"], row["partition"]
            if row["state"] == "finished":
                self.finished.add(key)
            elif IS_GONE in row["error"] and self.retention.may_be_gone(key):
                self._world.met["delivery: too late for what is kept"] += 1
                self.too_late.add(key[0])
            elif row["state"] == "failed" and HAS_BEGUN not in row["error"]:
                self._world.violate("no delivery fails", f"{process}: {key}: {row['error']}")

    def _note_digest(self, key: Key, seq: int, digest: bytes) -> None:
        if self._digests[key].setdefault(seq, digest) != digest:
            self._world.violate("one past, one digest", f"{key}: {seq}")

    # ---- at the end

    def all_is_delivered(
        self, items: Mapping[str, Sequence[Items]], blobs: dict[str, bytes]
    ) -> None:
        """Law: the delivered rows are those of the output from the delivery's start, in order."""
        self.retention.beginnings_are_right(items)
        streams = [stream for stream, _ in self.workload.sinks]
        for key in self.keys:
            name, k = key
            pieces = items[streams[k]]
            batch = _joined(pieces)
            expected = [(s, r) for s, r in self._expected(batch) if s >= self.starts[name]]
            found: Sequence[Any] = self._rows[key]
            wanted: Sequence[Any] = expected
            if self.sinks[name].kind == "function":
                calls = self._calls[key]
                found = [row for first in sorted(calls) for row in calls[first]]
                wanted = [row for _, row in expected]
            elif getattr(self.sinks[name], "changes", False):  # the first column is the kind
                found = [(seq, row[1:]) for seq, row in found]
            elif self.sinks[name].kind == "parquet":
                found, wanted = self._files(key, blobs), [row for _, row in expected]
            if list(found) != list(wanted):
                what = f"{key}: {len(found)} rows of {len(wanted)}{_difference(found, wanted)}"
                self._world.violate("each row once, in order", what)
                return
            self._progress_is_right(key, pieces)

    def _progress_is_right(self, key: Key, pieces: Sequence[Items]) -> None:
        digests, end = self._digests[key], pieces[-1].next_seq
        total, at = StreamDigest(), 0
        for seq in sorted(digests):
            for items in pieces:
                lo, hi = max(at, items.first_seq), min(seq, items.next_seq)
                if lo < hi:
                    total.update(lo, items.batch.slice(lo - items.first_seq, hi - lo))
            at = seq
            if seq > end or total.to_bytes() != digests[seq]:
                self._world.violate("progress has its digest", f"{key}: {seq}")
                return
        if self.sinks[key[0]].kind != "function" and at != end:
            self._world.violate("all is delivered", f"{key}: {at} of {end}")

    def _expected(self, batch: pa.RecordBatch) -> list[tuple[int, Row]]:
        """Return each event of a partition as a row, with its seq."""
        plan = self.workload.plan
        assert plan is not None
        names = self._names or _names_of(plan)
        payload = batch.schema.names[3:]
        kind, vs, ve = (batch.column(i).to_pylist() for i in range(3))
        columns = {n: batch.column(3 + i).to_pylist() for i, n in enumerate(payload)}
        times = [n for n in names if n not in payload]
        columns |= {
            n: [_moment(choose(both)) for both in zip(vs, ve, strict=True)]
            for n, choose in zip(times, (min, max), strict=False)
        }
        nulls = [None] * batch.num_rows  # of a column that no change has added
        rows = list(zip(*(columns.get(n, nulls) for n in names), strict=True))
        return [(seq, row) for seq, row in enumerate(rows) if kind[seq] == EVENT]

    def _rows_in(self, table: pa.RecordBatch) -> list[Row]:
        if len(table.schema.names) < len(self._names):
            nulls = pa.nulls(table.num_rows)
            names = table.schema.names
            columns = [table.column(n) if n in names else nulls for n in self._names]
            table = pa.RecordBatch.from_arrays(columns, names=self._names)
        return rows_of(table)

    def _files(self, key: Key, blobs: dict[str, bytes]) -> list[Row]:
        """Return the rows that a reader of Parquet finds in the folder, and the stored progress."""
        from tests.sim.destinations import FOLDER

        name, k = key
        folder, rows = f"{FOLDER}{name}/", list[Row]()
        whole = sorted(b for b in blobs if b.endswith((".parquet", ".json")))
        for path in (b for b in whole if b.startswith(f"{folder}part-{k}-")):
            table = read_table(blobs[path])
            rows += [row for batch in table.to_batches() for row in self._rows_in(batch)]
            metadata = pq.read_metadata(pa.BufferReader(blobs[path])).metadata
            self._note_told(key, json.loads(metadata[KEY.encode()]))
        for path in (b for b in whole if b.startswith(f"{folder}_part-{k}-")):
            self._note_told(key, json.loads(blobs[path]))
        return rows

    def _note_told(self, key: Key, told: dict[str, Any]) -> None:
        if "next_seq" in told:
            self._note_digest(key, told["next_seq"], bytes.fromhex(told["digest"]))


def _names_of(plan: PhysicalPlan) -> list[str]:
    return CleanRows(item_schema(plan.schema), output_form(plan)).schema.names


def _joined(pieces: Sequence[Items]) -> pa.RecordBatch:
    """Return all items. Items from before a change have null in the columns that it added."""
    tables = [pa.Table.from_batches([items.batch]) for items in pieces]
    (batch,) = pa.concat_tables(tables, promote_options="default").combine_chunks().to_batches()
    return batch


def rows_of(table: pa.RecordBatch) -> list[Row]:
    """The rows of a table as tuples."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _moment(time_us: int) -> datetime | None:
    return None if time_us in (MIN_TIME, INF_TIME) else EPOCH + timedelta(microseconds=time_us)


def _difference(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    for place, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one != other:
            return f"; row {place}: {one}, not {other}"
    return ""
