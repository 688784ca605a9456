"""Lineage: the input rows of an output row, checked by a job over these rows alone.

Not covered: another smallest set of rows that a user would find more natural.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import streamscope as ss
from jobmanager.cli.main import app
from jobmanager.replay.errors import CannotReplayError, NoSuchRowError
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.rows.answer_rows import AnswerRow, recorded_events
from jobmanager.replay.rows.whys import lineage_of, why
from jobmanager.storage.root import JobRoot
from planner import KeyedContext, KeyedProcess, Query, Stream, agg, col, hopping, tumbling
from tests.support.budget import scaled
from tests.support.jobs import WAIT_S, two_exchanges, write_events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECOND = 1_000_000
ROWS = 600
#: Rows per row group of the file.
GROUP_ROWS = ROWS // 8


class EveryThird(KeyedProcess):
    """Emits the sum of three rows of a key."""

    output = {"total": "float64"}  # noqa: RUF012
    total: float = 0.0
    n: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.total += event.x
        self.n += 1
        if self.n % 3 == 0:
            ctx.emit(self.total)
            self.total = 0.0


class Draws(KeyedProcess):
    """Draws a value for each row."""

    output = {"drawn": "float64"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        ctx.emit(ctx.random())


def windows(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    return (
        events.group_by("key")
        .window(hopping("4s", "2s"))
        .agg(n=agg.count(), total=agg.sum("x"), most=agg.max("x"))
        .to_parquet()
    )


def joined(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    busy = events.group_by("key").window(tumbling("2s")).agg(n=agg.count())
    return events.join(busy, on="key").select("key", "n", "x").to_parquet()


def processed(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    return events.group_by("key").process(EveryThird).to_parquet()


def maximum(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    return events.group_by("key").window(tumbling("4s")).agg(most=agg.max("x")).to_parquet()


def alive(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", ve="+2s", delay="1s")
    found = ss.sql("SELECT key, COUNT(*) AS n FROM events GROUP BY key", {"events": events})
    assert isinstance(found, Stream)
    return found.to_parquet()


def open_totals(path: Path) -> Query:
    """Running totals: a row ends with the next row of its key, so its end is not known at first."""
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    return events.group_by("key").agg(n=agg.count(), most=agg.max("x")).to_parquet()


def interval_joined(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    few, many = events.filter(col("x") > 1), events.filter(col("x") < 1)
    pairs = few.join(many, on="key", within=("-300ms", "0s"), how="left")
    return pairs.select("key", "x", y=col("x_right")).to_parquet()


def rolling(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    return (
        events.group_by("key")
        .rolling(rows=3)
        .with_columns(n=agg.count(), most=agg.max("x"))
        .to_parquet()
    )


def matched(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    found = events.match(
        "A B+ C",
        partition_by="key",
        define={"B": col("x") > ss.prev(col("x")), "C": col("x") < ss.prev(col("x"))},
        measures={"low": ss.rows_of("A").first("x"), "high": ss.rows_of("B").last("x")},
        within="20s",
    )
    return found.to_parquet()


@ss.udf(returns="float64", deterministic=True)
def doubled(x: float) -> float:
    return 2 * x


def computed(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    pairs = events.with_columns(x=doubled(col("x"))).deduplicate("key", within="500ms")
    return pairs.to_parquet()


QUERIES: dict[str, Callable[[Path], Query]] = {
    "windows": windows,
    "joined": joined,
    "processed": processed,
    "maximum": maximum,
    "alive": alive,
    "open totals": open_totals,
    "exchanges": two_exchanges,
    "interval join": interval_joined,
    "OVER": rolling,
    "MATCH": matched,
    "functions": computed,
}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet", ROWS)


@pytest.fixture(scope="module")
def roots(events: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder, made = tmp_path_factory.mktemp("jobs"), {}
    for name, query in QUERIES.items():
        made[name] = str(folder / name)
        ss.run(query(events), root=made[name], executor="local").wait(WAIT_S)
    return made


def rows_of(root: str) -> list[AnswerRow]:
    plan = Recorded(JobRoot(root)).plan
    found = recorded_events(plan)
    return [AnswerRow(s, batch.slice(k, 1)) for s, batch in found for k in range(batch.num_rows)]


def numbers(root: str, row: AnswerRow) -> tuple[set[int], bool]:
    """The numbers of the file's rows that produce a result row."""
    recorded = Recorded(JobRoot(root))
    plan = recorded.plan
    _, found = lineage_of(recorded, row)
    taken: set[int] = set()
    for vertex in (v for v in plan.vertices if v.source is not None):
        assert vertex.source is not None
        places = [
            GROUP_ROWS * (unit.row_group or 0) + k
            for unit in vertex.source.units
            for k in range(unit.rows or 0)
        ]
        rows = found.rows.get(vertex.id)
        taken |= {places[n] for n in ([] if rows is None else rows.numbers)}
    return taken, found.is_smallest


