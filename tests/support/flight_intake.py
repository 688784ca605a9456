"""Producers that send over Flight, with answers in the form of HTTP, so one test fits both."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.flight as flight

from jobmanager.intake.errors import AGAIN, STATUS
from tests.support.pushed import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATUS = {kind.__name__.removesuffix("Error"): status for kind, status in STATUS}
#: The Flight error for a status; FlightServerError for others.
FITTING = {
    401: flight.FlightUnauthenticatedError,
    429: flight.FlightUnavailableError,
    500: flight.FlightInternalError,
    503: flight.FlightUnavailableError,
}


def call_options(token: str, wait_s: float) -> flight.FlightCallOptions:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    return flight.FlightCallOptions(headers=headers, timeout=wait_s)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows with the stream's columns, or with their own if they do not fit."""
    try:
        return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    except pa.ArrowException:
        return pa.RecordBatch.from_pylist(rows)


def metadata(**fields: object) -> bytes:
    """The app_metadata of a batch; None without fields."""
    return json.dumps(fields).encode() if fields else b""


@contextlib.contextmanager
def connected(address: str, roots: bytes | None = None) -> Iterator[flight.FlightClient]:
    with flight.connect(address, tls_root_certs=roots) as client:
        yield client


def put(
    client: flight.FlightClient,
    batch: pa.RecordBatch,
    told: bytes,
    options: flight.FlightCallOptions,
    stream: str = "clicks",
) -> tuple[int, dict[str, Any]]:
    """Send a batch in a separate call. Return status and body of the answer, as over HTTP.

    Raises:
        ConnectionError: there is no answer.
    """
    answers: list[dict[str, Any]] = []
    try:
        place = flight.FlightDescriptor.for_path(stream)
        writer, reader = client.do_put(place, batch.schema, options)
        with writer:
            writer.write_with_metadata(batch, told)
            if (first := reader.read()) is not None:
                answers.append(json.loads(first.to_pybytes()))
                writer.done_writing()
                assert reader.read() is None, "two answers to one batch"
    except (pa.ArrowException, OSError) as error:
        status, refusal = refused(error)
        assert answers in ([], [refusal])  # none, if the call itself was refused
        return status, refusal
    (answer,) = answers
    assert "error" not in answer, answer
    return 200, answer


def act(
    client: flight.FlightClient, name: str, body: object, options: flight.FlightCallOptions
) -> tuple[int, dict[str, Any]]:
    """Send an action. Return status and body of the answer, as over HTTP."""
    try:
        action = flight.Action(name, json.dumps(body).encode())
        (found,) = client.do_action(action, options)
        return 200, json.loads(found.body.to_pybytes())
    except (pa.ArrowException, OSError) as error:
        return refused(error)


def refused(error: BaseException) -> tuple[int, dict[str, Any]]:
    """The HTTP status and document of a Flight error, whose class must match."""
    if not getattr(error, "extra_info", b""):
        raise ConnectionError(str(error)) from error
    told = json.loads(error.extra_info)  # type: ignore[attr-defined]
    status = _STATUS.get(told["kind"], 503 if told["kind"] == "Store" else 400)
    assert type(error) is FITTING.get(status, flight.FlightServerError), (error, told)
    assert (status in AGAIN) == isinstance(error, flight.FlightUnavailableError)
    assert str(error).startswith(told["error"])
    assert "Traceback" not in str(error)
    return status, told
