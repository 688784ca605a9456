"""Which errors of functions, HTTP receivers and stores end a delivery; others are retried."""

from __future__ import annotations

import http.server
import io
import json
import threading
import urllib.request
from typing import TYPE_CHECKING

import pytest

from jobmanager.delivery.claim import DeliveryClaim, folder_name
from rstream import MemoryBlobs, open_store
from rvertex.sinks.errors import DestinationError, DestinationRefusedError, RowsRefusedError
from rvertex.sinks.function import FunctionDestination
from rvertex.sinks.spec import DeliveryPlace, ParquetSink, destination
from tests.rvertex.sinks.places import SCHEMA, items, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa


class Answering(http.server.BaseHTTPRequestHandler):
    """A server that responds with the status in the path."""

    def do_POST(self) -> None:
        self.send_error(int(self.path.strip("/")))

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def commit(function: Callable[[int, pa.RecordBatch], None]) -> None:
    place = DeliveryPlace("job", "d", 0, 1, SCHEMA, MemoryBlobs())
    called = FunctionDestination(function, "hook", place)
    called.open(1)
    called.write(items(0, 0, 3))
    called.commit(progress(0, 3))


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "correct the query"),
        (422, "correct the query"),
        (415, "correct the headers"),
        (401, "correct the token"),
        (403, "correct the token"),
        (404, "correct its address"),
        *((status, "") for status in (408, 409, 425, 429, 500, 502, 503)),
    ],
)
def test_a_refusing_http_status_is_an_error_with_advice(url: str, status: int, advice: str) -> None:
    def post(first_seq: int, batch: pa.RecordBatch) -> None:
        urllib.request.urlopen(f"{url}/{status}", data=b"rows", timeout=120).close()

    refused: type[Exception] = DestinationRefusedError if advice else DestinationError
    refused = RowsRefusedError if status in (400, 422) else refused
    with pytest.raises(refused, match=f"HTTP Error {status}.*{advice}"):
        commit(post)


def test_errors_of_other_clients() -> None:
    class Response:
        status_code = 413

    class HTTPStatusError(Exception):
        response = Response()

    def post(first_seq: int, batch: pa.RecordBatch) -> None:
        raise HTTPStatusError

    with pytest.raises(RowsRefusedError, match=r"a row of the items \[0, 3\)"):
        commit(post)


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (NameError("nme"), True),
        (ModuleNotFoundError("reqests"), True),
        (ConnectionError("away"), False),
        (TimeoutError("slow"), False),
        (SystemExit(3), False),
    ],
)
def test_programming_errors_of_a_function_are_not_retried(
    error: BaseException, is_refused: bool
) -> None:
    def fail(first_seq: int, batch: pa.RecordBatch) -> None:
        raise error

    with pytest.raises(DestinationRefusedError if is_refused else DestinationError):
        commit(fail)


@pytest.mark.parametrize(
    ("error", "is_of_rows"),
    [
        (ValueError("no such unit"), True),
        (KeyError("EUR"), True),
        (ZeroDivisionError(), True),
        (UnicodeEncodeError("latin-1", "ü", 0, 1, "no"), True),
        (io.UnsupportedOperation("closed"), False),  # both an OSError and a ValueError
        (json.JSONDecodeError("of an answer", "<html>", 0), False),
        (RuntimeError("busy"), False),
    ],
)
def test_rows_that_a_function_rejects(error: Exception, is_of_rows: bool) -> None:
    def refuse(first_seq: int, batch: pa.RecordBatch) -> None:
        raise error

    with pytest.raises(RowsRefusedError if is_of_rows else DestinationError):
        commit(refuse)


def test_a_rejected_call_is_not_repeated_and_its_rows_follow_in_other_calls() -> None:
    """A rejected call is never repeated, not even by a successor; its rows are in later calls."""
    calls: list[tuple[int, list[int]]] = []

    def take(first_seq: int, batch: pa.RecordBatch) -> None:
        calls.append((first_seq, batch.column("n").to_pylist()))
        if died:
            raise KeyboardInterrupt
        if batch.num_rows > 2:
            raise ValueError("too many")

    place = DeliveryPlace("job", "d", 0, 1, SCHEMA, MemoryBlobs())
    called, died = FunctionDestination(take, "hook", place), False
    assert called.open(1) is None
    called.write(items(0, 0, 6))
    with pytest.raises(RowsRefusedError):
        called.commit(progress(0, 6))
    assert called.open(1) is None
    called.write(items(0, 0, 6))
    died = True
    with pytest.raises(KeyboardInterrupt):
        called.commit(progress(0, 6))
    died = False
    successor = FunctionDestination(take, "hook", place)
    assert successor.open(2) is None  # the dead writer's call is repeated, and rejected
    assert calls == [(0, [1, 2, 4, 5])] * 3
    for first in (0, 3):
        successor.write(items(0, first, first + 3))
        successor.commit(progress(0, first + 3))
    assert calls[3:] == [(0, [1, 2]), (3, [4, 5])]
    assert successor.open(2) == progress(0, 6)


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    place = DeliveryPlace("job", "d", 0, 1, SCHEMA)
    with pytest.raises(DestinationRefusedError, match=r"NotADirectory.*correct the path"):
        destination(ParquetSink(str(tmp_path / "taken" / "t")), place).open(1)


def test_deliveries_with_long_names_have_separate_folders(tmp_path: Path) -> None:
    """A topic name of 249 characters is too long for a file name."""
    names = ["kafka:" + "x" * 249, "kafka:" + "x" * 248 + "y", "ü" * 100, "short", "a/b"]
    folders = {folder_name(name) for name in names}
    assert len(folders) == len(names)
    assert all(len(folder) <= 200 for folder in folders)
    assert folder_name("a/b") == "a%2Fb"
    store = open_store(str(tmp_path), fsync=False)
    claims = [DeliveryClaim(store, name, 0) for name in names]
    assert [claim.take(0) for claim in claims] == [1] * len(names)
    assert all(claim.is_newest() for claim in claims)
