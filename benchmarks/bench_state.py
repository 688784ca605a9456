"""State in memory, and with a budget of a tenth: windows beside DuckDB, keys, a restore.

Each point is a process of its own: a count, an integer sum and a double sum per key over one
tumbling window of random keys, fed to the operator in batches. Peak memory is what is private to
the process (``RssAnon``); ``peak_rss_bytes`` has the mapped pages of scratch files, too. DuckDB
aggregates the same rows with one thread, in memory and with the same budget as ``memory_limit`` (at
least 60 MB, the least with which it starts). Rows are made before the measurement. ``--engines
hopping text`` measures windows of 12 panes, and keys that are text of 36 characters. ``--engines
process deduplicate`` measures a keyed process with a count and a sum, and ``deduplicate`` without a
bound in time. ``--engines join``, and all other names in ``join_kinds.py``, store rows of about
100 B; the other side has a sixteenth as many rows. The names in ``state_kinds.py`` are other steps
with state per key. ``--engines restore`` reads a checkpoint of the process, whose keys have 400 B
more each, up to the first output; with ``restore_timers`` each key also has a timer. The last line
is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import state_kinds
from join_kinds import KINDS, operator, ports
from state_kinds import QUERIES

from planner import KeyedContext, KeyedProcess
from planner.api.stream import Stream
from rstream import SystemClock
from rstream.items.hashing import hash_column
from rstream.log.background import InlineBackground
from rstream.store.blobs import open_store
from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.checkpoint.checkpointer import read_checkpoint
from rvertex.checkpoint.codec import CheckpointWriter
from rvertex.events.run import Run
from rvertex.host.allocator import LargeSteps
from rvertex.operators.ordered.deduplicate import Deduplicate
from rvertex.operators.protocol import in_pieces
from rvertex.operators.windows.hopping import WindowAggregate
from rvertex.state.array_spill import ArraySpill
from rvertex.state.memory import StateMemory, give_back, give_memory
from rvertex.state.scratch import Scratch
from rvertex.vertex.spec import Snapshot, VertexId, VertexSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS, STEP_ROWS = 20_000_000, 131_072
KEYS = (10, 10_000, 1_000_000, 5_000_000)
#: Rows and keys of a run before the measured one.
WARM_ROWS = 20_000
#: Factor of random keys, so that keys are far apart.
SPREAD = 1_000_003
#: Events of the first batch after a restore.
RESTORED_EVENTS = 100
#: A hopping window moves this number of times.
STEPS_OF_HOPPING = 20
SAMPLE_S = 0.02
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
MB = 1e6
#: DuckDB does not start with less memory.
DUCKDB_MIN = 60_000_000
PAYLOAD = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("x", pa.float64())])
SPEC = VertexSpec(VertexId("v.0"), "v", 0, (), None, (), (), pa.schema([]), "s")
AGGREGATES = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("sum", "n", "n"),
    AggregateSpec("sum", "x", "x"),
)


def main() -> None:
    """Measure all points, or the one that the parent process requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--keys", type=int, nargs="*", default=KEYS)
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "BUDGET"))
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=["window"])
    args = parser.parse_args()
    if args.one:
        engine, budget = args.one
        ENGINES[engine](WARM_ROWS, WARM_ROWS, 1)  # the code of libraries is not state
        give_back()
        print(json.dumps(ENGINES[engine](args.rows, args.keys[0], int(budget) or None)))
        return
    points: list[dict[str, Any]] = []
    for keys in args.keys:
        for engine in args.engines:
            whole = _point(engine, args.rows, keys, 0)
            points.append(whole)
            budget = int(whole["state_bytes"]) // 10
            if budget > MB:
                points.append(_point(engine, args.rows, keys, budget))
    print(json.dumps(points))


