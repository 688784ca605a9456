"""The page as a process: its answers, rejected clients, and what a browser shows.

Not covered: what a screen reader says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import quote
from urllib.request import urlopen

import pyarrow as pa
import pytest

import streamscope as ss
from jobmanager.replay.rows.capsules import open_capsule
from tests.jobmanager.cli.page.served import WAIT_S, Served, browsing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow
TOKEN = "a token of the tests"


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


def test_the_page_shows_jobs_plans_logs_and_rows(served: Served) -> None:
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


def test_missing_resources_are_reported(served: Served) -> None:
    assert served.ask("/api/jobs/other")[0] == 404
    assert served.ask("/api/jobs/counts/rows/secrets")[0] == 400
    assert served.ask("/api/jobs/..%2f..%2fetc/plan")[0] == 404
    assert served.ask("/../../../etc/passwd")[0] == 404


def test_without_tokens_no_request_can_change_a_job(served: Served) -> None:
    status, text = served.ask("/api/jobs/counts/stop", "POST", Authorization=f"Bearer {TOKEN}")
    assert (status, "--token-file" in text) == (403, True)


def test_pages_of_other_sites_cannot_read_the_server(served: Served) -> None:
    """A browser would send the other site's name in the Host header."""
    assert served.ask("/api/jobs", Host="rebound.example")[0] == 400


def test_a_request_with_a_token_changes_a_job(folder: Path, tmp_path: Path) -> None:
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
    found = run("serve", str(folder), "--host", "0.0.0.0")
    assert (found.returncode, "give --token-file" in found.stderr) == (2, True)


def test_all_views_work_in_a_browser(served: Served) -> None:
    with browsing() as (page, errors):
        views = {
            "": "What needs you",
            "counts": "finished",
            "counts/plan": "s01",
            "counts/plan/s02-agg": "Stage s02-agg",
            "counts/timeline": "the job begins with",
            "counts/logs": "checkpoint",
            "counts/output": "Why?",
            "counts/table": "No row is valid now",
            "counts/at": "Any moment from 2026-01-01 00:00:00",
            "counts/late": "_frontier",
            "counts/dead_letters": "not an ISO-8601 time",
            "counts/changes": "No savepoint yet. To take one: jobmanager savepoint",
        }
        for view, words in views.items():
            page.goto(f"{served.url}/#/{view}")
            page.get_by_text(words).first.wait_for()
        page.set_viewport_size({"width": 390, "height": 800})
        for view in views:
            page.goto(f"{served.url}/#/{view}")
            page.get_by_text(views[view]).first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
    assert errors == []


def test_a_row_is_explained_and_a_point_in_time_is_recomputed(served: Served) -> None:
    with browsing() as (page, errors):
        page.goto(f"{served.url}/#/counts/output")
        page.get_by_role("button", name="Why?").first.click()
        page.get_by_text("Without any one of them it is missing").wait_for()
        assert page.get_by_text("Input rows of s01-in.0 that make it (2)").count() == 1
        page.goto(f"{served.url}/#/counts/at")
        page.get_by_label("Event time (UTC)").fill("2026-01-01T00:02:30")
        page.get_by_role("button", name="Compute").click()
        page.get_by_text("at 2026-01-01T00:02:30 UTC (3)").wait_for()
        page.get_by_label("Show").select_option("stage s02-agg")
        page.get_by_role("button", name="Compute").click()
        page.get_by_text("state of s02-agg, at 2026-01-01T00:02:30 UTC").first.wait_for()
    assert errors == []


