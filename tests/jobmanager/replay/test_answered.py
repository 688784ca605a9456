"""Lineage, bisection and capsules of jobs with lookups use recorded answers and make no call.

Not covered: answers from before a change of the job.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import streamscope as ss
from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.rows.bisecting import bisect
from jobmanager.replay.rows.capsules import make_capsule, open_capsule
from jobmanager.replay.rows.whys import why
from jobmanager.storage.documents import pickle_document
from rstream.errors import UsageError
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CALLS = itertools.count(1)
ROWS = 60


def price(article: str) -> int:
    """Return another price with each call."""
    if article == "a4":
        raise KeyError(article)
    return next(CALLS)


def receipt(order: int) -> dict[str, str]:
    return {"receipt": f"r{next(CALLS)} of {order}"}


def secret(article: str, key: str = "planted-key") -> str:
    return f"password of {article}, {key[:1]}"


def orders(folder: Path) -> ss.Stream:
    lines = [f"1970-01-01T00:00:{t:02},{t},a{t % 5}" for t in range(ROWS)]
    path = folder / "orders.csv"
    path.write_text("\n".join(["t,order,article", *lines]))
    return ss.Stream.from_csv(str(path), vs="t", delay="1s", schema={"order": "int64"})


def ran(folder: Path, query: ss.Stream, **options: Any) -> str:
    root = str(folder / "job")
    asked = {"executor": "local", "retain": "all", "parallelism": 2, **options}
    ss.run(query.to_parquet(), root=root, **asked).wait(WAIT_S)
    return root


def priced(orders: ss.Stream) -> ss.Stream:
    return orders.lookup(price, {"price": "int64"}, on="article", cache="12s", on_error="null")


def behind(orders: ss.Stream) -> ss.Stream:
    """A window over the answers, and a lookup for the window's rows."""
    rows = orders.lookup(price, {"price": "int64"}, on="article", on_error="skip")
    sums = rows.group_by("article").window(ss.tumbling("20s")).agg(total=ss.agg.sum("price"))
    return sums.lookup(receipt, {"receipt": "string"}, on="total")


def charged(orders: ss.Stream) -> ss.Stream:
    return orders.call_once(receipt, {"receipt": "string"}, key="article", on="order")


@pytest.mark.parametrize("query", [priced, charged])
def test_a_row_depends_on_one_input_row_and_makes_no_call(
    query: Callable[[ss.Stream], ss.Stream], tmp_path: Path
) -> None:
    root = ran(tmp_path, query(orders(tmp_path)))
    before = next(CALLS)
    for order in (0, 4, 17, 59):
        found = why(root, f'"order" = {order}')
        (table,) = found.inputs.values()
        assert (found.is_smallest, table["order"].to_pylist()) == (True, [order])
    assert next(CALLS) == before + 1


def test_a_sum_of_results_depends_on_all_its_rows(tmp_path: Path) -> None:
    """Each row has its own answer, so equal arguments have different answers."""
    root = ran(tmp_path, behind(orders(tmp_path)))
    for start, article in ((0, "a1"), (20, "a3"), (40, "a0")):
        at = f"TIMESTAMP '1970-01-01 00:00:{start:02}'"
        found = why(root, f"article = '{article}' AND window_start = {at}")
        (table,) = found.inputs.values()
        mine = [t for t in range(start, start + 20) if f"a{t % 5}" == article]
        assert (found.is_smallest, table["order"].to_pylist()) == (True, mine)


def test_a_capsule_has_the_results_of_its_own_rows_only(tmp_path: Path) -> None:
    named = orders(tmp_path).lookup(secret, {"word": "string"}, on="article")
    root, path = (
        ran(tmp_path, named.select("order", n=ss.col("word").str.upper())),
        tmp_path / "c.zip",
    )
    assert why(root, '"order" = 7').rows == 1
    make_capsule(root, '"order" = 7', str(path))
    opened = open_capsule(str(path), trust=True)
    assert opened.is_reproduced()
    (known,) = [
        operator.answers.known
        for vertex in opened.plan.vertices
        for operator in vertex.operators
        if hasattr(operator, "answers") and operator.answers.known
    ]
    assert list(known) == ["str 'a2'"]
    assert b"planted-key" not in pickle_document(opened.plan)


def test_a_wrong_result_is_bisected_to_the_row_that_requested_it(tmp_path: Path) -> None:
    """The call for article a4 fails, so each of its rows has a null."""
    found = bisect(ran(tmp_path, priced(orders(tmp_path))), row="price IS NULL", causes_max=2)
    assert [cause.item["order"].to_pylist() for cause in found.causes] == [[4], [9]]
    assert found.wrong_rows == ROWS // 5


def test_deleted_results_are_an_error_that_says_how_to_retain_them(tmp_path: Path) -> None:
    root = ran(tmp_path, priced(orders(tmp_path)), retain=None, checkpoint_bytes=64)
    for path in (tmp_path / "job" / "values").rglob("*"):
        if path.is_file():
            path.unlink()
    with pytest.raises((CannotReplayError, UsageError), match="--retain all"):
        why(root, '"order" = 7')
