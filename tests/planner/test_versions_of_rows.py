"""Rows that are updated: the table of updates at each instant, and the first row of each id."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from planner import InvalidPlanError, Stream, agg, col, event
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from tests.support.plan_runner import Schedule, answer

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = {"k": "string", "x": "int64", "gone": "bool"}


def made() -> list[dict[str, Any]]:
    rng = Random(3)
    at, rows = 0, []
    for n in range(40):
        at += rng.choice([0, 0, 1, 3])
        gone = rng.choice([True, False, False, None])
        rows.append({VS: at, "k": rng.choice("abc"), "x": n, "gone": gone})
    return rows


ROWS = made()
STREAM = Stream.from_items(SCHEMA, [event(r[VS], **{n: r[n] for n in SCHEMA}) for r in ROWS])


def found(stream: Stream, parallelism: int = 2) -> list[dict[str, Any]]:
    plan = lower(stream.to_parquet(), root="memory://versions", parallelism=parallelism)
    schedules = [Schedule((0,)), Schedule((3, 0, 1, 5, 2), rows_max=4, restores=True)]
    one, other = (
        sorted(answer(plan, schedule=s).to_pylist(), key=lambda r: (r[VS], repr(r)))
        for s in schedules
    )
    assert one == other
    return one


def table_at(at: int, *, deletes: bool) -> dict[str, int]:
    """The table at an instant."""
    table: dict[str, int] = {}
    for row in ROWS:
        if row[VS] <= at:
            table[row["k"]] = row["x"]
            if deletes and row["gone"]:
                del table[row["k"]]
    return table


@pytest.mark.parametrize("deletes", [False, True])
def test_the_current_rows_are_the_table(deletes: bool) -> None:
    versions = STREAM.upserts("k", deleted=col("gone") if deletes else None)
    assert versions.schema.names == ["k", "x", "gone"]
    rows = found(versions)
    sums = found(versions.group_by().agg(n=agg.count(), total=agg.sum("x")))
    for at in range(-1, ROWS[-1][VS] + 3):
        table = table_at(at, deletes=deletes)
        now = [r for r in rows if r[VS] <= at < r[VE]]
        assert {r["k"]: r["x"] for r in now} == table
        assert len(now) == len(table)
        totals = [(r["n"], r["total"]) for r in sums if r[VS] <= at < r[VE]]
        assert totals == ([(len(table), sum(table.values()))] if table else [])


def test_the_first_of_equal_ids() -> None:
    free: dict[str, int] = {}
    expected = []
    for row in ROWS:
        if row[VS] >= free.get(row["k"], 0):
            free[row["k"]] = row[VS] + 5
            expected.append(row["x"])
    assert sorted(r["x"] for r in found(STREAM.deduplicate("k", within=5))) == expected
    firsts = {row["k"]: row["x"] for row in reversed(ROWS)}
    assert {r["k"]: r["x"] for r in found(STREAM.deduplicate("k"))} == firsts


def test_columns_of_a_key_are_compared_one_by_one() -> None:
    assert STREAM.upserts("k", "x").plan == STREAM.upserts(["k", "x"]).plan
    one_by_one = STREAM.deduplicate("k", "x", within=5)
    assert one_by_one.plan == STREAM.deduplicate(["k", "x"], within=5).plan


def test_wrong_arguments_of_deduplicate_and_upserts_are_named() -> None:
    cases: list[tuple[Callable[[], Stream], str]] = [
        (lambda: STREAM.deduplicate([]), "takes the names of a key's columns"),
        (lambda: STREAM.upserts(col("k")), r"takes the names of a key's columns, not .*compute it"),
        (lambda: STREAM.deduplicate("k", within=0), "within"),
        (lambda: STREAM.upserts("nope"), "nope"),
        (lambda: STREAM.upserts("k", deleted=col("x")), "does not take int64 and bool"),
    ]
    for make, words in cases:
        with pytest.raises(InvalidPlanError, match=words):
            make()
