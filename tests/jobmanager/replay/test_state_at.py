"""The state of a job at a time, at and between checkpoints: windows, join rows, keys.

Not covered: state of a live source, which cannot be replayed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager.cli.main import app
from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.state_at import query_state, read_state
from planner import KeyedContext, KeyedProcess, Stream, agg, tumbling
from rstream.errors import UsageError
from tests.support.jobs import two_exchanges, write_events
from tests.support.retained import contents, retained_job

SECOND = 1_000_000
AT = 15 * SECOND


class Totals(KeyedProcess):
    """A running count and the last value of a key."""

    output = {"n": "int64"}  # noqa: RUF012
    n: int = 0
    last: float = 0.0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        self.last = event.x
        ctx.emit(self.n)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


def stream(events: Path) -> Stream:
    return Stream.from_parquet(str(events), vs="t", delay="1s")


@pytest.fixture(scope="module")
def keyed(events: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    numbered = stream(events).group_by("key").process(Totals)
    query = numbered.group_by("key").window(tumbling("10s")).agg(most=agg.max("n")).to_parquet()
    return retained_job(query, tmp_path_factory.mktemp("keyed") / "job")


@pytest.fixture(scope="module")
def replayed(events: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    query = two_exchanges(events).recover_with("replay")
    return retained_job(query, tmp_path_factory.mktemp("replayed") / "job")


def stage_of(root: str, name: str) -> str:
    return next(str(v["stage"]) for v in jobmanager.status(root)["vertices"] if name in v["stage"])


def rows_before(events: Path, lo: float, hi: float) -> int:
    times = pq.read_table(events).column("t").to_numpy()
    return int(((times >= lo * SECOND) & (times < hi * SECOND)).sum())


def test_open_windows_at_a_time(events: Path, keyed: str) -> None:
    before = contents(Path(keyed))
    tables = read_state(keyed, stage_of(keyed, "process"), at=AT)
    waiting = tables["window_rows"]
    rows = waiting.group_by("key").aggregate([("n", "max")])
    most = dict(zip(*(rows.column(c).to_pylist() for c in ("key", "n_max")), strict=True))
    keys = dict(zip(*(tables["keys"].column(c).to_pylist() for c in ("key", "n")), strict=True))
    assert most == keys, "the numbers grow, so the last one is the greatest"
    assert min(waiting.column("_vs").to_pylist()) >= 10 * SECOND
    assert max(waiting.column("_vs").to_pylist()) < AT
    assert contents(Path(keyed)) == before, "it only reads"


def test_groups_of_open_windows(replayed: str) -> None:
    tables = read_state(replayed, stage_of(replayed, "join"), at=AT)
    groups = tables["open_groups"]
    assert groups.num_rows > 2
    assert {"_vs", "_ve", "bucket", "@count()", "@sum(x)"} <= set(groups.column_names)


@pytest.mark.parametrize("at", [None, AT])
def test_rows_of_a_join_that_is_recovered_by_replay(replayed: str, at: int | None) -> None:
    tables = read_state(replayed, stage_of(replayed, "join"), at=at)
    assert {"left", "right"} <= tables.keys()
    if at is not None:
        ends = tables["right"].column("_ve").to_pylist()
        assert ends
        assert min(ends) > AT - 3 * SECOND, "what ended before is forgotten"


def test_keys_of_a_process(events: Path, keyed: str) -> None:
    stage = next(
        v["stage"] for v in jobmanager.status(keyed)["vertices"] if "process" in v["stage"]
    )
    tables = read_state(keyed, stage, at=AT)
    keys = tables["keys"]
    assert keys.column_names == ["key", "n", "last", "_vertex"]
    assert sorted(keys.column("key").to_pylist()) == list(range(8))
    assert sum(keys.column("n").to_pylist()) == rows_before(events, 0, 15)
    found = query_state(tables, "SELECT max(n) AS m, count(*) AS c FROM keys")
    assert found.to_pylist() == [{"m": max(keys.column("n").to_pylist()), "c": 8}]
    with pytest.raises(UsageError, match="the state has keys"):
        query_state(tables, "SELECT * FROM nothing")


def test_the_newest_checkpoint(keyed: str) -> None:
    stage = next(
        v["stage"] for v in jobmanager.status(keyed)["vertices"] if "process" in v["stage"]
    )
    one = read_state(keyed, f"{stage}.0")
    both = read_state(keyed, stage)
    assert 0 < one["keys"].num_rows < both["keys"].num_rows
    assert set(both["keys"].column("_vertex").to_pylist()) == {f"{stage}.0", f"{stage}.1"}


def test_the_command_prints_the_state_or_the_mistake(keyed: str) -> None:
    stage = next(
        v["stage"] for v in jobmanager.status(keyed)["vertices"] if "process" in v["stage"]
    )
    command = ["state", keyed, stage, "--at", "1970-01-01T00:00:15Z"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "keys: 8 rows" in shown.output
    asked = CliRunner().invoke(app, [*command, "--json", "--sql", "SELECT count(*) AS c FROM keys"])
    assert json.loads(asked.stdout) == {"c": 8}
    wrong = CliRunner().invoke(app, ["state", keyed, "s09-none"])
    assert wrong.exit_code != 0
    with pytest.raises(CannotReplayError, match="no such vertex"):
        read_state(keyed, "s09-none")
