"""Twenty changes of a query, and what becomes of its state: the table of change-a-job.md.

Cannot catch: whether the state is right afterwards (test_kept.py, test_deploy.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import streamscope as ss
from jobmanager.driver.running.changes.compare import Comparison, compare
from planner.physical.lower import lower
from rstream import Appender
from tests.rooms import ROOT
from tests.support.changed_jobs import SCHEMA, batch

if TYPE_CHECKING:
    from pathlib import Path

    from planner.physical.plan import PhysicalPlan

BY_KEY = 'rows.group_by("key")'
N, WINDOW = "n=ss.agg.count()", '.window(ss.tumbling("1s"))'
COUNTS = f"{BY_KEY}{WINDOW}.agg({N})"
JOINED = 'rows.join(other, on="key", within=("-1s", "0s")).select("key", "x", '
SESSIONS = f'{BY_KEY}.window(ss.session("1s")).agg({N})'
#: The words of the page, the query before, the query after, the verdict of the stages together.
CHANGES = [
    ("the same query", COUNTS, COUNTS, "kept"),
    ("another name in the file", COUNTS, f"(lambda counts: counts)({COUNTS})", "kept"),
    ("an aggregate is added", COUNTS, f'{BY_KEY}{WINDOW}.agg({N}, t=ss.agg.sum("x"))', "converted"),
    (
        "an aggregate is added to a session",
        SESSIONS,
        SESSIONS.replace(N, f'{N}, t=ss.agg.max("x")'),
        "converted",
    ),
    (
        "a computed column is added",
        COUNTS,
        f'{COUNTS}.with_columns(twice=ss.col("n") * 2)',
        "converted",
    ),
    (
        "a column of a join's side is added",
        f'{JOINED}y="x_right")',
        f'{JOINED}y="x_right", z="t_right")',
        "converted",
    ),
    ("a filter is added after a window", COUNTS, f'{COUNTS}.filter(ss.col("n") > 1)', "converted"),
    (
        "a filter is added before a window",
        COUNTS,
        COUNTS.replace("rows", 'rows.filter(ss.col("x") > 1)'),
        "converted",
    ),
    (
        "a filter has another constant",
        f'{COUNTS}.filter(ss.col("n") > 1)',
        f'{COUNTS}.filter(ss.col("n") > 2)',
        "converted",
    ),
    ("a window is longer", COUNTS, COUNTS.replace("1s", "2s"), "started empty"),
    (
        "a window slides",
        COUNTS,
        COUNTS.replace('tumbling("1s")', 'hopping("1s", "500ms")'),
        "empty",
    ),
    ("a session has another gap", SESSIONS, SESSIONS.replace("1s", "2s"), "started empty"),
    ("a window becomes a session", COUNTS, SESSIONS, "refused"),
    (
        "another key",
        COUNTS,
        f'{COUNTS.replace("key", "x")}.select("n", key=ss.col("x"))',
        "started empty",
    ),
    (
        "a join reaches further back",
        f'{JOINED}y="x_right")',
        f'{JOINED.replace("-1s", "-2s")}y="x_right")',
        "started empty",
    ),
    (
        "a step is added behind the window",
        COUNTS,
        f'{COUNTS}.deduplicate("key", within="1s")',
        "started empty",
    ),
    ("a column of the answer goes", COUNTS, f'{COUNTS}.select("key")', "refused"),
    (
        "a column of the answer has another type",
        COUNTS,
        f'{COUNTS}.select("key", n=ss.col("n") * 1.5)',
        "refused",
    ),
    ("the answer goes to another folder", COUNTS, f'{COUNTS}.to_parquet("/elsewhere")', "refused"),
    ("another source", COUNTS, COUNTS.replace("rows", "other"), "refused"),
]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("logs")
    return {name: _written(folder / name) for name in ("rows", "other")}


def _written(folder: Path) -> str:
    with Appender(str(folder), SCHEMA) as log:
        log.append(batch(0))
    return str(folder)


def compared(logs: dict[str, str], old: str, new: str) -> Comparison:
    streams = {
        name: ss.Stream.from_rstream(uri, vs="t", delay="50ms", follow=True)
        for name, uri in logs.items()
    }
    plans = []
    for text in (old, new):
        query = eval(text, {"ss": ss, **streams})
        query = query.to_parquet() if isinstance(query, ss.Stream) else query
        plans.append(lower(query, root="ROOT", parallelism=2))
    return compare(*plans)


def verdict(found: Comparison) -> str:
    """Of all stages together: the one that keeps the least."""
    if found.refusals:
        return "refused"
    verdicts = {row.verdict for row in found.rows}
    order = ("dropped", "started empty", "converted", "kept")
    return next(one for one in order if one in verdicts)


@pytest.mark.parametrize("change", CHANGES, ids=[words for words, *_ in CHANGES])
def test_what_becomes_of_state(logs: dict[str, str], change: tuple[str, str, str, str]) -> None:
    words, old, new, expected = change
    found = compared(logs, old, new)
    assert verdict(found).endswith(expected), found
    assert found.hash == compared(logs, old, new).hash
    page = (ROOT / "docs/howto/change-a-job.md").read_text()
    assert f"| {words} | {verdict(found)} |" in page


def test_rules_of_a_source_change_and_its_times_do_not(logs: dict[str, str]) -> None:
    def plan(**options: str) -> PhysicalPlan:
        rows = ss.Stream.from_rstream(logs["rows"], follow=True, **options)  # type: ignore[arg-type]
        query = rows.group_by("key").window(ss.tumbling("1s")).agg(n=ss.agg.count())
        return lower(query.to_parquet(), root="ROOT", parallelism=2)

    old = plan(vs="t", delay="50ms")
    (source, _) = compare(old, plan(vs="t", delay="2s")).rows
    assert source.reason == "another delay_us from the change on"
    (refusal,) = compare(old, plan(vs="x", delay="50ms")).refusals
    assert refusal == "stage s01-rows would read its source with another vs"