def _point(engine: str, rows: int, keys: int, budget: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--rows", f"{rows}", "--one", engine, f"{budget}"]
    done = subprocess.run([*command, "--keys", f"{keys}"], capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    found |= {"engine": engine, "keys": keys, "budget": budget}
    shown = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in found.items()}
    print(shown, flush=True)
    return found


def batches(rows: int, keys: int, *, text: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one window, with keys that are numbers far apart, or texts."""
    rng = np.random.default_rng(7)
    for first in range(0, rows, STEP_ROWS):
        count = min(STEP_ROWS, rows - first)
        vs = np.arange(first, first + count)
        k = rng.integers(0, keys, count) * SPREAD
        key = pc.utf8_lpad(pa.array(k).cast(pa.string()), 36, "x") if text else pa.array(k)
        columns = [vs, vs + 1, vs & 1023, rng.random(count)]
        arrays = [pa.array(c) for c in columns]
        arrays.insert(2, key)
        yield pa.RecordBatch.from_arrays(arrays, names=["_vs", "_ve", "k", "n", "x"])


class _Host:
    """Does what a host does around a step for the memory of its operators."""

    def __init__(self, operators: list[Any], memory: StateMemory) -> None:
        self._arrays, self._scratch = ArraySpill(operators, memory), memory.scratch
        self._steps = LargeSteps(SystemClock())
        self._disk_bytes = 0

    def begin(self, ports: list[Run]) -> None:
        """Spill arrays beyond the budget."""
        self._arrays.fit(sum(run.events.nbytes for run in ports))

    def end(self, out: Run) -> None:
        """Give freed memory back to the system after a large step."""
        self._disk_bytes = max(self._disk_bytes, self._scratch.used_bytes)
        if self._steps.is_due([out.events], self._scratch.written_bytes):
            give_back()

    def spilled(self) -> dict[str, int]:
        """Bytes written to scratch, and the most that its files had at a time."""
        written = self._scratch.written_bytes
        return {"written_bytes": written, "disk_bytes": self._disk_bytes}


def window_point(
    rows: int, keys: int, budget: int | None, *, panes: int = 1, text: bool = False
) -> dict[str, Any]:
    """Measure the operator from the first row to the last result; ``panes`` per hopping window."""
    memory = StateMemory(2**50 if budget is None else budget, Scratch())
    every = 1 << 40 if panes == 1 else rows // STEPS_OF_HOPPING
    size, aggregates = every * panes, AGGREGATES if panes == 1 else AGGREGATES[:2]
    payload = PAYLOAD.set(0, pa.field("k", pa.string())) if text else PAYLOAD
    operator = WindowAggregate(("k",), size, every, aggregates, points=True).open([payload])
    host = _Host([operator], memory)
    with _peak_bytes() as peak, np.errstate(over="ignore"):
        spent, state = 0.0, 0
        groups = pieces = total = 0

        def step(run: Run) -> None:
            nonlocal groups, pieces, total
            host.begin([run])
            for out in in_pieces([operator], [run]):
                assert out is not None
                pieces += 1
                groups += out.events.num_rows
                total = (total + _checksum(out.events, groups - out.events.num_rows)) % 2**64
                host.end(out)

        for batch in batches(rows, keys, text=text):
            begun = time.process_time()
            now = batch.column(0)[-1].as_py()
            step(Run(batch, np.array([now]) if panes > 1 else np.empty(0, np.int64)))
            spent += time.process_time() - begun
            state = max(state, memory.used_bytes)
        before_close = peak[0]
        begun = time.process_time()
        step(Run(batch.slice(0, 0), np.array([1 << 60])))
        closing = time.process_time() - begun
    return {
        "cpu_s": spent + closing,
        "closing_s": closing,
        "state_bytes": state,
        **_peaks(peak),
        "peak_before_close_bytes": before_close,
        **host.spilled(),
        "groups": groups,
        "pieces": pieces,
        "digest": f"{total:016x}",
    }


class Totals(KeyedProcess):
    """Emits a row per event: the number of events of the key, and their sum."""

    output = {"n": "int64", "total": "float64"}  # noqa: RUF012  as docs/USERCODE.md shows it
    n: int = 0
    total: float = 0.0
    text: str = ""

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        """Count the event and add its value."""
        self.n += 1
        self.total += event.x
        ctx.emit(self.n, self.total)


class Noted(Totals):
    """The same with 400 B more per key."""

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        """Count, add, and store a text."""
        self.n += 1
        self.total += event.x
        self.text = f"{event.n:0400}"
        ctx.emit(self.n, self.total)


class Reminded(Noted):
    """The same with a timer per key, after the last event."""

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        """Set the timer."""
        Noted.on_event(self, event, ctx)
        ctx.set_timer(event.vs + (1 << 40))

    def on_timer(self, timer: Any, ctx: KeyedContext) -> None:
        """Emit the count."""
        ctx.emit(self.n, self.total)


def _process(process: type[KeyedProcess]) -> Any:
    types = {"k": "int64", "n": "int64", "x": "float64"}
    stream = Stream.from_items(types, []).group_by("k").process(process)
    spec: Any = stream.plan
    return spec.spec.open([PAYLOAD])


def _one_port(rows: int, keys: int) -> Iterator[list[Run]]:
    for batch in batches(rows, keys):
        yield [Run(batch, np.array([batch.column(0)[-1].as_py()]))]


def keys_point(
    operators: list[Any],
    ports_of: Callable[[int, int], Iterator[list[Run]]],
    rows: int,
    keys: int,
    budget: int | None,
) -> dict[str, Any]:
    """Measure a chain of operators, which emits after each batch, whose CTI follows."""
    memory = StateMemory(2**50 if budget is None else budget, Scratch())
    host = _Host(operators, memory)
    spent, wall_s, state, total, emitted = 0.0, 0.0, 0, 0, 0
    with _peak_bytes() as peak, np.errstate(over="ignore"):
        for ports in ports_of(rows, keys):
            before_close = peak[1]
            begun, wall = time.process_time(), time.perf_counter()
            host.begin(ports)
            for out in in_pieces(operators, ports):
                assert out is not None
                host.end(out)
                spent += time.process_time() - begun
                wall_s += time.perf_counter() - wall
                state = max(state, memory.used_bytes)
                total = (total + _checksum(out.events, emitted)) % 2**64
                emitted += out.events.num_rows
                begun, wall = time.process_time(), time.perf_counter()
    return {
        "cpu_s": spent,
        "wall_s": wall_s,
        "state_bytes": state,
        **_peaks(peak),
        "peak_rss_before_close_bytes": before_close,
        **host.spilled(),
        "emitted": emitted,
        "digest": f"{total:016x}",
    }


def join_point(kind: str, rows: int, keys: int, budget: int | None) -> dict[str, Any]:
    """Measure a kind of join."""
    rng = np.random.default_rng(11)

    def others(count: int) -> np.ndarray:
        return np.asarray(rng.integers(0, keys, count) * SPREAD)

    def ports_of(rows: int, keys: int) -> Iterator[list[Run]]:
        return ports(kind, batches(rows, keys), rows, others, inputs)

    join, inputs = operator(kind, rows)
    return keys_point([join], ports_of, rows, keys, budget)


def query_point(name: str, rows: int, keys: int, budget: int | None) -> dict[str, Any]:
    """Measure the last stage of a query of ``state_kinds.py``."""
    chain, inputs = state_kinds.operators(name, rows)

    def ports_of(rows: int, keys: int) -> Iterator[list[Run]]:
        return state_kinds.ports(batches(rows, keys), inputs)

    return keys_point(chain, ports_of, rows, keys, budget)


def restore_point(
    process: type[KeyedProcess], rows: int, keys: int, budget: int | None
) -> dict[str, Any]:
    """Measure a restore of ``keys`` keys, from the first byte read to the first output."""
    with tempfile.TemporaryDirectory() as folder:
        operator, given = _process(process), next(batches(keys, keys))
        give_memory(operator, StateMemory(keys * 40))
        for batch in batches(keys, keys):
            operator.process([Run(batch, np.array([batch.column(0)[-1].as_py()]))])
        snapshot = Snapshot(SPEC.id, "s", (0,), (0,), (b"",), (operator.snapshot(),))

        store = open_store(f"file://{folder}")
        for _ in CheckpointWriter("c", 1).write(snapshot, 1, store.put):
            pass
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        memory = StateMemory(2**50 if budget is None else budget)
        begun, wall = time.process_time(), time.perf_counter()
        name = "c/00000001-000001.ckpt"
        loaded = read_checkpoint(store, name, SPEC, memory, verifies_later=True)
        read_s = time.process_time() - begun
        again, memory.unverified = _process(process), loaded.unverified
        give_memory(again, memory)
        (state,) = loaded.snapshot.states
        loaded.unverified.verify_tables(state.tables, again)
        again.load(state)
        loaded_s = time.process_time() - begun
        again.process([Run(given.slice(0, RESTORED_EVENTS), np.array([keys]))])
        spent, wall_s = time.process_time() - begun, time.perf_counter() - wall
        unread = len(loaded.unverified)
        loaded.unverified.verify_all(InlineBackground().submit, memory.drop_pages)
        verify_s = time.process_time() - begun - spent
    return {
        "state_bytes": size,
        "read_cpu_s": read_s,
        "load_cpu_s": loaded_s - read_s,
        "first_output_cpu_s": spent - loaded_s,
        "verify_rest_cpu_s": verify_s,
        "unread_blocks": unread,
        "wall_s": wall_s,
    }


def _checksum(rows: pa.RecordBatch, before: int) -> int:
    """Return a sum over rows that does not depend on batches; doubles count by their bits.

    ``before``: the number of rows before these: the order counts, too.
    """
    mixed = np.arange(before, before + rows.num_rows, dtype=np.uint64)
    for column in rows.columns:
        mixed = mixed * _FACTOR + _words(column)
    return int(mixed.sum())


def _words(column: pa.Array) -> np.ndarray:
    """Return a number for each value; of a list, it depends on the order of its values."""
    if pa.types.is_struct(column.type):
        words = np.zeros(len(column), np.uint64)
        for child in column.flatten():
            words = words * _FACTOR + _words(child)
        return words
    if pa.types.is_list(column.type):
        lengths = np.append(0, pc.list_value_length(column).fill_null(0).to_numpy())
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths[1:])
        values = _words(column.flatten()) * (2 * places.astype(np.uint64) + 1)
        return np.diff(np.append(np.uint64(0), np.cumsum(values))[ends])
    if pa.types.is_string(column.type) or column.null_count:
        return hash_column(column)
    return np.asarray(column.to_numpy(zero_copy_only=False)).view(np.uint64)


def duckdb_point(rows: int, keys: int, budget: int | None) -> dict[str, Any]:
    """Measure the same aggregate in DuckDB; ``budget`` is its memory limit."""
    import duckdb

    db = duckdb.connect()
    db.execute("SET threads=1")
    if budget is not None:
        db.execute(f"SET memory_limit='{max(budget, DUCKDB_MIN)}B'")
    rows_of = pa.Table.from_batches(batches(rows, keys))
    with _peak_bytes() as peak:
        begun = time.process_time()
        sql = "SELECT k, count(*) AS r, sum(n) AS n, sum(x) AS x FROM rows_of GROUP BY k ORDER BY k"
        out = db.execute(f"SELECT count(*), sum(x) FROM ({sql})").fetchone()
        spent = time.process_time() - begun
    assert out is not None
    assert rows_of.num_rows == rows
    return {"cpu_s": spent, **_peaks(peak), "state_bytes": peak[0], "groups": out[0]}


ENGINES: dict[str, Callable[[int, int, int | None], dict[str, Any]]] = {
    "window": window_point,
    "hopping": lambda *point: window_point(*point, panes=12),
    "text": lambda *point: window_point(*point, text=True),
    "duckdb": duckdb_point,
    "process": lambda *point: keys_point([_process(Totals)], _one_port, *point),
    "deduplicate": lambda *point: keys_point(
        [Deduplicate(("k",), int(INF_TIME)).open([PAYLOAD])], _one_port, *point
    ),
    "restore": partial(restore_point, Noted),
    "restore_timers": partial(restore_point, Reminded),
    **{kind: partial(join_point, kind) for kind in KINDS},
    **{name: partial(query_point, name) for name in QUERIES},
}


class _peak_bytes:  # noqa: N801 - used as a context manager function
    """Yield the peak of private and resident memory within the block, less that at its start."""

    def __enter__(self) -> list[int]:
        self._stop = threading.Event()
        self._peak = [0, 0]
        self._base = _memory_bytes()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self._peak

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            for i, now in enumerate(_memory_bytes()):
                self._peak[i] = max(self._peak[i], now - self._base[i])

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _peaks(peak: list[int]) -> dict[str, int]:
    return {"peak_bytes": peak[0], "peak_rss_bytes": peak[1]}


def _memory_bytes() -> tuple[int, int]:
    """Return the private and resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    private, files = (int(found.get(name, 0)) * 1024 for name in ("RssAnon", "RssFile"))
    return private, private + files


if __name__ == "__main__":
    main()