def test_each_side_output_and_each_output_has_its_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,k\n1970-01-01T00:01:00Z,1\n1970-01-01T00:00:00Z,2\n")
    (tmp_path / "b.csv").write_text("t,k\n1970-01-01T00:02:00Z,3\n1970-01-01T00:00:00Z,4\n")
    first, second = (
        ss.Stream.from_csv(str(tmp_path / name), vs="t", delay="5s", late="drop")
        for name in ("a.csv", "b.csv")
    )
    ss.run([first, second], root=str(tmp_path / "jobs/two"), executor="local").wait()
    served = Served(tmp_path / "jobs")
    try:
        kept, late = {}, {}
        for name in json.loads(served.ask("/api/jobs/two/rows/output")[1])["outputs"]:
            rows = json.loads(served.ask(f"/api/jobs/two/rows/output?output={name}")[1])["rows"]
            kept[name] = [row["k"] for row in rows]
            assert rows[0]["t" if "t" in rows[0] else "start"].startswith("1970-01-01T00:0")
            at = served.ask(f"/api/jobs/two/at?us=60000000&output={name}")
            assert at[0] == 200, at
        for name in json.loads(served.ask("/api/jobs/two/rows/late")[1])["outputs"]:
            rows = json.loads(served.ask(f"/api/jobs/two/rows/late?output={name}")[1])["rows"]
            late[name] = [row["k"] for row in rows]
        assert sorted(kept.values()) == [["1"], ["3"]]
        assert sorted(late.values()) == [["2"], ["4"]]
        letters = served.ask("/api/jobs/two/rows/dead_letters")
        assert (letters[0], json.loads(letters[1])["rows"]) == (200, [])
        assert served.ask("/api/jobs/two/at?us=1&stage=--help")[0] == 409
    finally:
        served.close()


def test_a_page_of_another_site_cannot_start_a_computation(served: Served) -> None:
    row = "/api/jobs/counts/why?row=k%20%3D%201"
    status, text = served.ask(row, **{"Sec-Fetch-Site": "cross-site"})
    assert (status, "another site" in text) == (409, True)
    status, text = served.ask(row)
    assert (status, "rows satisfy the condition" in text) == (409, True)


def test_a_row_is_saved_as_a_readable_capsule(served: Served, tmp_path: Path) -> None:
    (first, *_) = json.loads(served.ask("/api/jobs/counts/rows/output")[1])["conditions"]
    row = quote(first)
    status, text = served.ask(f"/api/jobs/counts/capsule.zip?row={row}", **{"Sec-Fetch-Site": "x"})
    assert (status, "another site" in text) == (409, True)
    assert served.ask("/api/jobs/counts/capsule.zip?row=false")[0] == 409
    with urlopen(f"{served.url}/api/jobs/counts/capsule.zip?row={row}") as answer:
        (tmp_path / "capsule.zip").write_bytes(answer.read())
    assert open_capsule(str(tmp_path / "capsule.zip"), trust=True).is_reproduced()


def test_a_failed_status_read_is_not_shown_as_live(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    served = Served(tmp_path / "jobs")
    try:
        with browsing() as (page, _):
            page.goto(served.url)
            page.get_by_text("live, ").wait_for()
            assert served.ask("/health")[0] == 200
            (tmp_path / "jobs").rmdir()
            (tmp_path / "jobs").write_text("no folder any more")
            page.get_by_text("the server cannot read its folder").wait_for()
            assert served.ask("/health")[0] == 503
            (tmp_path / "jobs").unlink()
            (tmp_path / "jobs").mkdir()
            page.get_by_text("live, ").wait_for()
    finally:
        served.close()


@pytest.mark.parametrize("rows", [0, 5])
def test_a_bundle_shows_the_job_on_another_machine(folder: Path, tmp_path: Path, rows: int) -> None:
    file = tmp_path / "report.zip"
    made = run("bundle", str(folder / "counts"), "-o", str(file), f"--rows={rows}")
    assert made.returncode == 0, made.stderr
    served = Served(file)
    try:
        for path, words in {"": "status", "/plan": "stages", "/timeline": "begins with"}.items():
            status, text = served.ask(f"/api/jobs/counts{path}")
            assert (status, words in text) == (200, True), (path, text)
        status, text = served.ask("/api/jobs/counts/rows/late")
        assert (status, "_frontier" in text) == ((200, True) if rows else (409, False))
        assert "holds no job to change" in served.ask("/api/jobs/counts/at?us=1")[1]
        assert served.ask("/metrics")[0] == 200
        with browsing() as (page, errors):
            page.goto(f"{served.url}/#/counts")
            page.get_by_text("a bundle, written").wait_for()
            page.get_by_text("arrived later than delay=5s allows").first.wait_for()
        assert errors == []
    finally:
        served.close()
    (tmp_path / "no.zip").write_text("nothing")
    assert "is not a bundle" in run("serve", str(tmp_path / "no.zip")).stderr


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jobmanager", *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
