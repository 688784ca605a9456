"""Bisection of several wrong rows, and of rows that are incomplete before the end of the input.

Not covered: which of several items a user would call the cause, if a row is wrong, right and wrong
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.testing import CliRunner

import streamscope as ss
from jobmanager.cli.main import app
from jobmanager.replay.rows.bisecting import Bisection, bisect
from jobmanager.replay.rows.whys import why
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Second, key and x of each row.
Rows = list[tuple[int, str, int]]


def job(folder: Path, rows: Rows, query: Callable[[ss.Stream], ss.Stream]) -> str:
    path, root = folder / "in.csv", str(folder / "job")
    lines = [f"1970-01-01T00:{t // 60:02}:{t % 60:02},{key},{x}" for t, key, x in rows]
    path.write_text("\n".join(["t,key,x", *lines]))
    stream = ss.Stream.from_csv(str(path), vs="t", delay="1s", schema={"x": "int64"})
    ss.run(query(stream).to_parquet(), root=root, executor="local").wait(WAIT_S)
    return root


def totals(rows: ss.Stream) -> ss.Stream:
    """The count and the sum of each key and 10 s."""
    window = rows.group_by("key").window(ss.tumbling("10s"))
    return window.agg(n=ss.agg.count(), total=ss.agg.sum("x"))


def unpaid(rows: ss.Stream) -> ss.Stream:
    """Orders (x = 1) with a payment (x = 2) within 5 s, or without one."""
    orders, payments = rows.filter(ss.col("x") == 1), rows.filter(ss.col("x") == 2)
    pairs = orders.join(payments, on="key", within=("0s", "5s"), how="left")
    return pairs.select("key", paid=ss.col("x_right"))


def items(found: Bisection) -> list[tuple[str, int]]:
    rows = [cause.item.to_pylist()[0] for cause in found.causes]
    return [(row["key"], row["x"]) for row in rows]


def test_each_of_several_wrong_rows_has_its_own_cause(tmp_path: Path) -> None:
    rows = [(t, "ab"[t % 2], t) for t in range(60)]
    rows[13], rows[44] = (13, "b", 5_000), (44, "a", 7_000)
    found = bisect(job(tmp_path, rows, totals), expect="total < 1000")
    assert items(found) == [("b", 5_000), ("a", 7_000)]
    assert [cause.before for cause in found.causes] == [13, 44]
    assert [cause.row["key"].to_pylist() for cause in found.causes] == [["b"], ["a"]]
    assert (found.wrong_rows, found.unexplained) == (2, 0)


def test_wrong_rows_with_one_cause_are_counted_together(tmp_path: Path) -> None:
    rows = [(t, "ab"[t % 2], t) for t in range(60)]
    rows[13] = (13, "b", 5_000)
    root = job(
        tmp_path,
        rows,
        lambda s: s.group_by("key").window(ss.hopping("10s", "5s")).agg(total=ss.agg.sum("x")),
    )
    (cause,) = bisect(root, row="total > 1000").causes
    assert (cause.before, cause.rows) == (13, 2)


def test_the_first_of_two_bad_rows_of_a_result_is_found(tmp_path: Path) -> None:
    rows = [(t, "a", t) for t in range(30)]
    rows[12], rows[16] = (12, "a", 5_000), (16, "a", 7_000)
    found = bisect(job(tmp_path, rows, totals), row="total > 1000")
    assert items(found) == [("a", 5_000)]
    assert found.wrong_rows == 1


def test_if_two_rows_are_wrong_only_together_the_later_one_is_found(tmp_path: Path) -> None:
    rows = [(t, "a", 1) for t in range(30)]
    rows[12], rows[16] = (12, "a", 600), (16, "a", 700)
    root = job(tmp_path, rows, totals)
    assert items(bisect(root, row="total > 1000")) == [("a", 700)]
    (behind,) = why(root, "total > 1000").inputs.values()
    assert {600, 700} <= set(behind["x"].to_pylist())


def test_rows_that_later_items_complete_are_not_wrong(tmp_path: Path) -> None:
    """In a prefix of the input, rows are incomplete: orders are unpaid, windows lack rows."""
    rows: Rows = []
    for t in range(0, 60, 4):
        rows += [(t, f"k{t}", 1), *([(t + 2, f"k{t}", 2)] if t != 32 else [])]
    found = bisect(job(tmp_path, rows, unpaid), expect="paid IS NOT NULL")
    assert items(found) == [("k32", 1)]
    assert (found.wrong_rows, found.causes[0].before) == (1, 16)


def test_a_row_that_lacks_an_item_is_found_at_its_first_item(tmp_path: Path) -> None:
    rows = [(t, "ab"[t % 2], t) for t in range(60) if not (20 < t < 29 and t % 2 == 0)]
    found = bisect(job(tmp_path, rows, totals), expect="n >= 5")
    assert items(found) == [("a", 20)]
    assert found.causes[0].row["n"].to_pylist() == [1]


def test_a_row_that_is_temporarily_right_is_found_at_an_item_that_breaks_it(
    tmp_path: Path,
) -> None:
    rows = [(0, "a", 10), (1, "a", -10), (2, "a", 7), (3, "a", -7), (4, "a", 50), (11, "b", 0)]
    (cause,) = bisect(job(tmp_path, rows, totals), expect="total = 0").causes
    assert cause.before in (0, 2, 4)
    assert cause.row["total"].to_pylist() == [rows[cause.before][2]]


def test_rows_of_one_instant_have_separate_causes(tmp_path: Path) -> None:
    rows = [(5, "a", 2_000), (5, "a", 3_000), (5, "b", 4_000), (6, "b", 1)]
    found = bisect(job(tmp_path, rows, lambda s: s.filter(ss.col("x") > 0)), row="x > 1000")
    assert [cause.before for cause in found.causes] == [0, 1, 2]


def test_the_search_ends_after_a_limited_number_of_causes(tmp_path: Path) -> None:
    rows = [(10 * t, "a", 5_000) for t in range(9)]
    root = job(tmp_path, rows, totals)
    found = bisect(root, row="total > 1000", causes_max=2)
    assert (len(found.causes), found.unexplained, found.wrong_rows) == (2, 7, 9)
    run = CliRunner().invoke(app, ["bisect", root, "--row", "total > 1000"])
    assert run.exit_code == 0, run.output
    assert "9 rows of the result are wrong." in run.stdout
    assert "4 more rows are wrong because of other items." in run.stdout
