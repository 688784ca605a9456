"""Serves current tables over Arrow Flight to any Flight client.

Not covered: TLS, which the tests of the intake's Flight server cover.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow.flight as flight
import pytest

import streamscope as ss
from jobmanager.cli.page.board import Board, SeenJob
from jobmanager.cli.page.export.tables import TableServer
from rstream.clock import SystemClock
from tests.jobmanager.cli.page.served import WAIT_S, Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow
TOKEN = "a token of the tests"
AT = "1970-01-01T00:00:00.000005Z"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished job: a total for each key."""
    path = tmp_path_factory.mktemp("tables")
    rows = [ss.event(t, k="ab"[t % 2]) for t in range(10)]
    totals = ss.Stream.from_items({"k": "string"}, rows).group_by("k").agg(n=ss.agg.count())
    ss.run(totals, root=str(path / "totals"), executor="local").wait()
    return path


def served(folder: Path, *tokens: bytes) -> TableServer:
    board = Board(str(folder), SystemClock())
    board.look()
    return TableServer(board, list(tokens), "127.0.0.1", 0)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[flight.FlightClient]:
    server = served(folder)
    with flight.connect(server.url) as found:
        yield found
    server.shutdown()


def test_a_dashboard_lists_and_reads_a_table(client: flight.FlightClient, folder: Path) -> None:
    (info,) = client.list_flights()
    assert info.schema.equals(client.do_get(info.endpoints[0].ticket).schema)
    named = client.get_flight_info(flight.FlightDescriptor.for_path("totals"))
    assert client.get_schema(named.descriptor).schema.equals(info.schema)
    table = client.do_get(named.endpoints[0].ticket).read_all()
    assert table.equals(ss.read_table(str(folder / "totals")))
    assert sorted(table["n"].to_pylist()) == [5, 5]


def test_a_table_is_read_at_an_earlier_time(client: flight.FlightClient, folder: Path) -> None:
    ticket = flight.Ticket(json.dumps({"job": "totals", "at": AT}))
    table = client.do_get(ticket).read_all()
    assert table.equals(ss.read_table(str(folder / "totals"), at=AT))
    assert sorted(table["n"].to_pylist()) == [3, 3]


@pytest.mark.parametrize(
    ("ticket", "words"),
    [
        ('{"job": "other"}', "other"),
        ('{"job": "totals", "at": "never"}', "never"),
        ('{"job": "totals", "output": "none"}', "none"),
        ('{"job": 1}', "a ticket must be JSON"),
        ('{"job": "totals", "where": "1"}', "a ticket must be JSON"),
        ("totals", "a ticket must be JSON"),
    ],
)
def test_unreadable_tables_are_reported(
    client: flight.FlightClient, ticket: str, words: str
) -> None:
    with pytest.raises(flight.FlightServerError, match=words) as raised:
        client.do_get(flight.Ticket(ticket)).read_all()
    assert "Traceback" not in str(raised.value)


def test_clients_cannot_write_rows(client: flight.FlightClient) -> None:
    schema = client.get_schema(flight.FlightDescriptor.for_path("totals")).schema
    writer, _ = client.do_put(flight.FlightDescriptor.for_path("totals"), schema)
    with pytest.raises(flight.FlightServerError, match="jobmanager intake"):
        writer.close()


def test_a_client_without_a_token_reads_nothing(folder: Path) -> None:
    server = served(folder, TOKEN.encode())
    with flight.connect(server.url) as found:
        with pytest.raises(flight.FlightUnauthenticatedError):
            list(found.list_flights())
        header = (b"authorization", f"Bearer {TOKEN}".encode())
        (info,) = found.list_flights(options=flight.FlightCallOptions(headers=[header]))
    assert [part.decode() for part in info.descriptor.path] == ["totals", "output"]
    server.shutdown()


def test_tables_are_served_on_a_second_port(folder: Path) -> None:
    running = Served(folder, "--flight-port", "0")
    try:
        with flight.connect(running.urls["flight"]) as found:
            ticket = flight.Ticket('{"job": "totals"}')
            assert found.do_get(ticket).read_all().num_rows == 2
    finally:
        running.close()


def test_concurrent_requests_share_one_read() -> None:
    job, all_here = SeenJob("root", {}, deque()), threading.Barrier(20)
    calls: list[int] = []

    def read() -> int:
        calls.append(threading.get_ident())
        threading.Event().wait(0.05)  # other calls arrive meanwhile
        return job.once("inner", lambda: 7)  # type: ignore[no-any-return]

    def ask() -> int:
        all_here.wait(WAIT_S)
        return job.once("details", read)  # type: ignore[no-any-return]

    with ThreadPoolExecutor(20) as pool:
        assert {future.result() for future in [pool.submit(ask) for _ in range(20)]} == {7}
    assert len(calls) == 1


def test_a_slow_read_does_not_delay_other_reads_of_the_job() -> None:
    job, has_begun, may_end = SeenJob("root", {}, deque()), threading.Event(), threading.Event()

    def read() -> bool:
        has_begun.set()
        return may_end.wait(WAIT_S)

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(job.once, "slow", read)
        assert has_begun.wait(WAIT_S)
        other = pool.submit(job.once, "other", lambda: 7)
        try:
            assert other.result(WAIT_S / 2) == 7
        finally:
            may_end.set()
        assert slow.result(WAIT_S)
