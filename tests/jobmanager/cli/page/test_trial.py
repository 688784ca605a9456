"""A newcomer's questions and where the page answers them; access by keyboard and screen reader.

Jobs of three kinds are served: a live one whose window waits for an idle partition, one that failed
and one that has finished with late rows. ``--rewrite`` takes the pictures of docs/howto/monitor.md.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
import streamscope as ss
from jobmanager import JobFailedError
from jobmanager.storage.query_file import load_query
from tests.jobmanager.cli.page.served import Served, browsing
from tests.rooms import ROOT
from tests.support.feed import Feed
from tests.support.live import Watch, finish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.brokers import Broker

pytestmark = pytest.mark.slow
TOKEN = "a token of the tests"
PICTURES = ROOT / "docs" / "howto" / "monitoring"
QUERIES = {
    "counts.py": """
import streamscope as ss
stream = ss.Stream.from_csv({path!r}, vs="t", delay="5s", late="drop")
query = stream.group_by("k").window(ss.tumbling("1m")).agg(n=ss.agg.count())
""",
    "next.py": """
import streamscope as ss
stream = ss.Stream.from_csv({path!r}, vs="t", delay="5s", late="drop")
query = stream.group_by("k").window(ss.tumbling("2m")).agg(n=ss.agg.count())
""",
    "prices.py": """
import streamscope as ss

@ss.udf(returns="double", deterministic=True)
def price(k: int) -> float:
    return 100 / (k - 2)

