"""A running job that makes no progress reports the reason; all views report the same."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager.cli.exits import EXIT_DEGRADED
from jobmanager.cli.main import app
from jobmanager.cli.view import progress_line
from planner import Stream, sinks
from rvertex.sinks.limits import DeliveryLimits
from tests.support.feed import Feed
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import FILE_ROWS, Watch, finish, write_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from planner import Query
    from tests.support.brokers import Broker
    from tests.support.postgres_server import PostgresServer

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5)
Status = dict[str, Any]


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.stdout


def has_reason(words: str) -> Callable[[Status], bool]:
    return lambda status: any(words in row["reason"] for row in status.get("reasons", ()))


def follow(folder: Path) -> Stream:
    folder.mkdir(exist_ok=True)
    write_file(folder, 0)
    return Stream.from_json(str(folder), vs="t", delay="0s", follow=True, poll_every="20ms")


@pytest.mark.slow
def test_a_delivery_without_permission_is_reported_and_continues_without_a_restart(
    postgres: PostgresServer, postgres_schema: str, tmp_path: Path
) -> None:
    table, role = f"{postgres_schema}.t", f"r{postgres_schema}"
    postgres.query(f"CREATE ROLE {role} LOGIN")
    postgres.query(f"GRANT USAGE ON SCHEMA {postgres_schema} TO {role}")
    dsn = postgres.dsn.replace("user=postgres", f"user={role}")
    query = follow(tmp_path / "in").deliver(sinks.postgres(dsn, table, name="orders"))
    watch, root = Watch(), tmp_path / "job"
    job = jobmanager.run(
        query, root=str(root), executor="local", config=QUICK, on_status=watch, parallelism=1
    )
    status = watch.until(has_reason("permission denied"))
    assert status["state"] == "running"
    assert status["health"] == "degraded"
    words = "the delivery orders, partition 0 has ended"
    assert words in progress_line(status, {})
    code, text = call("status", root)
    assert code == EXIT_DEGRADED
    assert words in text.replace("\n", " ")
    assert f"jobmanager deliver {root} --retry" in text
    code, text = call("status", root, "--json")
    assert (code, json.loads(text)["health"]) == (EXIT_DEGRADED, "degraded")
    code, text = call("list", tmp_path)
    assert code == 0
    assert "degraded: the delivery orders" in text
    (row,) = json.loads(call("list", tmp_path, "--json")[1])["jobs"]
    assert row["health"] == "degraded"
    assert "grant the user" in row["reasons"][0]["reason"]
    assert "degraded: the delivery orders" in call("logs", root)[1]

    postgres.query(f"GRANT CREATE ON SCHEMA {postgres_schema} TO {role}")
    restarts = status["restarts"]
    assert call("deliver", root, "--retry") == (0, "requested\n")
    status = watch.until(lambda status: status["deliveries"][0]["rows"] == FILE_ROWS)
    status = watch.until(lambda status: status["health"] == "ok")
    assert status["restarts"] == restarts
    assert call("status", root)[0] == 0
    write_file(tmp_path / "in", 1)
    watch.until(lambda status: status["deliveries"][0]["rows"] == 2 * FILE_ROWS)
    assert finish(job)["state"] == "finished"
    assert postgres.query(f"SELECT count(*) FROM {table}") == [(2 * FILE_ROWS,)]


@pytest.mark.slow
def test_a_waiting_delivery_is_reported_and_retry_ends_its_pause(tmp_path: Path) -> None:
    """The pause is longer than the test, so only the request can end it."""
    calls: list[int] = []

    def fails_once(first_seq: int, batch: Any) -> None:
        calls.append(first_seq)
        if len(calls) == 1:
            raise ConnectionError("nobody is at home")

    query = follow(tmp_path / "in").to_function(fails_once)
    watch, root = Watch(), tmp_path / "job"
    config = replace(QUICK, delivery=DeliveryLimits(retry_pause_s=600, retry_pause_max_s=600))
    job = jobmanager.run(
        query, root=str(root), executor="local", config=config, on_status=watch, parallelism=1
    )
    status = watch.until(has_reason("nobody is at home"))
    assert status["health"] == "waiting"
    assert call("status", root)[0] == 0
    job.retry_deliveries()
    watch.until(lambda status: status["health"] == "ok")
    assert calls == [0, 0]
    assert finish(job)["health"] == "ok"


def run_live(query: Query, root: Path, watch: Watch) -> jobmanager.Job:
    return jobmanager.run(query, root=str(root), executor="local", config=QUICK, on_status=watch)


@pytest.mark.slow
def test_a_row_that_never_ends_is_named(tmp_path: Path) -> None:
    """Each price is valid until the next one of its key; the last ones have no end."""
    prices = follow(tmp_path / "in").set_duration("365d")
    watch, root = Watch(), tmp_path / "job"
    job = run_live(prices.clip(prices, on="key").to_parquet(), root, watch)
    status = watch.until(has_reason("(clip)"))
    (row,) = [row for row in status["reasons"] if "(clip)" in row["reason"]]
    assert "waits for the end of key=" in row["reason"]
    assert " since 1970-01-01 00:00:00 " in row["reason"]
    assert status["health"] == "waiting"
    assert "(clip)" in progress_line(status, {})
    watch.until(lambda status: "(clip)" in call("status", root)[1].replace("\n", " "))
    finish(job)


@pytest.mark.slow
def test_a_partition_without_rows_is_named(broker: Broker, tmp_path: Path) -> None:
    feed, watch = Feed(broker, 3), Watch()
    feed.write(0, 0)
    feed.write(1, 5)
    job = run_live(feed.query(idle="wait"), tmp_path / "job", watch)
    words = f"partition 2 of topic {feed.topic} has no rows (idle=wait)"
    status = watch.until(has_reason(words))
    assert status["health"] == "waiting"
    assert words in progress_line(status, {})
    feed.write(2, 7)
    words = f"partition 0 of topic {feed.topic} has no rows after 1970-01-01 00:00:00 (idle=wait)"
    watch.until(has_reason(words))
    finish(job)


@pytest.mark.slow
def test_rows_that_wait_for_later_ones_are_reported(broker: Broker, tmp_path: Path) -> None:
    """A beginner's first question: three rows were sent, and no result appears."""
    feed, watch = Feed(broker, 1), Watch()
    feed.write(0, 0)
    job = run_live(feed.query(), tmp_path / "job", watch)
    stays = "and the watermark stays at 1970-01-01 00:00:00 until later rows arrive (idle=follow)"
    words = f"all rows of topic {feed.topic} are read, {stays}"
    status = watch.until(has_reason(words))
    assert status["health"] == "ok"
    assert words in progress_line(status, {})
    finish(job)


@pytest.mark.slow
def test_an_until_beyond_the_end_is_named(broker: Broker, tmp_path: Path) -> None:
    feed, watch = Feed(broker, 1), Watch()
    feed.write(0, 0, rows=10)
    job = run_live(feed.query(until={0: 30}), tmp_path / "job", watch)
    words = f"partition 0 of topic {feed.topic} ends at offset 10, and until= is after it"
    assert watch.until(has_reason(words))["health"] == "waiting"
    feed.write(0, 1, rows=20)
    assert job.wait(WAIT_S)["state"] == "finished"
