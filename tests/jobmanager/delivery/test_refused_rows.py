"""Rows that a real destination refuses go to the dead letters, and the job shows them."""

from __future__ import annotations

import json
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
    from pathlib import Path

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


def run(query: Query, root: Path) -> dict[str, Any]:
    job = jobmanager.run(query, root=str(root), executor="local", config=QUICK, parallelism=1)
    job.wait(WAIT_S)
    return job.status()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_that_violate_a_constraint(
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
def test_records_that_are_too_large(broker: Broker, tmp_path: Path, mode: Any) -> None:
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
def test_a_delivery_that_ended_is_delivered_again_with_dead_letters(
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


def test_the_health_says_that_rows_were_refused() -> None:
    row = {"delivery": "orders", "partition": 0, "state": "delivering", "error": "", "refused": 2}
    found = with_health({"state": "running", "root": "jobs/x", "deliveries": [row]})
    assert found["health"] == "degraded"
    (reason,) = found["reasons"]
    assert reason["reason"] == "the destination refused 2 rows of the delivery orders, partition 0"
    assert reason["advice"].endswith("ss.read_dead_letters('jobs/x', 'orders')")
