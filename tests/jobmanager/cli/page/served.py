"""A page server in its own process, and a browser that opens the page."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_S = 120
_ANYWHERE = ("--port", "0", "--json")


class Served:
    """A server over a folder of jobs, or a bundle, as a process that the test kills by pid."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jobmanager", "serve", str(folder), *_ANYWHERE, *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.urls = json.loads(self.process.stdout.readline())
        self.url = self.urls["listening"]

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        place = urlsplit(self.url)
        assert place.hostname is not None
        line = http.client.HTTPConnection(place.hostname, place.port, timeout=WAIT_S)
        try:
            line.request(method, path, headers=headers)
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        finally:
            line.close()

    def first_event(self) -> dict[str, Any]:
        place = urlsplit(self.url)
        assert place.hostname is not None
        line = http.client.HTTPConnection(place.hostname, place.port, timeout=WAIT_S)
        try:
            line.request("GET", "/api/events")
            found: dict[str, Any] = json.loads(line.getresponse().readline()[len("data: ") :])
            return found
        finally:
            line.close()

    def close(self) -> None:
        os.kill(self.process.pid, signal.SIGTERM)
        code = self.process.wait(WAIT_S)
        assert code == 0, code
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def browsing(**context: Any) -> Iterator[tuple[Any, list[str]]]:
    """Open a page of Chromium; also yields the errors in its console."""
    api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium")
    errors: list[str] = []
    with api.sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(**context)
        page.set_default_timeout(WAIT_S * 1000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        yield page, errors
        browser.close()
