"""Behaviour of Flight only: many batches in a call, ordered answers, silence, the end.

Not covered: clients other than pyarrow's; a producer whose machine loses power.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest

from tests.rooms import ROOT
from tests.rstream.transport.test_flight import write_certificate
from tests.support.flight_intake import call_options, connected, metadata, put, refused
from tests.support.intake import ANSWER_WAIT_S, TOKEN, IntakeProcess, run_intake, write_config
from tests.support.pushed import SCHEMA, rows
from tests.test_docs import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPTIONS = call_options(TOKEN, ANSWER_WAIT_S)
PLACE = flight.FlightDescriptor.for_path("clicks")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("intake-flight")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[IntakeProcess]:
    config = write_config(folder, limits="rows_in_flight_max = 40\nposts_waiting_max = 8")
    with IntakeProcess(config, over="flight") as running:
        yield running


@pytest.fixture
def client(server: IntakeProcess) -> Iterator[flight.FlightClient]:
    with connected(server.flight_url) as found:
        yield found


def answers(reader: flight.FlightMetadataReader) -> Iterator[dict[str, object]]:
    """The answers until the call ends."""
    while (told := reader.read()) is not None:
        yield json.loads(told.to_pybytes())


@pytest.mark.slow
def test_batches_of_one_call_are_acknowledged_in_order(client: flight.FlightClient) -> None:
    """All batches are written before an answer is read. They are too many, so the call waits."""
    writer, reader = client.do_put(PLACE, SCHEMA, OPTIONS)
    with writer:
        for number in range(300):
            batch = rows("many", number)
            writer.write_with_metadata(batch, metadata(producer="many", number=number))
        writer.done_writing()
        found = list(answers(reader))
    assert len(found) == 300
    for number, (this, following) in enumerate(itertools.pairwise(found)):
        assert this["last_seq"] == this["first_seq"] + number % 3  # type: ignore[operator]
        assert following["first_seq"] == this["last_seq"] + 1  # type: ignore[operator]
    told = metadata(producer="many", number=299)
    assert put(client, rows("many", 299), told, OPTIONS) == (200, found[-1] | {"is_repeat": True})


@pytest.mark.slow
def test_a_bad_batch_ends_its_call_after_earlier_batches_are_acknowledged(
    client: flight.FlightClient,
) -> None:
    writer, reader = client.do_put(PLACE, SCHEMA, OPTIONS)
    for number in (0, 1, 3):
        told = metadata(producer="gap", number=number)
        writer.write_with_metadata(rows("gap", number), told)
    first, second, third = (json.loads(reader.read().to_pybytes()) for _ in range(3))
    assert (first["first_seq"], second["first_seq"]) == (first["last_seq"], first["last_seq"] + 1)
    assert (third["kind"], third["next_number"]) == ("ProducerGap", 2)
    with pytest.raises(flight.FlightServerError) as caught:
        writer.close()
    assert refused(caught.value) == (409, third)
    for number in range(9, 29):  # more than may be pending: rejected batches do not count
        told = metadata(producer="gap", number=number)
        assert put(client, rows("gap", number), told, OPTIONS)[0] == 409
    told = metadata(producer="gap", number=2)
    assert put(client, rows("gap", 2), told, OPTIONS)[0] == 200


@pytest.mark.slow
def test_batches_of_other_columns_are_rejected(client: flight.FlightClient) -> None:
    other = pa.record_batch({"x": [1]})
    nulls = pa.RecordBatch.from_pylist([{"producer": "a", "number": 1}, {"number": 2}], SCHEMA)
    text = pa.record_batch({"producer": ["a"], "number": ["1"]})
    for batch, status, message in (
        (other, 400, "column x is not one of producer, number, part; no row was stored"),
        (text, 400, "column number is string, not int64; no row was stored"),
        (nulls, 400, "line 2, column producer: null in a column that is declared not null"),
        (nulls.slice(0, 0), 400, "an append needs at least one row; no row was stored"),
    ):
        answer = put(client, batch, b"", OPTIONS)
        assert answer[0] == status, answer
        assert answer[1]["error"].startswith(message), answer
    for told in (b"?", b"\xff", b"7", b'{"numer": 1}', b"[" * 100_000):
        answer = put(client, rows("a", 0), told, OPTIONS)
        assert (answer[0], answer[1]["kind"]) == (400, "Post"), answer
        assert answer[1]["error"].startswith("app_metadata"), answer
    answer = put(client, rows("a", 0), b"", OPTIONS, "none")
    assert (answer[0], answer[1]["kind"]) == (404, "UnknownStream")


@pytest.mark.slow
def test_streams_are_listed_but_cannot_be_read(client: flight.FlightClient) -> None:
    (found,) = client.list_flights(options=OPTIONS)
    assert (found.descriptor.path, found.endpoints) == ([b"clicks"], [])
    assert found.schema.names == SCHEMA.names
    assert client.get_schema(PLACE, OPTIONS).schema == found.schema
    assert client.get_flight_info(PLACE, OPTIONS).schema == found.schema
    assert {action.type for action in client.list_actions(OPTIONS)} == {"open-producer", "position"}
    with pytest.raises(flight.FlightServerError, match="the intake only accepts rows"):
        client.do_get(flight.Ticket(b"clicks"), OPTIONS).read_all()
    with pytest.raises(flight.FlightServerError, match="there is no action drop"):
        list(client.do_action(flight.Action("drop", b""), OPTIONS))
    with pytest.raises(flight.FlightServerError, match=r'needs \{"stream": "NAME"'):
        list(client.do_action(flight.Action("position", b"[]"), OPTIONS))
    for call in (client.list_flights, client.list_actions):
        with pytest.raises(flight.FlightUnauthenticatedError):
            list(call(options=call_options("wrong", ANSWER_WAIT_S)))


@pytest.mark.slow
def test_a_silent_call_is_ended_but_not_an_active_one(tmp_path: Path) -> None:
    # long enough for a machine on which the active one runs seldom
    config = write_config(tmp_path, limits="flight_silence_s = 5")
    stopped = threading.Event()
    with IntakeProcess(config, over="flight") as server:

        def push() -> int:
            """Send batches until the silent call has been ended."""
            with connected(server.flight_url) as active:
                writer, reader = active.do_put(PLACE, SCHEMA, OPTIONS)
                with writer:
                    number = 0
                    while not stopped.is_set():
                        told = metadata(producer="active", number=number)
                        writer.write_with_metadata(rows("active", number), told)
                        assert json.loads(reader.read().to_pybytes())["is_repeat"] is False
                        number += 1
            return number

        with connected(server.flight_url) as silent, ThreadPoolExecutor(1) as pool:
            pushed = pool.submit(push)
            try:
                writer, reader = silent.do_put(PLACE, SCHEMA, OPTIONS)
                writer.write_with_metadata(rows("silent", 0), b"")
                assert reader.read() is not None
                assert reader.read() is None
                with pytest.raises(flight.FlightUnavailableError):
                    writer.close()
            finally:
                stopped.set()
            assert pushed.result(ANSWER_WAIT_S) > 1
            status, _ = put(silent, rows("silent", 0), b"", OPTIONS)  # connects again
            assert status == 200


#: A producer that has put a batch and waits.
DYING = """
import sys
import pyarrow.flight as flight
from tests.support.flight_intake import call_options
from tests.support.pushed import SCHEMA, rows
client = flight.connect(sys.argv[1])
place = flight.FlightDescriptor.for_path("clicks")
writer, reader = client.do_put(place, SCHEMA, call_options(sys.argv[2], 120))
writer.write_batch(rows("dying", 0))
print(reader.read().to_pybytes(), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_dead_producer_frees_its_place(tmp_path: Path) -> None:
    config = write_config(tmp_path, limits="flight_calls_max = 1")
    with IntakeProcess(config, over="flight") as server, connected(server.flight_url) as client:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", DYING, server.flight_url, TOKEN]
        with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as dying:
            assert dying.stdout is not None
            assert b"first_seq" in dying.stdout.readline()
            status, told = put(client, rows("a", 0), b"", OPTIONS)
            assert (status, told["what"]) == (429, "calls of Flight")
            dying.kill()
        # ends when the server has noticed its end
        while put(client, rows("a", 0), b"", OPTIONS)[0] == 429:
            assert server.process.poll() is None


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_silent_call(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    with IntakeProcess(config, over="flight") as server, connected(server.flight_url) as client:
        writer, reader = client.do_put(PLACE, SCHEMA, OPTIONS)
        writer.write_with_metadata(rows("a", 0), b"")
        assert reader.read() is not None
        assert server.stop() == 0
        assert reader.read() is None
        with pytest.raises(flight.FlightUnavailableError):
            writer.close()
    assert pq.read_table(tmp_path / "logs" / "clicks")["producer"].to_pylist() == ["a"]


@pytest.mark.slow
def test_flight_uses_the_same_encryption_as_http(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    config = write_config(tmp_path)
    with IntakeProcess(config, over="flight", STREAMSCOPE_TLS=str(tmp_path)) as server:
        assert server.flight_url.startswith("grpc+tls://127.0.0.1:")
        with connected(server.flight_url, (tmp_path / "ca.pem").read_bytes()) as client:
            assert put(client, rows("a", 0), b"", OPTIONS)[0] == 200
        for address in (server.flight_url, server.flight_url.replace("grpc+tls", "grpc")):
            with connected(address) as stranger, pytest.raises(ConnectionError):
                put(stranger, rows("a", 0), b"", call_options(TOKEN, 5))


@pytest.mark.slow
def test_a_taken_port_is_named(tmp_path: Path, server: IntakeProcess) -> None:
    port = server.flight_url.rpartition(":")[2]
    done = run_intake(write_config(tmp_path), "--port", "0", "--flight-port", port)
    assert done.returncode == 2
    assert f"--host 127.0.0.1 --flight-port {port}: " in done.stderr
    assert "Address already in use" in done.stderr


@pytest.mark.slow
def test_the_example_of_the_how_to_works(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "push-events.md").read_text()
    program = dict(blocks("file"))["put_rooms.py"]
    (tmp_path / "put_rooms.py").write_text(program)
    config = tmp_path / "intake.toml"
    config.write_text(re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0])
    with IntakeProcess(config, over="flight") as server:
        done = subprocess.run(
            [sys.executable, "put_rooms.py"],
            cwd=tmp_path,
            env=os.environ | {"INTAKE": server.flight_url, "STREAMSCOPE_INTAKE_TOKEN": TOKEN},
            capture_output=True,
            text=True,
            timeout=ANSWER_WAIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert server.stop() == 0
    assert f"```text\n{done.stdout}```" in page
    table = pq.read_table(tmp_path / "logs" / "rooms")
    assert table["celsius"].to_pylist() == [18.5, 19.5, 20.5]
