"""Functions, clauses and windows of Spark SQL and Flink SQL: they answer as DuckDB's, or refuse.

``make`` prints the score with ``pytest -s``. Cannot catch: what DuckDB and this engine have both
misread; the batch twins, which ``tests/planner/batch`` compares.
"""

from __future__ import annotations

import pytest

from planner import SqlError, sql
from tests.support.catalogue import aggregates, over, queries, scalars, windows
from tests.support.catalogue.entry import Entry, asked, ducks, ours, streams

ENTRIES: tuple[Entry, ...] = (
    *scalars.ENTRIES,
    *aggregates.ENTRIES,
    *queries.ENTRIES,
    *windows.ENTRIES,
    *over.ENTRIES,
)


def test_names_are_different() -> None:
    names = [entry.name for entry in ENTRIES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.hint is None], ids=lambda e: e.name)
def test_answers_are_duckdbs(entry: Entry) -> None:
    found = ours(entry.ours, is_running=entry.is_running)
    assert found, "an empty answer shows nothing"
    assert found == ducks(entry.duck or entry.ours)


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.hint is not None], ids=lambda e: e.name)
def test_what_is_not_there_is_refused_with_a_hint(entry: Entry) -> None:
    with pytest.raises(SqlError) as raised:
        sql(asked(entry.ours), streams())
    assert entry.hint is not None
    assert entry.hint in str(raised.value)


def test_the_score(capsys: pytest.CaptureFixture[str]) -> None:
    works = sum(entry.hint is None for entry in ENTRIES)
    with capsys.disabled():
        print(f"[SQL: {works} of {len(ENTRIES)} work]", end=" ")
