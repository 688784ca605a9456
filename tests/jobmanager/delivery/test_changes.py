"""Open rows are delivered at their start: an upserted table has the valid rows at each commit.

Not covered: failures (tests/rvertex/sinks, tests/jobmanager/delivery).
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import streamscope as ss
from jobmanager.cli.main import app
from jobmanager.delivery.standalone import deliver
from tests.support.brokers import Record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Broker
    from tests.support.postgres_server import PostgresServer

SECOND = 1_000_000
ORDERS = {"k": "string", "x": "int64"}
PRICES = {"item": "string", "price": "int64", "gone": "bool"}


def orders(seed: int) -> ss.Stream:
    chance = random.Random(seed)
    rows = [
        ss.event(t * SECOND, k=chance.choice(["a", "b", "c", None]), x=chance.randint(-5, 5))
        for t in range(60)
    ]
    return ss.Stream.from_items(ORDERS, [*rows, ss.event(60 * SECOND, k="once", x=7)])


def prices(seed: int) -> ss.Stream:
    chance = random.Random(seed)
    rows = [
        ss.event(
            t * SECOND,
            item=chance.choice(["p", "q", "r"]),
            price=chance.randint(1, 9),
            gone=chance.random() < 0.4,
        )
        for t in range(50)
    ]
    return ss.Stream.from_items(PRICES, rows)


def run(query: ss.Query, tmp_path: Path) -> None:
    ss.run(query, root=str(tmp_path / "root"), executor="local", parallelism=2).wait()


@pytest.mark.parametrize("seed", range(3))
def test_changes_of_a_running_total_per_key(
    seed: int, tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    table = f"{postgres_schema}.totals"
    totals = orders(seed).group_by("k").agg(n=ss.agg.count(), total=ss.agg.sum("x"))
    run(totals.to_postgres(postgres.dsn, table, mode="upsert", key="k"), tmp_path)
    alive = [r for r in ss.collect(totals, executor="local").to_pylist() if r["_ve"] == 2**63 - 1]
    found = postgres.query(f"SELECT k, n, total FROM {table} WHERE window_end IS NULL")
    assert _sorted(found) == _sorted([(r["k"], r["n"], r["total"]) for r in alive])
    assert len(found) == 5
    assert postgres.query(f"SELECT count(*) FROM {table}") == [(5,)]


@pytest.mark.parametrize("deletes", ["delete", "mark", "ignore"])
def test_a_deleted_version_of_a_row(
    deletes: Any, tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    table = f"{postgres_schema}.prices_{deletes}"
    current = prices(5).upserts("item", deleted=ss.col("gone")).select("item", "price")
    query = current.to_postgres(postgres.dsn, table, mode="upsert", key="item", deletes=deletes)
    run(query, tmp_path)
    rows = ss.collect(current, executor="local").to_pylist()
    alive = [(r["item"], r["price"]) for r in rows if r["_ve"] == 2**63 - 1]
    last = {r["item"]: r["price"] for r in sorted(rows, key=lambda r: r["_vs"])}
    found = postgres.query(f"SELECT item, price FROM {table}")
    open_ = postgres.query(f'SELECT item, price FROM {table} WHERE "end" IS NULL')
    assert 0 < len(alive) < 3, "the case needs a price that is gone, and one that is not"
    assert _sorted(found) == _sorted(alive if deletes == "delete" else list(last.items()))
    assert _sorted(open_) == _sorted(alive if deletes != "ignore" else list(last.items()))


def test_an_aggregate_over_deleted_rows(
    tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    table = f"{postgres_schema}.per_price"
    current = prices(2).upserts("item", deleted=ss.col("gone"))
    counted = current.group_by("price").agg(n=ss.agg.count(), top=ss.agg.max("item"))
    run(counted.to_postgres(postgres.dsn, table, mode="upsert", key="price"), tmp_path)
    alive = [r for r in ss.collect(counted, executor="local").to_pylist() if r["_ve"] == 2**63 - 1]
    found = postgres.query(f"SELECT price, n, top FROM {table}")
    assert alive
    assert _sorted(found) == _sorted([(r["price"], r["n"], r["top"]) for r in alive])


@pytest.mark.parametrize("deletes", ["delete", "ignore"])
def test_changes_of_growing_sessions(
    deletes: Any, tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    """The row of a session is deleted when the session ends, unless deletes are ignored."""
    table = f"{postgres_schema}.sessions_{deletes}"
    grown = orders(3).group_by("k").window(ss.session("2s", running=True))
    counts = grown.agg(n=ss.agg.count(), since=ss.agg.min(ss.vs()))
    query = counts.to_postgres(
        postgres.dsn, table, mode="upsert", key=["k", "since"], deletes=deletes
    )
    run(query, tmp_path)
    final = orders(3).group_by("k").window(ss.session("2s")).agg(n=ss.agg.count())
    rows = ss.collect(final, executor="local").select(["k", "n"]).to_pylist()
    expected = [(r["k"], r["n"]) for r in rows] if deletes == "ignore" else []
    assert _sorted(postgres.query(f"SELECT k, n FROM {table}")) == _sorted(expected)


def test_changes_of_open_windows(
    tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    """The table has one row per key and window at each instant; at the end the final results."""
    table = f"{postgres_schema}.early"
    windows = orders(3).group_by("k").window(ss.tumbling("10s"), emit="changes")
    totals = windows.agg(n=ss.agg.count(), total=ss.agg.sum("x"))
    run(totals.to_postgres(postgres.dsn, table, mode="upsert", key=["k", "window_start"]), tmp_path)
    final = orders(3).group_by("k").window(ss.tumbling("10s")).agg(n=ss.agg.count())
    expected = ss.collect(final, executor="local").select(["k", "n"]).to_pylist()
    found = postgres.query(f"SELECT k, n FROM {table} WHERE is_final")
    assert _sorted(found) == _sorted([r.values() for r in expected])
    assert postgres.query(f"SELECT count(*) FROM {table}") == [(len(found),)]
    whole = ss.collect(totals, executor="local").to_pylist()
    for second in range(0, 60, 7):
        now = ss.read_table(str(tmp_path / "root"), at=second * SECOND).to_pylist()
        alive = [r for r in whole if r["_vs"] <= second * SECOND < r["_ve"]]
        columns = ("k", "window_start", "n", "total", "is_final")
        rows = ([tuple(r[c] for c in columns) for r in table] for table in (now, alive))
        assert _sorted(next(rows)) == _sorted(next(rows)), second
        assert len({(r["k"], r["window_start"]) for r in now}) == len(now)


def _sorted(rows: list[Any]) -> list[Any]:
    return sorted(map(tuple, rows), key=lambda row: tuple((v is None, str(v)) for v in row))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["transactions", "headers"])
def test_a_compacted_topic_contains_the_current_rows(
    mode: Any, tmp_path: Path, broker: Broker
) -> None:
    topic = broker.create_topic(f"prices-{mode}", 2)
    current = prices(5).upserts("item", deleted=ss.col("gone")).select("item", "price")
    query = current.to_kafka(topic, servers=broker.servers, key="item", mode=mode, upsert=True)
    run(query, tmp_path)
    rows = ss.collect(current, executor="local").to_pylist()
    alive = {r["item"]: r["price"] for r in rows if r["_ve"] == 2**63 - 1}
    records = broker.read_committed(topic)
    values = {r.key.decode(): r.value and json.loads(r.value)["price"] for r in records if r.key}
    assert {k: v for k, v in values.items() if v} == alive
    ended = [r for r in rows if r["_ve"] != 2**63 - 1]
    begins = {(r["item"], r["_vs"]) for r in rows}
    tombstones = sum(not r.value for r in records)
    assert tombstones == sum((r["item"], r["_ve"]) not in begins for r in ended) > 0
    assert len(records) == len(rows) + tombstones


def test_the_table_can_be_read_at_any_time(
    tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    current = prices(2).upserts("item", deleted=ss.col("gone")).select("item", "price")
    table = f"{postgres_schema}.anywhen"
    run(current.to_postgres(postgres.dsn, table, mode="upsert", key="item"), tmp_path)
    rows = ss.collect(current, executor="local").to_pylist()
    root = str(tmp_path / "root")
    for second in range(50):
        at = second * SECOND
        alive = [(r["item"], r["price"]) for r in rows if r["_vs"] <= at < r["_ve"]]
        found = ss.read_table(root, at=at).select(["item", "price"]).to_pylist()
        assert _sorted([r.values() for r in found]) == _sorted(alive), second
    now = ss.read_table(root).select(["item", "price"]).to_pylist()
    assert _sorted([r.values() for r in now]) == _sorted(
        postgres.query(f"SELECT item, price FROM {table}")
    )


def test_the_table_of_an_answer_with_complete_rows(tmp_path: Path) -> None:
    current = prices(2).upserts("item").select("item", "price")
    run(current.to_parquet(), tmp_path)
    found = ss.read_table(str(tmp_path / "root"), at="1970-01-01T00:00:20Z")
    rows = ss.collect(current, executor="local").to_pylist()
    alive = [(r["item"], r["price"]) for r in rows if r["_vs"] <= 20 * SECOND < r["_ve"]]
    assert _sorted([(r["item"], r["price"]) for r in found.to_pylist()]) == _sorted(alive)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_key_that_moves_from_one_vertex_to_another(
    parallelism: int, tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    table = f"{postgres_schema}.seats"
    chance = random.Random(4)
    order = [0, 1, 2, 3, 4, 5]
    rows = []
    for second in range(30):
        chance.shuffle(order)
        rows += [ss.event(second * SECOND, guest=f"g{g}", seat=s) for g, s in enumerate(order)]
    guests = ss.Stream.from_items({"guest": "string", "seat": "int64"}, rows)
    query = guests.upserts("guest").to_postgres(postgres.dsn, table, mode="upsert", key="seat")
    root = str(tmp_path / "root")
    ss.run(query, root=root, executor="local", parallelism=parallelism).wait()
    found = postgres.query(f"SELECT guest, seat FROM {table}")
    assert sorted(found) == [(f"g{g}", s) for g, s in enumerate(order)]


def test_a_later_delivery_by_a_moving_key_is_rejected(tmp_path: Path) -> None:
    rows = [ss.event(t, guest=f"g{t % 3}", seat=t % 4) for t in range(9)]
    guests = ss.Stream.from_items({"guest": "string", "seat": "int64"}, rows, partitions=2)
    run(guests.to_parquet(), tmp_path)
    upsert = ss.sinks.kafka("seats", servers="localhost:1", key="seat", upsert=True)
    with pytest.raises(ss.UsageError, match=r"rows of one key \(seat\) are in several partitions"):
        deliver(str(tmp_path / "root"), [upsert])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "debezium-json"])
def test_a_topic_with_changes_of_a_table(
    form: Any, tmp_path: Path, broker: Broker, postgres: PostgresServer, postgres_schema: str
) -> None:
    topic, table = broker.create_topic(f"people-{form}", 2), f"{postgres_schema}.people"
    chance = random.Random(form)
    alive: dict[int, str] = {}
    records: dict[int, list[Record]] = {0: [], 1: []}
    for turn in range(80):
        id = chance.randint(1, 6)
        old = {"id": id, "name": alive[id]} if id in alive else None
        new = {"id": id, "name": f"n{turn}"} if old is None or chance.random() < 0.5 else None
        event = {"before": old, "after": new, "op": "c" if old is None else "u" if new else "d"}
        value = json.dumps(new if form == "json" else event).encode()
        is_gone = new is None and form == "json"
        record = Record(None if is_gone else value, str(id).encode(), timestamp_ms=1000 + turn)
        records[id % 2].append(record)
        if new is None:
            del alive[id]
        else:
            alive[id] = new["name"]
    for partition, some in records.items():
        broker.produce(topic, some, partition)
    people = ss.Stream.from_kafka(
        topic,
        servers=broker.servers,
        schema={"id": "int64", "name": "string"},
        format=form,
        key="id",
        vs="timestamp",
        delay="1s",
        until="latest",
    )
    run(people.to_postgres(postgres.dsn, table, mode="upsert", key="id"), tmp_path)
    assert sorted(postgres.query(f"SELECT id, name FROM {table}")) == sorted(alive.items())
    assert 0 < len(alive) < 6


def replayed(changes: list[tuple[str, Any, Any]]) -> dict[Any, Any]:
    """The table after applying changes ``(op, key, value)``; each change must fit the table."""
    table: dict[Any, Any] = {}
    for op, key, value in changes:
        if op == "+I":
            assert key not in table
        else:
            assert key in table or op == "+U"
        if op in ("-D", "-U"):
            assert table.pop(key) == value
        else:
            table[key] = value
    return table


def _change_of(row: dict[str, Any]) -> tuple[str, Any, Any]:
    return (row["op"], row["item"], row["price"])


def versions() -> tuple[ss.Stream, dict[str, int]]:
    current = prices(5).upserts("item", deleted=ss.col("gone")).select("item", "price")
    rows = ss.collect(current, executor="local").to_pylist()
    return current, {r["item"]: r["price"] for r in rows if r["_ve"] == 2**63 - 1}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_changes_are_appended(parallelism: int, tmp_path: Path) -> None:
    current, alive = versions()
    folder = str(tmp_path / "changes")
    query = current.deliver(ss.sinks.parquet(folder, roll="0s", changes=True))
    root = str(tmp_path / "root")
    ss.run(query, root=root, executor="local", parallelism=parallelism).wait()
    table = pq.read_table(folder)
    assert table.column_names == ["op", "start", "end", "item", "price"]
    rows = table.to_pylist()
    assert {r["op"] for r in rows} == {"+I", "-D"}
    rows.sort(key=lambda r: (r["start"] if r["op"] == "+I" else r["end"], r["op"] == "+I"))
    assert replayed([_change_of(r) for r in rows]) == alive
    whole = ss.collect(current, executor="local").num_rows
    assert sum(r["op"] == "+I" for r in rows) == whole > len(alive) > 0


def test_changes_can_be_delivered_later(tmp_path: Path) -> None:
    current, alive = versions()
    root = str(tmp_path / "root")
    run(current.deliver(ss.sinks.parquet(str(tmp_path / "changes"), changes=True)), tmp_path)
    call = ["deliver", root, "--to", "console", "--json", "--name", "later"]
    found = CliRunner().invoke(app, [*call, "--changes"])
    *rows, _ = [json.loads(line) for line in found.stdout.splitlines()]
    rows.sort(key=lambda r: (r["start"] if r["op"] == "+I" else r["end"], r["op"] == "+I"))
    assert replayed([_change_of(r) for r in rows]) == alive
    assert "it needs a destination that keeps" in CliRunner().invoke(app, call).output


def test_complete_rows_cannot_be_delivered_as_changes(tmp_path: Path) -> None:
    run(versions()[0].to_parquet(), tmp_path)
    call = ["deliver", str(tmp_path / "root"), "--json"]
    debezium = ["kafka:t", "--servers", "s:1", "--key", "item", "--format", "debezium-json"]
    whole = "has whole rows, not changes"
    for options, reason in (
        (["--to", "console", "--changes"], whole),
        (["--to", *debezium], whole),
        (["--to", "console", "--upsert"], "--upsert is an option of kafka"),
        (["--deletes", "mark"], "--deletes need a destination: add --to"),
    ):
        found = CliRunner().invoke(app, [*call, *options])
        assert found.exit_code != 0
        assert reason in found.output, found.output


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["transactions", "headers"])
@pytest.mark.parametrize("form", ["json", "debezium-json"])
def test_changes_are_delivered_to_a_topic(
    form: Any, mode: Any, tmp_path: Path, broker: Broker
) -> None:
    topic = broker.create_topic(f"changes-{mode}-{form}", 2)
    current, alive = versions()
    query = current.to_kafka(
        topic, servers=broker.servers, key="item", mode=mode, format=form, changes=form == "json"
    )
    run(query, tmp_path)
    changes = []
    for record in broker.read_committed(topic):
        assert record.value is not None
        row = json.loads(record.value)
        if form == "json":
            changes.append(_change_of(row))
            continue
        key = (record.key or b"").decode()
        sides = [("-U", "+U"), ("-D", "+I")][row["op"] != "u"]
        changes += [
            (op, key, side["price"])
            for op, side in zip(sides, (row["before"], row["after"]), strict=True)
            if side is not None
        ]
    assert replayed(changes) == alive
    assert {op for op, _, _ in changes} == {"+I", "-U", "+U", "-D"}
    if form == "debezium-json":  # read the changes back as the table
        schema = {"item": "string", "price": "int64"}
        again = ss.Stream.from_kafka(
            topic,
            servers=broker.servers,
            schema=schema,
            format=form,
            key="item",
            vs="ts_ms",
            delay="60s",
            until="latest",
        )
        found = ss.collect(again, executor="local").to_pylist()
        assert {r["item"]: r["price"] for r in found if r["_ve"] == 2**63 - 1} == alive


def test_complete_rows_are_delivered_as_inserts(tmp_path: Path) -> None:
    counts = orders(1).group_by("k").window(ss.tumbling("10s")).agg(n=ss.agg.count())
    folder = str(tmp_path / "changes")
    run(counts.deliver(ss.sinks.parquet(folder, roll="0s", changes=True)), tmp_path)
    rows = pq.read_table(folder).to_pylist()
    assert {r["op"] for r in rows} == {"+I"}
    assert len(rows) == ss.collect(counts, executor="local").num_rows


def test_changes_need_a_destination_that_accepts_them(tmp_path: Path) -> None:
    current, _ = versions()
    changes = ss.sinks.parquet(str(tmp_path / "changes"), changes=True)
    with pytest.raises(
        ss.UsageError,
        match="needs the changes of rows, but console needs the end of each row",
    ):
        run(current.deliver(changes, ss.sinks.console()), tmp_path)
    with pytest.raises(ss.UsageError, match="leave out end=None"):
        run(prices(1).with_columns(at=ss.vs()).deliver(changes, end=None), tmp_path)
    with pytest.raises(ss.UsageError, match="the query has one: rename it"):
        current.with_columns(op=ss.lit(1)).deliver(changes)
    for options in ({"upsert": True, "changes": True}, {"format": "debezium-json"}):
        key = "item" if "upsert" in options else ()
        with pytest.raises(ss.UsageError, match=r"exclude each other|needs key"):
            current.to_kafka("t", servers="x", key=key, **options)  # type: ignore[arg-type]
    with pytest.raises(ss.UsageError, match="changes=True needs mode='append'"):
        current.to_postgres("dbname=x", "t", mode="upsert", key="item", changes=True)


@pytest.mark.parametrize("progress", [False, True])
def test_a_subscription_reports_changes_of_rows(progress: bool, tmp_path: Path) -> None:
    current, alive = versions()
    query = current.deliver(ss.sinks.parquet(str(tmp_path / "changes"), changes=True))
    job = ss.run(query, root=str(tmp_path / "root"), executor="local", parallelism=2)
    table: dict[Any, Any] = {}
    ops = set()
    with job.subscribe(progress=progress) as subscription:
        for batch in subscription:
            assert batch.schema.names.index("_op") == batch.schema.names.index("_ve") + 1
            for row in batch.to_pylist():
                ops.add(row["_op"])
                if row["_op"] == "-D":
                    assert row["_ve"] < row["_vs"]
                    assert table.pop(row["item"]) == row["price"]
                elif row["_op"] == "+I":
                    assert row["item"] not in table
                    table[row["item"]] = row["price"]
    job.wait()
    assert table == alive
    assert ops == {"+I", "-D", *([None] if progress else [])}


def test_a_subscription_to_complete_rows_is_unchanged(tmp_path: Path) -> None:
    job = ss.run(prices(1).to_parquet(), root=str(tmp_path / "root"), executor="local")
    with job.subscribe() as subscription:
        names = {tuple(batch.schema.names) for batch in subscription}
    assert names == {("partition", "_seq", "_vs", "_ve", *PRICES)}


def test_changes_arrive_once_although_a_destination_fails(tmp_path: Path) -> None:
    """A repeated call has the same rows, so a receiver that keys them by position has each once."""
    current, alive = versions()
    calls: dict[tuple[str, int], list[dict[str, Any]]] = {}
    failures = []

    def take(first_seq: int, batch: pa.RecordBatch, stream: str) -> None:
        rows = batch.to_pylist()
        assert calls.setdefault((stream, first_seq), rows) == rows
        if len(failures) < 4 and len(calls) % 2:
            failures.append(first_seq)
            raise OSError("the destination is away")

    run(current.deliver(ss.sinks.function(take, changes=True)), tmp_path)
    changes = [_change_of(row) for place in sorted(calls) for row in calls[place]]
    assert failures
    assert replayed(changes) == alive
    assert sum(op == "+I" for op, _, _ in changes) == ss.collect(current, executor="local").num_rows