def test_a_window_depends_on_exactly_its_rows(roots: dict[str, str], events: Path) -> None:
    table = pq.read_table(events)
    for row in random.Random(1).sample(rows_of(roots["windows"]), 2):
        found = row.event.to_pylist()[0]
        lo, hi = found["_vs"], found["_ve"]
        expected = {
            n
            for n, (t, key) in enumerate(
                zip(table["t"].to_pylist(), table["key"].to_pylist(), strict=True)
            )
            if key == found["key"] and hi - 4 * SECOND <= t < hi
        }
        assert lo < hi
        taken, is_smallest = numbers(roots["windows"], row)
        assert is_smallest
        assert taken == expected


def test_a_maximum_depends_on_one_row(roots: dict[str, str]) -> None:
    taken, is_smallest = numbers(roots["maximum"], rows_of(roots["maximum"])[-1])
    assert is_smallest
    assert len(taken) == 1


def is_close(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Equal except for rounding of doubles, because rows are in other partitions."""
    pairs = ((row[name], value) for name, value in wanted.items())
    return all(a == b or (isinstance(a, float) and math.isclose(a, b)) for a, b in pairs)


def check(name: str, root: str, row: AnswerRow, events: Path, folder: Path) -> None:
    """Check that a job over these rows gives the row, and a job without one of them does not."""
    taken, is_smallest = numbers(root, row)
    assert is_smallest
    assert taken
    whole = pq.read_table(events)
    wanted = row.event.to_pylist()[0]

    def gives(kept: list[int]) -> bool:
        path = folder / "part.parquet"
        pq.write_table(whole.take(pa.array(sorted(kept), pa.int64())), path)
        answer = ss.collect(Stream(QUERIES[name](path).plan.input), executor="local")
        return any(is_close(row, wanted) for row in answer.select(list(wanted)).to_pylist())

    assert gives(list(taken)), (name, wanted)
    for left_out in random.Random(2).sample(sorted(taken), min(2, len(taken))):
        assert not gives([n for n in taken if n != left_out]), (name, wanted, left_out)


def test_a_job_over_these_rows_alone_computes_the_row(
    roots: dict[str, str], events: Path, tmp_path: Path
) -> None:
    rows = rows_of(roots["processed"])
    check("processed", roots["processed"], rows[len(rows) // 2], events, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(QUERIES))
def test_the_named_inputs_of_a_random_row_suffice_to_compute_it(
    name: str, roots: dict[str, str], events: Path, tmp_path: Path
) -> None:
    rows, count = rows_of(roots[name]), scaled(3)
    if name == "exchanges":  # a row with hundreds of input rows takes minutes
        rows, count = sorted(rows, key=lambda row: int(row.event["n"][0].as_py()))[:5], scaled(1)
    if name == "open totals":  # all earlier rows of a key contribute to a row
        rows = [row for row in rows if row.event["n"][0].as_py() <= 12]
    for row in random.Random(3).sample(rows, min(count, len(rows))):
        check(name, roots[name], row, events, tmp_path)


def test_the_command_shows_rows_and_stages(roots: dict[str, str]) -> None:
    row = rows_of(roots["maximum"])[0].event.to_pylist()[0]
    text = f"most = {row['most']!r} AND key = {row['key']}"
    run = CliRunner().invoke(app, ["why", roots["maximum"], "--row", text])
    assert run.exit_code == 0, run.output
    assert "1 rows" in run.stdout
    assert "Without any one of them it is missing" in run.stdout
    assert "1 events in, 1 out" in run.stdout


def test_the_condition_must_select_exactly_one_row(roots: dict[str, str]) -> None:
    with pytest.raises(NoSuchRowError, match="no row of the answer"):
        why(roots["windows"], "n > 100000")
    with pytest.raises(NoSuchRowError, match="rows satisfy the condition; name one of"):
        why(roots["windows"], "n > 1")


def test_code_with_random_values_is_rejected_by_name(events: Path, tmp_path: Path) -> None:
    stream = Stream.from_parquet(str(events), vs="t", delay="1s").group_by("key").process(Draws)
    ss.run(stream.to_parquet(), root=str(tmp_path / "job"), executor="local").wait(WAIT_S)
    row = rows_of(str(tmp_path / "job"))[0].event.to_pylist()[0]
    with pytest.raises(CannotReplayError, match="its code uses outside values"):
        why(str(tmp_path / "job"), f"drawn = {row['drawn']!r}")


def test_the_search_stops_at_the_limit_and_reports_it(roots: dict[str, str]) -> None:
    row = rows_of(roots["windows"])[10]
    _, found = lineage_of(Recorded(JobRoot(roots["windows"])), row, 12)
    assert not found.is_smallest
    assert found.runs <= 13
