"""A vertex is replayed: equal digests, the first difference, stops in pdb.

Not covered: what an IDE's debugger does with ``sys.breakpointhook``.
"""

from __future__ import annotations

import bdb
import io
import json
import os
import pdb
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from jobmanager.cli.main import app
from jobmanager.replay import verbs
from jobmanager.replay.errors import CannotReplayError, InvalidConditionError
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.replaying import replay, replay_range
from jobmanager.replay.rows.auditing import audit
from jobmanager.replay.rows.state_differences import state_difference
from jobmanager.storage.root import JobRoot
from planner import KeyedContext, KeyedProcess, Stream, agg, tumbling
from rstream.errors import UsageError
from rstream.items.batch import VS
from tests.support.jobs import two_exchanges, write_events
from tests.support.retained import contents, retained_job

if TYPE_CHECKING:
    from rvertex.vertex.spec import VertexSpec

SECOND = 1_000_000


class Totals(KeyedProcess):
    """A running total per key, with a random number from the context."""

    output = {"total": "float64", "drawn": "float64"}  # noqa: RUF012
    total: float = 0.0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.total += event.x
        ctx.emit(self.total, ctx.random())


def marked(batch: pa.RecordBatch) -> Any:
    """Code that is declared deterministic, but is not."""
    names = [uuid.uuid4().hex if x > 1e6 else "" for x in batch.column("x").to_pylist()]
    return {"key": batch.column("key"), "x": batch.column("x"), "mark": names}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


