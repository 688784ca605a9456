"""A schema registry that needs user and password, played by a server in this process."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from rvertex.sources.logs.decode.registry import SchemaRegistry
from rvertex.sources.logs.errors import LogUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long"}]}
ALLOWED = f"Basic {b64encode(b'me:hush').decode()}"


class Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_allowed = self.headers.get("Authorization") == ALLOWED
        body = json.dumps({"schema": json.dumps(RECORD)}).encode()
        self.send_response(200 if is_allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_user_and_password_are_in_the_url_or_in_options(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "hush")
    for registry in (
        SchemaRegistry(f"http://{address}", "me:hush"),
        SchemaRegistry(f"http://me:hush@{address}/"),
        SchemaRegistry(f"http://me:env:REGISTRY_PASSWORD@{address}"),
    ):
        assert registry.schema(1) is not None


def test_a_rejection_shows_no_password(address: str) -> None:
    for registry in (
        SchemaRegistry(f"http://me:wrong-hush@{address}"),
        SchemaRegistry("http://me:wrong-hush@127.0.0.1:1"),
    ):
        with pytest.raises(LogUnreachableError) as failed:
            registry.schema(1)
        assert "hush" not in str(failed.value)
