"""Functions, clauses and windows of Spark SQL and Flink SQL: DuckDB's result, or an error.

``make`` prints the score with ``pytest -s``. Not covered: mistakes that DuckDB and this engine
share; the batch versions, which ``tests/planner/batch`` compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from planner import SqlError, Stream, sql
from planner.expressions.entries.family import VARYING
from planner.expressions.nodes import Call, Column, Node, parts_of
from planner.logical.nodes import Project
from tests.support.budget import one_in
from tests.support.catalogue import aggregates, over, queries, scalars, windows
from tests.support.catalogue.entry import Entry, asked, ducks, one_batch, ours, streams

if TYPE_CHECKING:
    from collections.abc import Iterator

ENTRIES: tuple[Entry, ...] = (
    *scalars.ENTRIES,
    *aggregates.ENTRIES,
    *queries.ENTRIES,
    *windows.ENTRIES,
    *over.ENTRIES,
)


def test_names_are_unique() -> None:
    names = [entry.name for entry in ENTRIES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    "entry", one_in(3, (e for e in ENTRIES if e.hint is None)), ids=lambda e: e.name
)
def test_results_equal_duckdb(entry: Entry) -> None:
    found = ours(entry.ours, is_running=entry.is_running)
    assert found, "an empty answer shows nothing"
    assert found == ducks(entry.duck or entry.ours)


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for part in parts_of(node) if isinstance(node, Call) else ():
        yield from _nodes(part)


def _varying(node: Node) -> list[Node]:
    """The options that are expressions."""
    calls = (n for n in _nodes(node) if isinstance(n, Call) and n.function == VARYING)
    return [option for call in calls for option in call.args[-len(call.option("names")) :]]


def _reads_a_column(node: Node) -> bool:
    return any(isinstance(part, Column) for part in _nodes(node))


@pytest.mark.parametrize("part", one_in(3, range(3)))
def test_a_function_of_a_subset_of_rows_returns_the_same_results(part: int) -> None:
    """Row by row, no row, rows from the middle, and only nulls."""
    items = one_batch()
    nulls = pa.RecordBatch.from_pydict(
        {
            field.name: items.column(field.name)
            if field.name.startswith("_")
            else pa.nulls(len(items), field.type)
            for field in items.schema
        },
        schema=items.schema,
    )
    for entry in scalars.ENTRIES[part::3]:
        if entry.hint is not None or asked(entry.ours) == entry.ours:
            continue
        stream = sql(asked(entry.ours), streams())
        assert isinstance(stream, Stream)
        assert isinstance(stream.plan, Project)
        node, kind = dict(stream.plan.columns)["v"], stream.schema.field("v").type
        assert all(map(_reads_a_column, _varying(node))), "a batch takes literals as options"
        whole = node.evaluate(items)
        alone = [node.evaluate(items.slice(k, 1)) for k in range(len(items))]
        assert repr(pa.concat_arrays(alone).to_pylist()) == repr(whole.to_pylist()), entry.name
        middle = node.evaluate(items.slice(7, 20)).to_pylist()
        assert repr(middle) == repr(whole.slice(7, 20).to_pylist()), entry.name
        for rows in (items.slice(0, 0), nulls):
            found = node.evaluate(rows)
            assert (len(found), found.type) == (len(rows), kind), entry.name


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.hint is not None], ids=lambda e: e.name)
def test_unsupported_functions_are_rejected_with_a_hint(entry: Entry) -> None:
    with pytest.raises(SqlError) as raised:
        sql(asked(entry.ours), streams())
    assert entry.hint is not None
    assert entry.hint in str(raised.value)


def test_the_number_of_supported_functions(capsys: pytest.CaptureFixture[str]) -> None:
    works = sum(entry.hint is None for entry in ENTRIES)
    with capsys.disabled():
        print(f"[SQL: {works} of {len(ENTRIES)} work]", end=" ")
