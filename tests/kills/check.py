"""Compares the destinations of a job with the batch result over its topics."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import jobmanager
from jobmanager.storage.root import JobRoot
from rstream import read_events
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME
from tests.kills.log_feed import LogFeed
from tests.kills.queries import END, EVENT, EVENTS, LIVING, MORE, SIDES, START, SUMS
from tests.kills.scene import WrongError

if TYPE_CHECKING:
    from tests.kills.scene import Scene

Row = tuple[Any, ...]
_SHOWN = 5


@dataclass(frozen=True)
class Checked:
    """The number of compared rows."""

    events: int
    late: int
    answer: int
    #: Whether the order in the partitions equals that of an undisturbed run.
    in_order: bool


def check(scene: Scene) -> Checked:
    """Compare the topic and the table of a finished job with its batch result.

    Raises:
        WrongError: a row is missing, repeated, different or out of order.
    """
    spec = scene.spec
    if isinstance(scene.feed, LogFeed):
        return _check_windows(scene, scene.feed)
    late, events = _late_ids(scene), 0
    _check_more(scene)
    for name in (EVENTS, SIDES):
        events += _save(scene, name, late.get(name, set()))
    twin = jobmanager.collect_batch(spec.twin(str(scene.folder)))
    payload = [n for n in twin.column_names if n not in (VS, VE)]
    if spec.query in LIVING:
        return _check_living(scene, twin, [START, *payload], events, sum(map(len, late.values())))
    columns = [START, END, *payload]
    expected = Counter(_rows_of(twin))
    partitions = _topic_rows(scene, columns)
    _compare("topic", Counter(row for rows in partitions for row in rows), expected)
    _compare("table", Counter(_table_rows(scene, columns)), expected)
    late_count, count = sum(map(len, late.values())), sum(expected.values())
    if scene.rescales:
        return Checked(events, late_count, count, False)
    for number, rows in enumerate(partitions):
        starts = [row[0] for row in rows]
        if starts != sorted(starts):
            raise WrongError(f"partition {number} of the topic is not in order of time")
    if not any(late.values()):
        _compare_order(scene, partitions)
    return Checked(events, late_count, count, not any(late.values()))


def _check_windows(scene: Scene, feed: LogFeed) -> Checked:
    """Compare the topic and the table of a job over a log with the right counts."""
    columns, expected = [START, END, "key", "n", "ids", "last"], feed.windows()
    partitions = _topic_rows(scene, columns)
    _compare("topic", Counter(row for rows in partitions for row in rows), expected)
    _compare("table", Counter(_table_rows(scene, columns)), expected)
    return Checked(feed.written, 0, expected.total(), False)


def _check_living(
    scene: Scene, twin: pa.Table, columns: list[str], events: int, late: int
) -> Checked:
    """Compare the rows that are valid per key."""
    alive = twin.filter(pc.equal(twin[VE], INF_TIME)).drop_columns([VE])
    expected = Counter(_rows_of(alive))
    newest: dict[Any, Row] = {}
    key = columns.index(LIVING[scene.spec.query])
    for rows in _topic_rows(scene, columns):
        newest |= {row[key]: row for row in rows}
    _compare("topic", Counter(newest.values()), expected)
    _compare("table", Counter(_table_rows(scene, columns)), expected)
    return Checked(events, late, expected.total(), False)


def _check_more(scene: Scene) -> None:
    """Check that the added column, where rows have it, has the query's result or null."""
    spec = scene.spec
    if spec.query in SUMS:
        return
    rows = [
        json.loads(record.value)
        for record in scene.broker.read_committed(spec.topic("answer"))
        if record.value
    ]
    wrong = [row for row in rows if row.get(MORE) not in (None, 2 * (row["id"] or 0))]
    columns = "SELECT attname::text FROM pg_attribute WHERE attrelid = "
    if (MORE,) in scene.server.query(f"{columns}'{spec.table}'::regclass"):
        others = f"SELECT id, {MORE} FROM {spec.table} WHERE {MORE} <> 2 * id"
        wrong += scene.server.query(others)
    if wrong:
        raise WrongError(f"column {MORE} of {len(wrong)} rows: {wrong[:_SHOWN]}")


def _compare(place: str, found: Counter[Row], expected: Counter[Row]) -> None:
    if found != expected:
        missing, extra = expected - found, found - expected
        raise WrongError(
            f"the {place} has {found.total():,} rows, the batch {expected.total():,}; "
            f"missing {missing.total()}: {sorted(missing)[:_SHOWN]}, "
            f"extra {extra.total()}: {sorted(extra)[:_SHOWN]}"
        )


def _compare_order(scene: Scene, partitions: list[list[Row]]) -> None:
    """Compare each partition, row by row, with an undisturbed run over the same topics."""
    query = scene.spec.answer(until="latest")
    job = jobmanager.run(query, root=str(scene.folder / "undisturbed"), executor="local")
    job.wait()
    for number, (_, uri) in enumerate(job.plan.sink_streams()):
        expected = _rows_of(read_events(uri))
        for place, pair in enumerate(zip(partitions[number], expected, strict=True)):
            if pair[0] != pair[1]:
                raise WrongError(f"partition {number}, row {place}: {pair[0]}, not {pair[1]}")


def _rows_of(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _late_ids(scene: Scene) -> dict[str, set[int]]:
    """The ids of the events per topic that were dropped because they were late."""
    plan = JobRoot(scene.spec.root).read_plan()
    assert plan is not None
    found: dict[str, set[int]] = {}
    for vertex in plan.vertices:
        if vertex.source is not None:
            (name,) = (n for n in (EVENTS, SIDES) if vertex.source.spec.path.endswith(f"-{n}"))
            late = jobmanager.read_late(scene.spec.root, vertex.stage)
            found[name] = set(late["id"].to_pylist())
    return found


def _save(scene: Scene, name: str, late: set[int]) -> int:
    """Write a topic's rows by time, without late ones. Return their number."""
    records = scene.broker.read_committed(scene.spec.topic(name))
    rows = [json.loads(record.value or b"") for record in records]
    kept = sorted((row for row in rows if row["id"] not in late), key=lambda row: row["at"])
    pq.write_table(pa.Table.from_pylist(kept, schema=EVENT), scene.folder / f"{name}.parquet")
    return len(kept)


def _topic_rows(scene: Scene, columns: list[str]) -> list[list[Row]]:
    """The rows of each partition, in order."""
    topic = scene.spec.topic("answer")
    found: list[list[Row]] = [[] for _ in scene.broker.partitions(topic)]
    for record in scene.broker.read_committed(topic):
        row = json.loads(record.value or b"")
        found[record.partition].append(tuple(_value(row[name]) for name in columns))
    return found


def _table_rows(scene: Scene, columns: list[str]) -> list[Row]:
    statement = f"SELECT {', '.join(columns)} FROM {scene.spec.table}"
    return [tuple(map(_value, row)) for row in scene.server.query(statement)]


def _value(value: object) -> object:
    """Convert times to microseconds."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        at = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (at - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND
    return value


_MICROSECOND = datetime.resolution
