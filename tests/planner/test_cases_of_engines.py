"""Small worked examples in the style of other engines' documentation, with our own rows.

The rules are theirs, the rows and numbers are ours. If this engine differs on purpose, ``differs``
explains how, and the rows are this engine's result. Not covered: a misread rule; effects between
processes, since all plans run in one thread.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from planner import Stream, sql
from planner.physical.lower import lower
from rvertex.errors import LateRowError
from tests.planner.sql.pasted.test_pasted import (
    CASES as PASTED,
    UNSAID as UNSAID_AS_PASTED,
)
from tests.support.engines import joins, late, processes, values, windows
from tests.support.engines.case import SECOND, Case, Row, exact
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from pathlib import Path

CASES: dict[str, Case] = {**windows.CASES, **joins.CASES, **processes.CASES}
#: Cases to whose answer no query of this engine leads.
UNSAID = {
    "exactly the delay late": "rows are late by their own time, not by that of a window",
    "a longer delay": "a window has one result, unless `emit` asks for early ones",
    "watermark of a batch": "the answer would depend on batches",
    "chop without end": "an event without end would have pieces without end",
}
#: The maximum number of such cases, including those of test_pasted.py.
UNSAID_MAX = 8


def answered(stream: Stream, parallelism: int, rows_max: int) -> list[Row]:
    """The result as sorted rows."""
    plan = lower(stream.to_parquet(), root="memory://engines", parallelism=parallelism)
    rows = [tuple(row.values()) for row in answer(plan, rows_max=rows_max).to_pylist()]
    return sorted(rows, key=lambda row: (row[0], row[1], repr(row)))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_case_of_an_engine(name: str) -> None:
    case = CASES[name]
    for asked in case.asked:
        stream = sql(asked, case.streams) if isinstance(asked, str) else asked
        assert isinstance(stream, Stream)
        for parallelism, rows_max in ((1, 1000), (2, 1)):
            found = answered(stream, parallelism, rows_max)
            assert found == exact(case.rows), (case.rule, asked, parallelism)


@pytest.mark.slow
@pytest.mark.parametrize("name", values.VALUES)
def test_expressions_have_the_values_of_other_engines(name: str) -> None:
    _, rule, expected = values.VALUES[name]
    listed = ", ".join(f"{text} AS v{i}" for i, text in enumerate(expected))
    stream = sql(f"SELECT {listed} FROM one", {"one": values.ONE})
    assert isinstance(stream, Stream)
    for parallelism in (1, 2):
        ((_, _, *found),) = answered(stream, parallelism, 1000)
        told = dict(zip(expected, found, strict=True))
        assert told == expected, rule
        assert [type(v) for v in found] == [type(v) for v in expected.values()], rule


def test_few_cases_have_no_alternative() -> None:
    assert len(CASES) + len(late.CASES) + len(values.VALUES) + len(PASTED) >= 900
    assert all((CASES.get(name) or late.CASES[name]).differs for name in UNSAID)
    assert len(UNSAID) + len(UNSAID_AS_PASTED) <= UNSAID_MAX


@pytest.mark.slow
@pytest.mark.parametrize("name", late.CASES)
def test_late_rows_are_handled_as_in_the_case_of_the_engine(name: str, tmp_path: Path) -> None:
    case = late.CASES[name]
    lines = [json.dumps({"t": time * SECOND, "x": x}) for time, x in case.arriving]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines))
    rows = Stream.from_json(str(path), vs="t", delay=case.delay, late=case.late, partitions=1)
    for parallelism, rows_max in ((1, 1000), (2, 1)):
        if case.rows is None:
            with pytest.raises(LateRowError):
                answered(case.ask(rows), parallelism, rows_max)
        else:
            found = answered(case.ask(rows), parallelism, rows_max)
            assert found == exact(case.rows), (case.rule, parallelism)
