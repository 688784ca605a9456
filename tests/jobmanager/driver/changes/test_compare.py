"""Changes of a query and their effect on its state: the tables of change-a-job.md.

Not covered: whether the state is right afterwards (test_kept.py, test_deploy.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import streamscope as ss
from jobmanager.driver.running.changes.compare import Comparison, compare
from jobmanager.driver.running.changes.scaling.widths import widths_for
from planner.physical.layout import laid_out
from planner.physical.lower import lower
from planner.physical.slot_ranges import plain
from rstream import Appender
from rstream.items.batch import event_schema
from rvertex.checkpoint.conversion import converted_source
from rvertex.operators.protocol import OperatorState
from rvertex.vertex.reorder import late_payload
from tests.support.change_table import (
    ADVICE,
    CHANGES,
    COUNTS,
    REASONS,
    SESSIONS,
    VERDICTS,
    query_of,
    verdict,
)
from tests.support.changed_jobs import SCHEMA, batch

if TYPE_CHECKING:
    from pathlib import Path

    from planner.physical.plan import PhysicalPlan


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
    return lower(query_of(text, **logs), root="ROOT", parallelism=2)


def test_each_row_of_the_table_in_the_docs_has_queries() -> None:
    assert VERDICTS.keys() | ADVICE.keys() == CHANGES.keys()
    assert ADVICE.keys() == REASONS.keys()
    assert {words for words, found in VERDICTS.items() if found == "refused"} <= ADVICE.keys()


@pytest.mark.parametrize("words", VERDICTS)
def test_effect_of_a_change_on_state(logs: dict[str, str], words: str) -> None:
    found = compared(logs, *CHANGES[words])
    assert verdict(found) == VERDICTS[words], found
    assert all(bool(row.reason) == (row.verdict != "kept") for row in found.rows), found
    assert found.hash == compared(logs, *CHANGES[words]).hash


def test_new_output_columns_are_named(logs: dict[str, str]) -> None:
    *_, last = compared(logs, *CHANGES["an aggregate is added"]).rows
    assert "; new output column" in last.reason


@pytest.mark.parametrize("words", ADVICE)
def test_rejected_changes_name_an_alternative(logs: dict[str, str], words: str) -> None:
    found = compared(logs, *CHANGES[words])
    assert re.search(REASONS[words], found.refusal), found.refusal
    assert found.refusal.endswith("; or run the new query in another root")


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


def test_rules_of_a_source_may_change_but_not_its_times(logs: dict[str, str]) -> None:
    def plan(**options: str) -> PhysicalPlan:
        rows = ss.Stream.from_rstream(logs["rows"], follow=True, **options)  # type: ignore[arg-type]
        query = rows.group_by("key").window(ss.tumbling("1s")).agg(n=ss.agg.count())
        return lower(query.to_parquet(), root="ROOT", parallelism=2)

    old = plan(vs="t", delay="50ms")
    (source, _) = compare(old, plan(vs="t", delay="2s")).rows
    assert source.reason == "another delay after the change"
    (refusal,) = compare(old, plan(vs="x", delay="50ms")).refusals
    assert refusal == "stage s01-rows would read its source with another vs: keep it"


def test_a_filter_evaluated_by_the_source_is_compared(tmp_path: Path) -> None:
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


def test_a_column_with_another_type_is_not_kept(tmp_path: Path) -> None:
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


def test_reasons_use_the_words_of_the_query_and_a_kept_stage_needs_none(
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
    for words in VERDICTS:
        for verdict_, reason in reasons(*CHANGES[words]):
            assert (verdict_ == "kept") == (reason == ""), words
            assert not re.search(r"_us|[a-z][A-Z]", reason), (words, reason)
