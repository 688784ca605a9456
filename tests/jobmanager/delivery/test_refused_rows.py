"""Rows that a real destination rejects become dead letters, which the job reports."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner

import jobmanager
import streamscope as ss
from jobmanager.cli.main import app
from jobmanager.cli.requests import status_of
from jobmanager.driver.lost_rows import lost_lines
from jobmanager.errors import JobFailedError
from jobmanager.state.health import with_health
from rstream.errors import UsageError
from tests.support.jobs import WAIT_S, with_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from planner import Query
    from rvertex.sinks.spec import SinkSpec
    from tests.support.brokers import Broker
    from tests.support.postgres_server import PostgresServer

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5)
ROWS, BAD = 300, (0, 77, 78, 299)


def query_to(folder: Path, spec: SinkSpec, bad: Sequence[int], text: str) -> Query:
    rows = [{"t": i, "n": i, "s": text if i in bad else "good"} for i in range(ROWS)]
    (folder / "in.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ss.Stream.from_json(str(folder / "in.json"), vs="t", delay="0s").deliver(spec)


def take(folder: str, first_seq: int, batch: pa.RecordBatch) -> None:
    """Write a file for each call; a call with a bad row has no effect."""
    values = batch.to_pylist()
    for row in values:
        if row["s"] == "bad":
            raise ValueError(f"{row['n']} is bad")
    name = f"{folder}/{first_seq}-{batch.num_rows}.json"
    Path(name).write_text(json.dumps([row["n"] for row in values]))


@pytest.mark.parametrize("changes", [False, True])
def test_rows_refused_by_a_function(tmp_path: Path, changes: bool) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    called = functools.partial(take, str(calls))
    spec = ss.sinks.function(called, on_bad_row="dead_letter", name="orders", changes=changes)
    status = run(query_to(tmp_path, spec, BAD, "bad"), tmp_path / "job")
    assert (status["state"], [row["refused"] for row in status["deliveries"]]) == ("finished", [4])
    found = [n for path in calls.iterdir() for n in json.loads(path.read_text())]
    assert sorted(found) == [n for n in range(ROWS) if n not in BAD]
    letters = ss.read_dead_letters(str(tmp_path / "job"), "orders")
    assert letters["n"].to_pylist() == list(BAD)
    reason = letters["_reason"].to_pylist()[1]
    assert reason.startswith("it raised ValueError: 77 is bad at ")
    assert "in take: raise ValueError" in reason


def test_a_function_that_refuses_a_row_ends_its_delivery_with_an_error(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    rows = query_to(tmp_path, ss.sinks.function(functools.partial(take, str(calls))), BAD, "bad")
    with pytest.raises(JobFailedError, match=r"rejected a row.*0 is bad at .*correct the"):
        run(rows, tmp_path / "job")
    result = CliRunner().invoke(app, ["logs", str(tmp_path / "job")])
    assert "the job is failed: delivery function:take" in result.output


def run(query: Query, root: Path) -> dict[str, Any]:
    job = jobmanager.run(query, root=str(root), executor="local", config=QUICK, parallelism=1)
    job.wait(WAIT_S)
    return job.status()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_that_violate_a_constraint_become_dead_letters(
    postgres: PostgresServer, postgres_schema: str, tmp_path: Path, mode: Any
) -> None:
    table = f"{postgres_schema}.t"
    postgres.query(
        f'CREATE TABLE {table} (start timestamptz, "end" timestamptz, t bigint, n bigint UNIQUE, '
        "s text CHECK (s <> 'bad'))"
    )
    key = ["n"] if mode == "upsert" else []
    spec = ss.sinks.postgres(
        postgres.dsn, table, mode=mode, key=key, deletes="mark" if key else "delete",
        on_bad_row="dead_letter", name="orders",
    )  # fmt: skip
    status = run(query_to(tmp_path, spec, BAD, "bad"), tmp_path / "job")
    assert (status["state"], [row["refused"] for row in status["deliveries"]]) == ("finished", [4])
    assert [n for (n,) in postgres.query(f"SELECT n FROM {table} ORDER BY n")] == [
        n for n in range(ROWS) if n not in BAD
    ]
    letters = ss.read_dead_letters(str(tmp_path / "job"), "orders")
    assert letters["n"].to_pylist() == list(BAD)
    assert all("check constraint" in reason for reason in letters["_reason"].to_pylist())
    assert "refused 4 rows" in "\n".join(lost_lines(status))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["transactions", "headers"])
def test_records_that_are_too_large_become_dead_letters(
    broker: Broker, tmp_path: Path, mode: Any
) -> None:
    topic = broker.create_topic(f"refused-{mode}")
    spec = ss.sinks.kafka(
        topic, servers=broker.servers, mode=mode, on_bad_row="dead_letter", name="orders"
    )
    root = tmp_path / "job"
    status = run(query_to(tmp_path, spec, BAD, "x" * 2_000_000), root)
    assert (status["state"], [row["refused"] for row in status["deliveries"]]) == ("finished", [4])
    consumer = Consumer(
        {"bootstrap.servers": broker.servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found = [
        json.loads(consumer.consume(1, 20)[0].value() or b"")["n"] for _ in range(ROWS - len(BAD))
    ]
    consumer.close()
    assert sorted(found) == [n for n in range(ROWS) if n not in BAD]
    assert ss.read_dead_letters(str(root))["n"].to_pylist() == list(BAD)


@pytest.mark.slow
def test_a_failed_delivery_is_retried_with_dead_letters(
    postgres: PostgresServer, postgres_schema: str, tmp_path: Path
) -> None:
    table, root = f"{postgres_schema}.t", tmp_path / "job"
    postgres.query(
        f'CREATE TABLE {table} (start timestamptz, "end" timestamptz, t bigint, '
        "n bigint CHECK (n <> 77), s text)"
    )
    spec = ss.sinks.postgres(postgres.dsn, table, name="orders")
    with pytest.raises(JobFailedError, match="correct the rows"):
        run(query_to(tmp_path, spec, (), ""), root)
    status = status_of(str(root))
    assert [row["state"] for row in status["deliveries"]] == ["failed"]
    with pytest.raises(UsageError, match="on_bad_row"):
        ss.read_dead_letters(str(root), "orders")
    call = ["deliver", str(root), "--to", f"postgres:{table}", "--dsn", postgres.dsn]
    call += ["--name", "orders", "--on-bad-row", "dead_letter"]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    assert len(postgres.query(f"SELECT n FROM {table}")) == ROWS - 1
    assert ss.read_dead_letters(str(root), "orders")["n"].to_pylist() == [77]


def living(folder: Path, text: str) -> ss.Stream:
    """Values of three keys, each valid until the next value of its key."""
    rows = [
        {"t": i + 1, "k": "abc"[i % 3], "n": i, "s": text if i in LIVING_BAD else "good"}
        for i in range(LIVING)
    ]
    (folder / "in.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ss.Stream.from_json(str(folder / "in.json"), vs="t", delay="0s").upserts("k")


LIVING, LIVING_BAD = 60, (0, 20, 21, 58)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["upsert", "changes"])
def test_refused_rows_of_a_table_with_lifetimes(
    postgres: PostgresServer, postgres_schema: str, tmp_path: Path, form: str
) -> None:
    table = f"{postgres_schema}.t"
    op = "op text, " if form == "changes" else ""
    unique = "PRIMARY KEY" if form == "upsert" else ""
    postgres.query(
        f'CREATE TABLE {table} ({op}start timestamptz, "end" timestamptz, t bigint, '
        f"k text {unique}, n bigint, s varchar(9))"
    )
    how: Any = {"mode": "upsert", "key": ["k"]} if form == "upsert" else {"changes": True}
    spec = ss.sinks.postgres(postgres.dsn, table, on_bad_row="dead_letter", name="orders", **how)
    status = run(living(tmp_path, "x" * 10).deliver(spec), tmp_path / "job")
    assert status["state"] == "finished"
    letters = ss.read_dead_letters(str(tmp_path / "job"), "orders").to_pylist()
    assert not any(row["_is_end"] for row in letters)
    if form == "upsert":  # other keys had a successor row in the same commit
        assert [row["n"] for row in letters][-1:] == [58]
        assert postgres.query(f"SELECT k, n FROM {table} ORDER BY k") == [("a", 57), ("c", 59)]
    else:
        assert [row["n"] for row in letters] == list(LIVING_BAD)
        ended = postgres.query(f"SELECT n FROM {table} WHERE op IN ('-D', '-U')")
        assert not {n for (n,) in ended} & set(LIVING_BAD)
        found = postgres.query(f"SELECT n FROM {table} WHERE op IN ('+I', '+U') ORDER BY n")
        assert [n for (n,) in found] == [n for n in range(LIVING) if n not in LIVING_BAD]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["upsert", "changes", "debezium"])
def test_refused_records_of_rows_with_lifetimes(broker: Broker, tmp_path: Path, form: str) -> None:
    topic = broker.create_topic(f"refused-{form}")
    how: Any = {"upsert": {"upsert": True}, "changes": {"changes": True}}.get(
        form, {"format": "debezium-json"}
    )
    spec = ss.sinks.kafka(
        topic, servers=broker.servers, key=["k"], on_bad_row="dead_letter", name="orders", **how
    )
    status = run(living(tmp_path, "x" * 2_000_000).deliver(spec), tmp_path / "job")
    assert status["state"] == "finished", status["deliveries"]
    letters = ss.read_dead_letters(str(tmp_path / "job"), "orders").to_pylist()
    assert [(row["n"], row["_is_end"]) for row in letters] == [(n, False) for n in LIVING_BAD]
    begun = []
    for record in broker.read_committed(topic):
        value = json.loads(record.value or b"null") or {}
        row = value.get("after") if form == "debezium" else value
        if row and row.get("op", "+I") in ("+I", "+U"):
            begun.append(row["n"])
    assert sorted(begun) == [n for n in range(LIVING) if n not in LIVING_BAD]


def test_the_health_reports_refused_rows() -> None:
    row = {"delivery": "orders", "partition": 0, "state": "delivering", "error": "", "refused": 2}
    found = with_health({"state": "running", "root": "jobs/x", "deliveries": [row]})
    assert found["health"] == "degraded"
    (reason,) = found["reasons"]
    assert reason["reason"] == "the destination refused 2 rows of the delivery orders, partition 0"
    assert reason["advice"].endswith("ss.read_dead_letters('jobs/x', 'orders')")
