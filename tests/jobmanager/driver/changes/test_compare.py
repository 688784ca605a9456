"""Twenty changes of a query and their effect on its state: the table of change-a-job.md.

Cannot catch: whether the state is right afterwards (test_kept.py, test_deploy.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest

import streamscope as ss
from jobmanager.driver.running.changes.compare import Comparison, compare
from jobmanager.driver.running.changes.scaling.widths import widths_for
from planner.logical.query import together
from planner.physical.layout import laid_out
from planner.physical.lower import lower
from planner.physical.slot_ranges import plain
from rstream import Appender
from rstream.items.batch import event_schema
from rvertex.checkpoint.conversion import converted_source
from rvertex.operators.protocol import OperatorState
from rvertex.vertex.reorder import late_payload
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
#: The page's words, the query before, the query after, and the verdict on all stages.
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
        "a step is added after the window",
        COUNTS,
        f'{COUNTS}.deduplicate("key", within="1s")',
        "started empty",
    ),
    ("an output column is removed", COUNTS, f'{COUNTS}.select("key")', "refused"),
    (
        "an output column has another type",
        COUNTS,
        f'{COUNTS}.select("key", n=ss.col("n") * 1.5)',
        "refused",
    ),
    ("the output goes to another folder", COUNTS, f'{COUNTS}.to_parquet("/elsewhere")', "refused"),
    ("another source", COUNTS, COUNTS.replace("rows", "other"), "refused"),
]


class Draws(ss.KeyedProcess):
    """Draws random values, which are logged."""

    output: ClassVar[dict[str, str]] = {"value": "float64"}

    def on_event(self, event: Any, ctx: Any) -> None:
        ctx.emit(ctx.random())


STRONG = f'{COUNTS}.recover_with("strong")'
DRAWN = 'rows.group_by("key").process(Draws)'
#: The page's words, the query before, the query after, the reason and what to write.
REFUSED = [
    ("an output column is removed", COUNTS, f'{COUNTS}.select("key")', "removed: keep it"),
    (
        "an output column has another type",
        COUNTS,
        f'{COUNTS}.select("key", n=ss.col("n") * 1.5)',
        "column 'n' of the output would be double, not int64: give the new values another name",
    ),
    (
        "the output goes to another folder",
        COUNTS,
        f'{COUNTS}.to_parquet("/elsewhere")',
        "its output would move from .* to /elsewhere: keep the folder",
    ),
    (
        "another source",
        COUNTS,
        COUNTS.replace("rows", "other"),
        "but no old stage that wrote it continues there: keep the sources and the last step",
    ),
    ("a window becomes a session", COUNTS, SESSIONS, "keep the sources and the last step"),
    (
        "a source ends that had no end",
        COUNTS,
        COUNTS.replace("rows", "ended"),
        "but no old stage that wrote it continues there: keep the sources and the last step",
    ),
    (
        "a source has its time in another column",
        COUNTS,
        COUNTS.replace("rows", "by_x"),
        "would read its source with another vs: keep it",
    ),
    (
        "a stage is recovered as `strong`",
        STRONG,
        STRONG,
        "is recovered as 'strong', so it cannot be changed: start jobs that may change with",
    ),
    (
        "user code draws values",
        DRAWN,
        DRAWN,
        "which are logged, so it cannot be changed: call the function in a separate job",
    ),
    (
        "a second output",
        COUNTS,
        f"together({{'a': {COUNTS}.to_parquet(), 'b': {SESSIONS}.to_parquet()}})",
        "its outputs would be a, b, not output: keep their names and their order",
    ),
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
    return compare(plan_of(logs, old), plan_of(logs, new))


def plan_of(logs: dict[str, str], text: str) -> PhysicalPlan:
    streams = {
        name: ss.Stream.from_rstream(uri, vs="t", delay="50ms", follow=True)
        for name, uri in logs.items()
    }
    uri = logs["rows"]
    streams["by_x"] = ss.Stream.from_rstream(uri, vs="x", delay="50ms", follow=True)
    streams["ended"] = ss.Stream.from_rstream(uri, vs="t", delay="50ms")
    query = eval(text, {"ss": ss, "Draws": Draws, "together": together, **streams})
    query = query.to_parquet() if isinstance(query, ss.Stream) else query
    return lower(query, root="ROOT", parallelism=2)


def verdict(found: Comparison) -> str:
    """Return the verdict of the stage that keeps the least state."""
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
    assert all(bool(row.reason) == (row.verdict != "kept") for row in found.rows), found
    assert found.hash == compared(logs, old, new).hash
    page = (ROOT / "docs/howto/change-a-job.md").read_text()
    assert f"| {words} | {verdict(found)} |" in page


@pytest.mark.parametrize("change", REFUSED, ids=[words for words, *_ in REFUSED])
def test_what_is_refused_and_what_to_write(
    logs: dict[str, str], change: tuple[str, str, str, str]
) -> None:
    words, old, new, reason = change
    found = compared(logs, old, new)
    assert re.search(reason, found.refusal), found.refusal
    assert found.refusal.endswith("; or run the new query in another root")
    page = (ROOT / "docs/howto/change-a-job.md").read_text()
    assert f"| {words} |" in page.partition("## Changes that are refused")[2]


def test_outputs_of_a_job_keep_their_names_and_deliveries(logs: dict[str, str]) -> None:
    """A rescale adds partitions of each output; the other partitions keep their numbers."""

    def several(a: str, b: str) -> str:
        return f"together({{'a': {COUNTS}{a}, 'b': {SESSIONS}{b}}})"

    here, there = ".deliver(ss.sinks.console(name='x'))", ".to_parquet()"
    old = several(here, there)
    refusals = [
        (several(here, there), ""),
        (several(there, there), ""),
        (several(there, here), "delivery x would get the rows of output b: give it another name"),
        (several(here, f'.with_columns(m=ss.col("n") * 2){there}'), ""),
        (several(here, f'.select("key"){there}'), "output b: column 'n' of the output would be"),
        (several(here, there).replace("'b'", "'c'"), "its outputs would be a, c, not a, b"),
    ]
    for new, reason in refusals:
        found = compared(logs, old, new).refusals
        assert bool(found) == bool(reason), found
        assert not reason or found[0].startswith(reason), found
    former = plan_of(logs, old)
    layouts = dict.fromkeys(widths_for(former, 3, {}), plain(3))
    plan = laid_out(former, layouts)
    plan.validate()
    numbers = [output.partitions for output in former.of_outputs]
    added = [output.partitions for output in plan.of_outputs]
    assert added == [(*numbers[0], 4), (*numbers[1], 5)]
    deployed = compare(plan, plan_of(logs, several(here, there))).plan
    assert [output.partitions for output in deployed.of_outputs] == added


def test_rules_of_a_source_change_and_its_times_do_not(logs: dict[str, str]) -> None:
    def plan(**options: str) -> PhysicalPlan:
        rows = ss.Stream.from_rstream(logs["rows"], follow=True, **options)  # type: ignore[arg-type]
        query = rows.group_by("key").window(ss.tumbling("1s")).agg(n=ss.agg.count())
        return lower(query.to_parquet(), root="ROOT", parallelism=2)

    old = plan(vs="t", delay="50ms")
    (source, _) = compare(old, plan(vs="t", delay="2s")).rows
    assert source.reason == "another delay after the change"
    (refusal,) = compare(old, plan(vs="x", delay="50ms")).refusals
    assert refusal == "stage s01-rows would read its source with another vs: keep it"


def test_a_filter_that_the_source_evaluates_is_compared(tmp_path: Path) -> None:
    """Both are evaluated before the rows are sorted, so no operator of the stage differs."""
    (tmp_path / "0.csv").write_text("t,key,x\n1,1,1\n")

    def plan(x: int) -> PhysicalPlan:
        rows = ss.Stream.from_csv(str(tmp_path), vs="t", delay="1s", follow=True)
        kept = rows.filter(ss.col("x") > x).group_by("key").window(ss.tumbling("1s"))
        return lower(kept.agg(n=ss.agg.count()).to_parquet(), root="ROOT", parallelism=2)

    old = plan(0)
    assert [row.verdict for row in compare(old, plan(0)).rows] == ["kept", "kept"]
    found = compare(old, plan(5))
    assert [(row.verdict, row.reason) for row in found.rows] == [
        ("converted", "another filter after the change"),
        ("kept", ""),
    ]
    assert found.hash != compare(old, plan(99)).hash


def test_a_column_that_changes_its_type_is_not_kept(tmp_path: Path) -> None:
    """A column that no stage reads is in late rows only."""
    (tmp_path / "0.json").write_text('{"t": 1, "key": 1, "u": 1, "w": 1}\n')

    def plan(u: str, w: str) -> PhysicalPlan:
        schema = {"t": "int64", "key": "int64", "u": u, "w": w}
        rows = ss.Stream.from_json(str(tmp_path), vs="t", schema=schema, delay="1s", follow=True)
        kept = rows.filter(ss.col("w") > 1).group_by("key").window(ss.tumbling("1s"))
        return lower(kept.agg(n=ss.agg.count()).to_parquet(), root="ROOT", parallelism=2)

    old, new = plan("int64", "int64"), plan("float64", "int64")
    unread = compare(old, new)
    assert [(row.verdict, row.reason) for row in unread.rows] == [
        ("converted", "u: another type in late rows after the change"),
        ("kept", ""),
    ]
    assert not unread.refusals
    assert old.vertices[0].source is not None
    late = event_schema(late_payload(old.vertices[0].source.spec.row_schema))
    waiting = pa.Table.from_pylist([dict.fromkeys(late.names, 7)], schema=late)
    state = converted_source(OperatorState({}, {"late.0": waiting}), new.vertices[0])
    assert state is not None
    assert state.tables["late.0"].schema.field("u").type == pa.float64()
    (refusal,) = compare(old, plan("int64", "float64")).refusals
    assert refusal.startswith(f"stage {old.stages[0].name} would read w with another type: keep")


def test_reasons_have_the_words_of_the_query_and_a_kept_stage_needs_none(
    logs: dict[str, str],
) -> None:
    def reasons(old: str, new: str) -> list[tuple[str, str]]:
        return [(row.verdict, row.reason) for row in compared(logs, old, new).rows]

    assert reasons(COUNTS, COUNTS) == [("kept", "")] * 2
    size = "window size, window step"
    assert reasons(COUNTS, COUNTS.replace("1s", "2s")) == [
        (
            "started empty",
            f"the partial aggregate has another {size}; it continues at its positions in the input",
        ),
        ("started empty", f"the final aggregate has another {size}"),
    ]
    for words, old, new, _ in CHANGES:
        for verdict_, reason in reasons(old, new):
            assert (verdict_ == "kept") == (reason == ""), words
            assert not re.search(r"_us|[a-z][A-Z]", reason), (words, reason)
