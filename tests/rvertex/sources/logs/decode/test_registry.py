"""Each schema is fetched once over HTTP; an unreachable registry is an error that is retried."""

from __future__ import annotations

import http.server
import json
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from planner import Stream
from rvertex.sources.logs.decode.avro import AvroDecoder
from rvertex.sources.logs.decode.avro_schema import arrow_columns
from rvertex.sources.logs.decode.registry import SchemaRegistry
from rvertex.sources.logs.errors import LogNotFoundError, LogUnreachableError, RegistryRefusedError
from tests.support.brokers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]}
REFERRING = {
    "type": "record",
    "name": "Sale",
    "fields": [{"name": "place", "type": "geo.Place"}, {"name": "kind", "type": "geo.Kind"}],
}
PLACE = {
    "type": "record",
    "name": "geo.Place",
    "fields": [{"name": "kind", "type": "Kind"}, {"name": "x", "type": "long"}],
}
KIND = {"type": "enum", "name": "geo.Kind", "symbols": ["city", "sea"]}
REFERENCES = [
    {"name": "geo.Kind", "subject": "kinds", "version": 1},
    {"name": "geo.Place", "subject": "places", "version": 2},
]
ANSWERS = {
    "/schemas/ids/6": {"schema": json.dumps(REFERRING), "references": REFERENCES},
    "/subjects/places/versions/2": {"schema": json.dumps(PLACE), "references": REFERENCES[:1]},
    "/subjects/kinds/versions/1": {"schema": json.dumps(KIND)},
    "/schemas/ids/1": {"schema": json.dumps(RECORD)},
    "/schemas/ids/2": {"schema": "message M {}", "schemaType": "PROTOBUF"},
    "/schemas/ids/3": {"schema": '"string"'},
    "/subjects/orders-value/versions/latest": {"schema": json.dumps(RECORD), "id": 1},
    "/subjects/a%2Fb-value/versions/latest": {"schema": json.dumps(RECORD), "id": 1},
}


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers from a table; requests are recorded with their credentials."""

    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization")))
        if self.path == "/schemas/ids/5":
            self.send_error(503)
        elif self.path == "/schemas/ids/401":
            self.send_error(401)
        elif self.path in ANSWERS:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(ANSWERS[self.path]).encode())
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    Answering.asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_schema_is_requested_once(server: http.server.ThreadingHTTPServer) -> None:
    registry = SchemaRegistry(f"http://127.0.0.1:{server.server_port}/", "me:secret")
    assert registry.schema(1) == registry.schema(1) == RECORD
    assert Answering.asked == [("/schemas/ids/1", "Basic bWU6c2VjcmV0")]
    assert [registry.schema(number) for number in (2, 3, 4)] == [None, None, None]
    assert registry.latest("a/b-value") == RECORD
    with pytest.raises(LogNotFoundError, match="no Avro record for the subject b-value"):
        registry.latest("b-value")


def test_columns_come_from_the_newest_schema(server: http.server.ThreadingHTTPServer) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    stream = Stream.from_kafka(
        "orders",
        servers="b:1",
        vs="x",
        delay="1s",
        format="avro",
        config={"schema.registry.url": url},
    )
    assert stream.plan.schema == pa.schema([("x", pa.int64())])


def test_types_of_other_subjects_are_fetched(server: http.server.ThreadingHTTPServer) -> None:
    schema = SchemaRegistry(f"http://127.0.0.1:{server.server_port}").schema(6)
    assert schema is not None
    place = pa.struct([("kind", pa.string()), ("x", pa.int64())])
    columns = arrow_columns(schema)
    assert columns == pa.schema([("place", place), ("kind", pa.string())])
    found = AvroDecoder(columns, schema).decode([b"\x02\x0a\x00"])
    assert found.rows.to_pylist() == [{"place": {"kind": "sea", "x": 5}, "kind": "city"}]


def test_an_unreachable_registry_is_named(server: http.server.ThreadingHTTPServer) -> None:
    registry = SchemaRegistry(f"http://127.0.0.1:{server.server_port}")
    for _ in range(2):
        with pytest.raises(LogUnreachableError, match="HTTP 503"):
            registry.schema(5)
    with pytest.raises(LogUnreachableError, match="refused"):
        SchemaRegistry(f"http://127.0.0.1:{free_port()}").schema(1)


def test_a_registry_that_requires_a_user_names_the_option(
    server: http.server.ThreadingHTTPServer,
) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    refused = (
        r"schema registry .* HTTP 401 Unauthorized; give .schema.registry.basic.auth.user.info"
    )
    with pytest.raises(RegistryRefusedError, match=refused):
        SchemaRegistry(url).schema(401)
