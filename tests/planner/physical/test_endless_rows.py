"""For endless sources, a plan names the steps that may wait forever for the ends of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planner import Stream, agg, col, session, tumbling, ve, vs
from planner.physical.lower import lower

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from planner import Query

WAITS = "rows are emitted when they end"


@pytest.fixture
def readings(tmp_path: Path) -> Stream:
    """A growing folder."""
    folder = tmp_path / "readings"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"at": 1, "k": "a", "x": 1}\n')
    return Stream.from_json(str(folder), vs="at", delay="0s", follow=True)


def _notes(query: Query) -> list[str]:
    return [note for note in lower(query, root="r").notes if WAITS in note]


def test_steps_that_wait_for_ends_are_named(readings: Stream) -> None:
    totals = readings.group_by("k").agg(n=agg.count())
    (note,) = _notes(totals.to_parquet())
    assert note.startswith("aggregate running by k")
    (note,) = _notes(readings.upserts("k").to_parquet())
    assert note.startswith("clip on k")
    lasting = readings.for_ever()
    (note,) = _notes(lasting.join(lasting.select("k", y=col("x")), on="k", how="left").to_parquet())
    assert note.startswith("temporal left join on k")


class Counted:
    """A user's operator that reads rows as they arrive."""

    def execute(self, events: Any, ctis: list[int]) -> Any:
        return events

    def get_snapshot(self) -> dict[str, Any]:
        return {}

    def load(self, state: dict[str, Any]) -> None:
        del state


def _same(rows: Any) -> Any:
    return rows.select(["k", "x"])


READERS: dict[str, tuple[Callable[[Stream], Stream], str]] = {
    "session": (
        lambda rows: rows.group_by("k").window(session("5s")).agg(n=agg.count()),
        "session(..., running=True)",
    ),
    "ve": (lambda rows: rows.with_columns(until=ve()), "leave ve() out"),
    "filter": (lambda rows: rows.filter(ve() > vs()), "leave ve() out"),
    "function": (
        lambda rows: rows.apply(_same, {"k": "string", "x": "int64"}),
        "KeyedProcess with on_end",
    ),
    "operator": (
        lambda rows: rows.transform(Counted, {"k": "string", "x": "int64"}),
        "KeyedProcess with on_end",
    ),
    "ends earlier": (lambda rows: rows.extend("-1s"), "chop('1m')"),
    "stitch": (lambda rows: rows.stitch("k"), "chop('1m')"),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_of_complete_rows_are_named_with_an_alternative(
    readings: Stream, name: str
) -> None:
    """The error names the step that needs whole rows, also if the destination accepts changes."""
    make, way_out = READERS[name]
    rows = readings.upserts("k").filter(col("x") > 0)
    (note,) = _notes(make(rows).to_postgres("env:D", "t", mode="upsert", key="k"))
    assert note.startswith("clip on k")
    assert way_out in note


def test_a_session_of_endless_rows_is_named(readings: Stream) -> None:
    grouped = readings.for_ever().group_by("k")
    query = grouped.window(session("5s")).agg(n=agg.count()).to_parquet()
    (note,) = [note for note in lower(query, root="r").notes if "session ends" in note]
    assert "aggregate session 5s by k" in note
    assert "running=True" in note


ANSWERS: dict[str, Callable[[Stream], Stream]] = {
    "chop": lambda rows: rows.chop("1m"),
    "function": lambda rows: rows.chop("1m").apply(_same, {"k": "string", "x": "int64"}),
    "extend": lambda rows: rows.extend("1s").join(rows.select("k", y=col("x")), on="k"),
    "session": lambda rows: (
        rows.group_by("x").window(session("5s", running=True)).agg(k=agg.max("k"))
    ),
    "windows": lambda rows: rows.for_ever().window(tumbling("1m")).agg(k=agg.max("k")),
    "pieces": lambda rows: rows.for_ever().chop("1m"),
    "frame of totals": lambda rows: (
        rows.group_by("x")
        .agg(k=agg.max("k"))
        .group_by("k")
        .rolling(rows=2)
        .with_columns(n=agg.count())
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_steps_that_do_not_wait_for_ends(readings: Stream, name: str) -> None:
    query = ANSWERS[name](readings.upserts("k")).to_postgres("env:D", "t", mode="upsert", key="k")
    plan = lower(query, root="r")
    assert not [note for note in plan.notes if WAITS in note]
    lines = [line for stage in plan.stages for line in stage.operators]
    assert any(
        "rows at once" in line or "is alive" in line or "living rows" in line for line in lines
    )


def test_the_suggested_alternatives_work(readings: Stream) -> None:
    totals = readings.group_by("k").agg(n=agg.count())
    assert not _notes(totals.to_postgres("env:D", "t", mode="upsert", key="k"))
    assert not _notes(totals.to_kafka("t", servers="s", key="k", upsert=True))
    windows = readings.group_by("k").window(tumbling("1s")).agg(n=agg.count())
    assert not _notes(windows.to_parquet())
    joined = readings.join(readings.upserts("k").select("k", y=col("x")), on="k")
    assert not _notes(joined.to_parquet())


def test_bounded_sources_need_no_alternative(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"at": 1, "k": "a"}\n')
    totals = Stream.from_json(str(tmp_path), vs="at").group_by("k").agg(n=agg.count())
    assert not _notes(totals.to_parquet())