@pytest.fixture(scope="module")
def root(events: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return retained_job(two_exchanges(events), tmp_path_factory.mktemp("job") / "job")


def vertices(root: str) -> list[str]:
    plan = JobRoot(root).read_plan()
    assert plan is not None
    return [v.id for v in plan.vertices]


def test_every_vertex_reproduces_the_recording(root: str) -> None:
    for vertex in vertices(root):
        found = replay(root, vertex)
        assert found.is_equal, found
        assert found.items > 0
        assert found.compared_digests > 0
        assert found.checkpoint == ""


def test_the_command_replays_all_vertices_by_default(
    root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs.replay(root)
    assert capsys.readouterr().out.count(": equal\n") == len(vertices(root))
    verbs.replay(root, until="1970-01-01T00:00:01Z", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["equal"], len(found["vertices"])) == (True, len(vertices(root)))
    with pytest.raises(UsageError, match="--break and --code need a VERTEX"):
        verbs.replay(root, break_="TRUE")


def test_a_replay_starts_from_a_checkpoint_and_ends_at_the_given_time(root: str) -> None:
    starts, short, whole = set(), 0, 0
    for vertex in vertices(root):
        rows: list[pa.RecordBatch] = []
        found = replay(root, vertex, from_=15 * SECOND, until=30 * SECOND, on_rows=rows.append)
        assert found.is_equal, found
        short, whole = short + found.items, whole + replay(root, vertex).items
        starts.add(found.checkpoint)
    assert len(starts) > 3, starts
    assert 0 < short < 0.8 * whole


def test_a_replay_writes_nothing(root: str) -> None:
    before = contents(Path(root))
    for vertex in vertices(root):
        replay(root, vertex, from_=20 * SECOND)
    assert contents(Path(root)) == before


def test_a_replay_uses_the_logged_values_of_the_job(events: Path, tmp_path: Path) -> None:
    stream = Stream.from_parquet(str(events), vs="t", delay="1s").group_by("key").process(Totals)
    root = retained_job(stream.to_parquet(), tmp_path / "job")
    found = replay(root, vertices(root)[-1])
    assert found.is_equal, found
    assert found.compared_items > 1_000


def test_a_planted_difference_is_named_by_its_first_item(events: Path, tmp_path: Path) -> None:
    stream = Stream.from_parquet(str(events), vs="t", delay="1s", partitions=1)
    schema = {"key": "int64", "x": "float64", "mark": "string"}
    query = stream.apply(marked, schema, deterministic=True).to_parquet()
    root = retained_job(query, tmp_path / "job")
    found = replay(root, vertices(root)[-1])
    assert found.difference is not None
    difference = found.difference
    assert difference.columns == ("mark",)
    assert difference.recorded is not None
    assert difference.replayed is not None
    assert difference.recorded["x"] == difference.replayed["x"] > 1e6
    earlier: list[pa.RecordBatch] = []
    replay(root, vertices(root)[-1], on_rows=earlier.append)
    rows = pa.Table.from_batches(earlier).to_pylist()
    first = next(row for row in rows if row["x"] > 1e6)
    assert first[VS] == difference.recorded[VS]
    run = CliRunner().invoke(app, ["replay", root, vertices(root)[-1]])
    assert run.exit_code == 1
    assert "differs in: mark" in run.stdout


def test_an_audit_compares_random_ranges(root: str) -> None:
    found = audit(root, 0.0, seed=1)
    assert (found.is_equal, found.ranges, found.skipped) == (True, 1, {})
    parts = [replay_range(Recorded(JobRoot(root)), spec, k) for spec, k in ranges(root)]
    assert all(part.is_equal for part in parts)
    assert all(part.compared_items + part.compared_digests for part in parts)
    whole = sum(replay(root, vertex).items for vertex in vertices(root))
    assert whole <= sum(part.items for part in parts) < 2 * whole


def ranges(root: str) -> list[tuple[VertexSpec, int]]:
    recorded = Recorded(JobRoot(root))
    counts = [(spec, len(recorded.checkpoints(spec.id))) for spec in recorded.plan.vertices]
    return [(spec, k) for spec, count in counts for k in range(count + 1)]


def test_an_audit_finds_a_planted_difference(
    events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "nice", lambda step: step)  # the other tests keep their priority
    stream = Stream.from_parquet(str(events), vs="t", delay="1s", partitions=1)
    schema = {"key": "int64", "x": "float64", "mark": "string"}
    query = stream.apply(marked, schema, deterministic=True).to_parquet()
    root = retained_job(query, tmp_path / "job")
    run = CliRunner().invoke(app, ["replay", root, "--audit", "1m", "--seed", "3"])
    assert run.exit_code == 1, run.output
    assert "differs in: mark" in run.stdout
    run = CliRunner().invoke(app, ["replay", root, vertices(root)[0], "--audit", "1m"])
    assert "give it a ROOT alone" in str(run.exception) + run.output


class Unsteady(KeyedProcess):
    """A running total that differs after a restart, though it is declared deterministic."""

    output = {"total": "float64"}  # noqa: RUF012
    total: float = 0.0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.total += event.x + (uuid.uuid4().int % 1000 if event.x > 1e6 else 0)
        ctx.emit(self.total)


def test_both_states_are_shown_if_they_differ(events: Path, tmp_path: Path) -> None:
    stream = Stream.from_parquet(str(events), vs="t", delay="1s")
    query = stream.group_by("key").process(Unsteady, deterministic=True).to_parquet()
    root = retained_job(query, tmp_path / "job")
    last = vertices(root)[-1]
    found = replay(root, last)
    assert found.difference is not None
    assert found.difference.columns == ("total",)
    text = state_difference(root, found.difference, last)
    assert "only recorded: " in text, text
    assert "only replayed: " in text, text
    assert "input" not in text.replace("after input", ""), "both have read the same"
    run = CliRunner().invoke(app, ["replay", root, last])
    assert run.exit_code == 1
    assert "differs in: total" in run.stdout
    assert "only replayed: " in run.stdout


def test_new_code_runs_on_the_recorded_input(events: Path, root: str) -> None:
    plain = Stream.from_parquet(str(events), vs="t", delay="1s")
    busy = plain.group_by("key").window(tumbling("1s")).agg(n=agg.count())
    first = vertices(root)[0]
    assert replay(root, first, code=two_exchanges(events)).is_equal
    found = replay(root, vertices(root)[-1], code=two_exchanges(events))
    assert found.is_equal
    assert found.compared_digests > 0
    with pytest.raises(CannotReplayError, match="no such vertex"):
        replay(root, "s09-agg.0", code=busy.to_parquet())


def test_a_replay_stops_before_each_step_with_a_matching_row(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, shown = vertices(root)[0], io.StringIO()
    lines = io.StringIO("p sorted(rows[0])\np list(state())\nc\np len(rows)\nq\n")
    debugger: Any = pdb.Pdb(stdin=lines, stdout=shown, nosigint=True, readrc=False)
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe(1)))
    with pytest.raises(bdb.BdbQuit):
        replay(root, source, break_="key = 3 AND x > 100")
    sys.settrace(None)
    told = shown.getvalue()
    assert "['end', 'key', 'start', 'x']" in told
    assert "(Pdb) ['input'" in told
    # From Python 3.13 on, the debugger stops at the call, not at the line below it.
    line = "sys.breakpointhook()" if sys.version_info >= (3, 13) else "del vertex, rows, state"
    assert told.count(f"-> {line}") == 2, told


def test_every_row_that_satisfies_the_condition_stops_the_replay(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = vertices(root)[0]
    stopped: list[dict[str, Any]] = []
    rows: list[pa.RecordBatch] = []

    def note() -> None:
        stopped.extend(sys._getframe(1).f_locals["rows"])

    monkeypatch.setattr(sys, "breakpointhook", note)
    found = replay(root, source, break_="key = 3 AND x > 100", on_rows=rows.append)
    assert found.is_equal
    emitted = [r for batch in rows for r in batch.to_pylist()]
    wanted = {(r["key"], r["x"]) for r in emitted if r["key"] == 3 and r["x"] > 100}
    assert {(r["key"], r["x"]) for r in stopped} == wanted
    assert 5 < found.stops <= len(wanted)


@pytest.mark.slow
def test_the_command_stops_in_pdb_and_ends_with_q(root: str) -> None:
    command = [sys.executable, "-m", "jobmanager", "replay", root, vertices(root)[0]]
    command += ["--break", "key = 3 AND x > 100"]
    run = subprocess.run(command, input="p rows\nq\n", capture_output=True, text=True, check=False)
    assert run.returncode == 130, run.stderr
    assert "'key': 3" in run.stdout
    assert run.stderr == ""


@pytest.mark.parametrize("text", ["nothing = 3", "key +", "key IN (SELECT 3)"])
def test_an_invalid_condition_is_named(root: str, text: str) -> None:
    with pytest.raises(InvalidConditionError, match="may name the columns start, end, "):
        replay(root, vertices(root)[0], break_=text)


def test_an_unknown_vertex_is_named(root: str) -> None:
    with pytest.raises(CannotReplayError, match=f"Choose one of {vertices(root)[0]}"):
        replay(root, "s77-none.0")