stream = ss.Stream.from_csv({path!r}, vs="t", delay="5s", late="drop")
query = stream.with_columns(p=price(ss.col("k"))).to_parquet()
""",
}
VIEWS = {
    "": "What needs you",
    "orders": "waiting",
    "orders/plan": "Stages",
    "counts/plan/s02-agg": "Instances",
    "prices/timeline": "what failed",
    "prices/logs": "Logs, the latest first",
    "prices/output": "No rows yet",
    "counts/output": "Why?",
    "counts/at": "Move in time",
    "counts/late": "_frontier",
    "counts/changes": "What would a deployment change?",
}


def _at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


def _finished_and_failed(folder: Path) -> None:
    lines = ["t,k", *(f"{_at(t)},{t % 3}" for t in range(0, 600, 10)), f"{_at(1)},0"]
    (folder / "in.csv").write_text("\n".join(lines))
    for name, text in QUERIES.items():
        (folder / name).write_text(text.format(path=str(folder / "in.csv")))
    for job in ("counts", "prices"):
        query = load_query(str(folder / f"{job}.py"))
        running = ss.run(query, root=str(folder / "jobs" / job), executor="local")
        with pytest.raises(JobFailedError) if job == "prices" else contextlib.nullcontext():
            running.wait()


@pytest.fixture(scope="module")
def served(broker: Broker) -> Iterator[Served]:
    folder = Path(tempfile.mkdtemp(prefix="shop-"))
    _finished_and_failed(folder)
    feed, watch = Feed(broker, 2), Watch()
    now_s = int(time.time())
    for partition, second in ((0, now_s - 10), (1, now_s - 10), (0, now_s - 5)):
        feed.write(partition, second)
    windows = feed.stream(idle="wait").group_by("key").window(ss.tumbling(500_000))
    query = windows.agg(n=ss.agg.count()).to_parquet()
    root = str(folder / "jobs/orders")
    job = jobmanager.run(query, root=root, executor="local", on_status=watch)
    watch.until(lambda status: status["health"] == "waiting")
    (folder / "tokens").write_text(TOKEN)
    running = Served(folder / "jobs", "--token-file", str(folder / "tokens"))
    yield running
    running.close()
    finish(job)
    shutil.rmtree(folder)


def _open(page: Any, served: Served, view: str) -> None:
    page.goto(f"{served.url}/#/{view}")
    page.get_by_text(VIEWS[view]).first.wait_for()


def test_a_new_user_finds_the_answers_to_five_questions(served: Served) -> None:
    with browsing() as (page, errors):
        _open(page, served, "")
        first = page.inner_text("main")
        # the first lines of the page: which input is idle, and why a window has not closed
        needs = first.split("Worth knowing")[0]
        assert "orders: partition 1 of topic " in needs
        assert re.search(r"has no rows after 20.{17} \(idle=wait\)", needs)
        assert 'idle="follow" advances time without this partition' in needs
        # last night's failure, and the missing rows
        assert "failed: prices: s01-in.0: cannot evaluate price(k): raised ZeroDivision" in needs
        assert "counts: 1 of 61 rows of " in first
        assert "arrived later than delay=5s allows" in first
        # what holds back which output
        assert "partition 1 of topic" in first.split("Freshness")[1]
        _open(page, served, "orders")
        assert "idle" in page.inner_text("main")
        # the late rows themselves
        page.goto(f"{served.url}/#/")
        page.get_by_role("link", name="Show the late rows").click()
        page.get_by_text("_frontier").first.wait_for()
        assert "2026-01-01T00:00:01" in page.inner_text("main")
        assert "2026-01-01 00:09:45" in page.inner_text("main")
        assert 'delay="9m49s" would have kept all' in page.inner_text("main")
        _open(page, served, "prices/timeline")
        assert "ZeroDivisionError" in page.inner_text("main")
        page.goto(f"{served.url}/#/prices")
        page.get_by_text("Vertices (1)").wait_for()
        assert "running" not in page.inner_text("main")
        # the effect of a deployment
        _open(page, served, "counts/changes")
        where = _folder_of(served) / "next.py"
        page.get_by_label("File of the new query").fill(str(where))
        page.get_by_role("button", name="Compare").click()
        page.get_by_text("This needs a token").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Compare").click()
        page.get_by_text("What a deployment would change (").wait_for()
        told = page.inner_text("main")
        assert "started empty" in told or "lose their state" in told, told
        page.get_by_role("button", name="Which rows change?").click()
        page.get_by_text("45 rows differ: 0 changed, 30 only in the old answer").wait_for()
    assert all("401 (Unauthorized)" in error for error in errors), errors


def test_a_running_job_is_rescaled_from_the_page(served: Served) -> None:
    with browsing() as (page, errors):
        _open(page, served, "")
        page.evaluate(f"sessionStorage.setItem('token', '{TOKEN}')")
        stages = page.evaluate("fetch('api/jobs/orders/plan').then((answer) => answer.json())")
        keyed = stages["stages"][1]["stage"]
        page.goto(f"{served.url}/#/orders/plan/{keyed}")
        page.get_by_role("button", name=f"Rescale {keyed}").click()
        page.get_by_role("spinbutton", name="Vertices").fill("3")
        page.get_by_role("button", name="Yes").click()
        page.get_by_text(f"rescale {keyed}: done in ").wait_for()
        asked = "fetch('api/jobs/orders').then((answer) => answer.json())"
        page.wait_for_function(f"{asked}.then((j) => j.status.vertices.length == 5)")
        page.get_by_role("button", name=f"Rescale {keyed}").click()
        page.get_by_role("spinbutton", name="Vertices").fill("3")
        page.get_by_role("button", name="Yes").click()
        page.get_by_text(f"rescale {keyed}: rescale: nothing would change").wait_for()
    assert all("409 (Conflict)" in error for error in errors), errors


def _folder_of(served: Served) -> Path:
    arguments = served.process.args
    assert isinstance(arguments, list)
    return Path(str(arguments[4])).parent


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_accessibility_problem(served: Served, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with browsing(color_scheme=scheme) as (page, _):
        for view in VIEWS:
            _open(page, served, view)
            found = axe.run(page)
            assert found.violations_count == 0, (view, found.generate_report())


def test_every_view_is_reachable_by_keyboard(served: Served) -> None:
    with browsing() as (page, _):
        _open(page, served, "")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == "counts":
                break
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="counts").wait_for()
        seen = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.textContent"))
        assert {"Plan", "What happened", "Logs", "Any moment", "Deploy and savepoints"} <= seen


def test_no_view_is_wider_than_a_phone(served: Served) -> None:
    with browsing(viewport={"width": 390, "height": 800}) as (page, _):
        for view in VIEWS:
            _open(page, served, view)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, view


def test_screenshots_for_the_docs(served: Served, rewrite: bool) -> None:
    if not rewrite:
        pytest.skip("--rewrite takes them")
    pictures = {
        "jobs": ("", "light", 1200),
        "jobs-dark": ("", "dark", 1200),
        "jobs-phone": ("", "light", 390),
        "job": ("orders", "light", 1200),
        "moment": ("counts/at", "light", 1200),
    }
    for name, (view, scheme, width) in pictures.items():
        with browsing(color_scheme=scheme, viewport={"width": width, "height": 800}) as (page, _):
            _open(page, served, view)
            if name == "moment":
                page.get_by_role("button", name="Compute").click()
                page.get_by_text("UTC (3)").wait_for()
            page.screenshot(path=PICTURES / f"{name}.png")
