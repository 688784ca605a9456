"""The page as a process: what it answers, whom it refuses, and what a browser shows.

Cannot catch: what a screen reader says.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pyarrow as pa
import pytest

import streamscope as ss

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow
TOKEN = "a token of the tests"
WAIT_S = 120
_ANYWHERE = ("--port", "0", "--json")


class Served:
    """A server over a folder of jobs, ended by its own pid."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jobmanager", "serve", str(folder), *_ANYWHERE, *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = json.loads(self._process.stdout.readline())["listening"]

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
        os.kill(self._process.pid, signal.SIGTERM)
        assert self._process.wait(WAIT_S) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()


def _at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished job, whose source has late and bad rows."""
    path = tmp_path_factory.mktemp("jobs")
    lines = ["t,k", *(f"{_at(t)},{t % 3}" for t in range(0, 600, 10)), f"{_at(1)},0", "x,1"]
    (path / "in.csv").write_text("\n".join(lines))
    stream = ss.Stream.from_csv(
        str(path / "in.csv"), vs="t", delay="5s", late="drop", on_bad_row="dead_letter"
    )
    query = stream.group_by("k").window(ss.tumbling("1m")).agg(n=ss.agg.count())
    ss.run(query, root=str(path / "counts"), executor="local").wait()
    return path


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    running = Served(folder)
    yield running
    running.close()


def test_it_shows_jobs_plans_logs_and_rows(served: Served) -> None:
    (job,) = served.first_event()["jobs"]
    assert (job["name"], job["state"], job["late_events"]) == ("counts", "finished", 1)
    paths = {
        "": "status",
        "/plan": "stages",
        "/timeline": "the job begins with",
        "/findings": "late",
        "/rows/output": '"n"',
        "/rows/late": "_frontier",
        "/rows/dead_letters": "not an ISO-8601 time",
    }
    for path, words in paths.items():
        status, text = served.ask(f"/api/jobs/counts{path}")
        assert (status, words in text) == (200, True), (path, text)
    assert 'streamscope_late_events_total{job="counts"} 1.0' in served.ask("/metrics")[1]
    assert "page.js" in served.ask("/")[1]


def test_a_dashboard_reads_the_current_table_as_arrow(served: Served, folder: Path) -> None:
    at = "2026-01-01T00:02:30Z"
    path = f"{served.url}/api/jobs/counts/table.arrow"
    with urlopen(f"{path}?at={at}", timeout=WAIT_S) as answer:
        found = pa.ipc.open_stream(answer).read_all()
    assert found.equals(ss.read_table(str(folder / "counts"), at=at))
    assert found.num_rows == 3
    assert served.ask("/api/jobs/counts/table.arrow?at=never")[0] == 409


def test_what_is_not_there_is_said(served: Served) -> None:
    assert served.ask("/api/jobs/other")[0] == 404
    assert served.ask("/api/jobs/counts/rows/secrets")[0] == 400
    assert served.ask("/api/jobs/..%2f..%2fetc/plan")[0] == 404
    assert served.ask("/../../../etc/passwd")[0] == 404


def test_without_tokens_nobody_changes_anything(served: Served) -> None:
    status, text = served.ask("/api/jobs/counts/stop", "POST", Authorization=f"Bearer {TOKEN}")
    assert (status, "--token-file" in text) == (403, True)


def test_a_page_of_another_site_cannot_read_it(served: Served) -> None:
    """Its browser would send the name of that site as host."""
    assert served.ask("/api/jobs", Host="rebound.example")[0] == 400


def test_who_has_a_token_changes_a_job(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    served = Served(folder, "--token-file", str(tmp_path / "tokens"))
    try:
        assert served.ask("/api/jobs")[0] == 200
        assert served.ask("/api/jobs/counts/stop", "POST")[0] == 401
        allowed = {"Authorization": f"Bearer {TOKEN}"}
        status, text = served.ask("/api/jobs/counts/stop", "POST", **allowed)
        assert (status, "finished" in text) == (409, True)
        status, text = served.ask("/api/jobs/counts/explode", "POST", **allowed)
        assert (status, "explode" in text) == (409, True)
    finally:
        served.close()


def test_other_machines_need_a_token(folder: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "jobmanager", "serve", str(folder), "--host", "0.0.0.0"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (found.returncode, "give --token-file" in found.stderr) == (2, True)


def test_a_browser_shows_every_view(served: Served) -> None:
    api = pytest.importorskip("playwright.sync_api")
    browser_path = shutil.which("chromium")
    if browser_path is None:
        pytest.skip("there is no chromium")
    errors: list[str] = []
    with api.sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        views = {
            "": "What needs you",
            "counts": "finished",
            "counts/plan": "s01",
            "counts/timeline": "the job begins with",
            "counts/output": "n",
            "counts/late": "_frontier",
            "counts/dead_letters": "not an ISO-8601 time",
        }
        for view, words in views.items():
            page.goto(f"{served.url}/#/{view}")
            page.get_by_text(words).first.wait_for(timeout=WAIT_S * 1000)
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto(f"{served.url}/#/counts")
        page.get_by_text("finished").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        browser.close()
    assert errors == []
