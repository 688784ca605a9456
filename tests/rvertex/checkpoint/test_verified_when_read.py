"""Parts of a checkpoint that are mapped and verified when they are read.

The parts on disk are damaged before the restore, and mended before or after their first use.
Not covered: a table that is read elsewhere than in the operators below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from rstream.items.batch import VE, VS, event_schema
from rstream.log.background import InlineBackground
from rstream.store.blobs import open_store
from rstream.types import INF_TIME
from rvertex.checkpoint.checkpointer import read_checkpoint
from rvertex.checkpoint.codec import CheckpointWriter
from rvertex.checkpoint.header import BLOCK_BYTES
from rvertex.errors import CorruptCheckpointError
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.inner import TemporalJoin
from rvertex.operators.joins.left import LeftJoin
from rvertex.operators.joins.stored_rows import ORDINAL
from rvertex.operators.ordered.deduplicate import Deduplicate
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.state.memory import StateMemory, give_memory
from rvertex.state.scratch import Scratch
from rvertex.user_code.code import UserCode
from rvertex.user_code.keyed.process import KeyedContext, KeyedProcess
from rvertex.user_code.keyed.state_fields import state_fields
from rvertex.vertex.spec import Snapshot, VertexId, VertexSpec

if TYPE_CHECKING:
    from pathlib import Path

    from rvertex.state.unverified import Unverified

SPEC = VertexSpec(VertexId("v"), "v", 0, (), None, (), (), pa.schema([]), "schema")
NAME = "c/00000001-000001.ckpt"
PAYLOAD = pa.schema([("k", pa.int64())])
KEYS = 6_000
#: By kind of join: the side that is stored, and the prefix of its table.
JOINS = {"inner": 1, "left": 1, "anti": 0}
KINDS = ("process", "timers", "deduplicate", *JOINS)
#: At the end of each part, more than the CRC-32 of its blocks.
_LIST_BYTES = 64
WITH_TEXT = pa.schema([*PAYLOAD, ("text", pa.string())])


class Texts(KeyedProcess):
    """Stores a long text per key."""

    n: int = 0
    text: str = ""

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        self.text = f"{event.k:0100}"
        ctx.emit(self.n)


class Timed(Texts):
    """Also sets a timer, far ahead."""

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        Texts.on_event(self, event, ctx)
        ctx.set_timer(KEYS + 10 * event.k)

    def on_timer(self, timer: Any, ctx: KeyedContext) -> None:
        ctx.emit(-self.n)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 5_000)
    monkeypatch.setattr("rvertex.operators.ordered.deduplicate._MEASURED_KEYS", 100)
    monkeypatch.setattr("rvertex.state.memory.PIECE_BYTES_MAX", 50_000)
    monkeypatch.setattr("rvertex.checkpoint.chunks.PIECE_BYTES_MAX", 20_000)
    monkeypatch.setattr("rvertex.state.stored_times._SAVED_ROWS_MAX", 1 << 10)
    monkeypatch.setattr("rvertex.state.log_part.FENCE_ROWS", 1 << 6)
    monkeypatch.setattr("rvertex.user_code.keyed.state.LOADED_MAX", 1)
    monkeypatch.setattr("rvertex.operators.user.keyed_process.RECALLED_ROWS", 1 << 10)


def opened(kind: str, memory: StateMemory) -> Any:
    if kind == "deduplicate":
        operator: Any = Deduplicate(("k",), int(INF_TIME)).open([PAYLOAD])
    elif kind == "anti":
        operator = AntiJoin(("k",), ("k",), (("text", "text"),)).open([WITH_TEXT] * 2)
    elif kind in JOINS:
        spec = {"inner": TemporalJoin, "left": LeftJoin}[kind]
        operator = spec(("k",), ("k",), (("right", "text", "text"),)).open([WITH_TEXT] * 2)
    else:
        process = Timed if kind == "timers" else Texts
        code, fields = UserCode("Texts", process), state_fields(process, KeyedProcess)
        output = pa.schema([("n", pa.int64())])
        operator = KeyedProcessing(("k",), code, fields, output, "fail").open([PAYLOAD])
    give_memory(operator, memory)
    return operator


def feed(operator: Any, *keys: int, cti: int | None = None) -> pa.RecordBatch:
    columns = [np.arange(len(keys)), np.arange(len(keys)) + 1, np.array(keys, np.int64)]
    events = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], event_schema(PAYLOAD).names)
    ctis = NO_CTIS if cti is None else np.array([cti])
    out: pa.RecordBatch = operator.process([Run(events, ctis)]).events
    return out


def join(operator: Any, side: int, vs: int, ve: int, *keys: int, cti: int) -> pa.RecordBatch:
    """Process rows ``[vs, ve)`` of one side."""
    texts = [f"{key:0100}" for key in keys]
    columns = [np.full(len(keys), vs), np.full(len(keys), ve), np.array(keys), texts]
    schema = event_schema(WITH_TEXT)
    rows = pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )
    ctis = np.array([cti])
    ports = [Run(rows if port == side else rows.slice(0, 0), ctis) for port in range(2)]
    out: pa.RecordBatch = operator.process(ports).events
    return out


def tried(kind: str, operator: Any, *keys: int) -> pa.RecordBatch:
    """Process rows with these keys, which use rows that are stored."""
    if kind in JOINS:
        return join(operator, 1 - JOINS[kind], 1, 5, *keys, cti=10)
    return feed(operator, *keys)


def written(kind: str, root: Path) -> Any:
    operator = opened(kind, StateMemory(0))
    for lo in range(0, KEYS, 1_000):
        keys = range(lo, lo + 1_000)
        if kind in JOINS:
            join(operator, JOINS[kind], 0, int(INF_TIME), *keys, cti=lo == KEYS - 1_000)
        else:
            feed(operator, *keys)
    if kind not in JOINS:
        feed(operator, 1, 2)
    snapshot = Snapshot(VertexId("v"), "schema", (0,), (0,), (b"",), (operator.snapshot(),))
    writer = CheckpointWriter("c", 1, inline_bytes_max=100)
    assert all(x is None for x in writer.write(snapshot, 1, open_store(f"file://{root}").put))
    return operator


def restored(kind: str, root: Path) -> tuple[Any, Unverified]:
    memory = StateMemory(0, Scratch(str(root)))
    store = open_store(f"file://{root}")
    loaded = read_checkpoint(store, NAME, SPEC, memory, verifies_later=True)
    operator, memory.unverified = opened(kind, memory), loaded.unverified
    (state,) = loaded.snapshot.states
    loaded.unverified.verify_tables(state.tables, operator)
    operator.load(state)
    return operator, loaded.unverified


def damage(path: Path) -> None:
    """Invert the last values of a part, which keeps its head, or mend it."""
    data = bytearray(path.read_bytes())
    body = pa.ipc.open_stream(bytes(data)).read_next_batch()
    at = len(data) - body.nbytes // 4
    data[at:-_LIST_BYTES] = bytes(255 - byte for byte in data[at:-_LIST_BYTES])
    with path.open("r+b") as file:  # the same file, which may be mapped
        file.write(data)


def rows_parts(root: Path, *columns: str) -> list[Path]:
    """The parts with rows of keys, or with these columns."""
    wanted = [{"number", *columns}] if columns else [{"number", "key0"}, {ORDINAL, VE}]
    paths = sorted((root / "c" / "parts").iterdir())
    names = {p: {*pa.ipc.open_stream(p.read_bytes()).schema.names} for p in paths}
    return [p for p in paths if any(w <= names[p] for w in wanted) and VS not in names[p]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_restore_reads_no_rows(kind: str, tmp_path: Path) -> None:
    operator = written(kind, tmp_path)
    parts = rows_parts(tmp_path)
    assert len(parts) > 3
    for path in parts:
        damage(path)
    again, unverified = restored(kind, tmp_path)
    sizes = [path.stat().st_size for path in [*parts, *rows_parts(tmp_path, "time")]]
    total = sum(-(-size // BLOCK_BYTES) for size in sizes)
    assert len(unverified) == total
    for path in parts:
        damage(path)
    keys = [7, KEYS + 5, 1, KEYS - 1, KEYS // 2]
    assert tried(kind, again, *keys).equals(tried(kind, operator, *keys))
    assert 0 < len(unverified) < total


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_detected_before_a_row_is_used(kind: str, tmp_path: Path) -> None:
    written(kind, tmp_path)
    for path in rows_parts(tmp_path):
        damage(path)
    again, unverified = restored(kind, tmp_path)
    with pytest.raises(CorruptCheckpointError, match="checksum of its part"):
        tried(kind, again, *range(500))
    unverified.verify_all(InlineBackground().submit, lambda: None)
    with pytest.raises(CorruptCheckpointError, match="checksum of its part"):
        unverified.require_no_damage()


def test_timers_are_read_when_they_are_due(tmp_path: Path) -> None:
    operator, late = written("timers", tmp_path), []
    for name, least in (("time", KEYS + 100), ("key0", 100)):
        parts = {p: pa.ipc.open_stream(p.read_bytes()) for p in rows_parts(tmp_path, name)}
        late += [p for p, rows in parts.items() if min(rows.read_all()[name].to_pylist()) > least]
    assert len(late) > 6
    for path in late:
        damage(path)
    again, _ = restored("timers", tmp_path)
    for time, rows in ((KEYS - 1, 0), (KEYS + 20, 3)):
        due = feed(again, cti=time)
        assert due.equals(feed(operator, cti=time))
        assert due.num_rows == rows
    with pytest.raises(CorruptCheckpointError, match="checksum of its part"):
        feed(again, cti=11 * KEYS)


def test_moved_timers_leave_few_entries() -> None:
    operator = opened("timers", StateMemory(0))
    for _ in range(20):
        feed(operator, *range(500))
    saved = operator.snapshot().tables
    assert 500 <= len(operator._state._stored_timers) <= 1_600
    assert 500 <= saved["times"].num_rows <= 1_600


def test_a_background_thread_verifies_the_rest(tmp_path: Path) -> None:
    written("process", tmp_path)
    _, unverified = restored("process", tmp_path)
    assert len(unverified) > 0
    unverified.verify_all(InlineBackground().submit, lambda: None)
    unverified.require_no_damage()
    assert len(unverified) == 0
