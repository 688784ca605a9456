"""User code for random queries, and its definition over rows in a list.

The columns are ``k``, ``x`` and ``s`` before and after. Code that is not ``ordered`` returns the
same rows for any order of events with equal starts. The plain loops of the batch evaluate a process
and an operator, without cuts, snapshots or several keys at once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from planner import KeyedContext, KeyedProcess, Stream, Timer, col, udf
from planner.batch.temporal.final_cti import reached
from planner.batch.user_code.operators import operator_rows
from planner.batch.user_code.processes import process_rows
from planner.logical.nodes import Source
from rstream.items.batch import CTI, KIND, VE, VS, event_schema
from rstream.types import MIN_TIME
from rvertex.operators.user.apply import Apply
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.user_code.result import ROW

if TYPE_CHECKING:
    from planner.logical.nodes import LogicalNode
    from planner.logical.nodes.user_step import UserStep

Row = dict[str, Any]


class Bursts(KeyedProcess):
    """Emits the number of events since its last row, at multiples of five or a little later."""

    output = {"total": "int64", "word": "string"}  # noqa: RUF012
    n: int = 0
    total: int = 0
    seen: list[int]
    last: int | None

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        self.total += (event.x or 0) % 100
        self.last = event.vs
        self.seen.append(event.vs)
        ctx.set_timer(event.vs // 5 * 5 + 5)
        if event.x == 4:
            raise ValueError("four")
        if event.vs % 3 == 0:
            ctx.set_timer(event.vs - 1, "soon")

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        if timer.name == "soon":
            ctx.delete_timer("late")
            ctx.emit(self.n, None, ve=timer.at + 4)
            return
        word = "e" if ctx.at_end else "ab"[self.n % 2]
        ctx.emit(self.total, word, vs=timer.at + self.n % 3)
        if timer.name == "" and self.total % 2:
            ctx.set_timer(timer.at + 3, "late")
        self.n, self.total, self.seen, self.last = 0, 0, [], None


class Changes(KeyedProcess):
    """Emits the previous event of a key; the order of ties matters."""

    output = {"total": "int64", "word": "string"}  # noqa: RUF012
    before: int | None

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        ctx.emit(self.before, "ab"[event.vs % 2])
        self.before = None if event.x is None else event.x % 1000


class Earlier:
    """The number of events that started before each; with a key, of that key."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.counts: dict[str, list[int]] = {}

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        rows = events.to_pylist()
        found = [self._earlier(str(row.get(self.key)), row[VS]) for row in rows]
        return {name: events.column(name) for name in (VS, VE, "k", "s")} | {"x": found}

    def _earlier(self, key: str, vs: int) -> int:
        """State per key: the current start, and the numbers of events before and at it."""
        at, before, now = self.counts.get(key, [vs, 0, 0])
        if vs > at:
            at, before, now = vs, before + now, 0
        self.counts[key] = [at, before, now + 1]
        return before

    def get_snapshot(self) -> dict[str, Any]:
        return {"counts": self.counts}

    def load(self, state: dict[str, Any]) -> None:
        self.counts = state["counts"]


class Greatest:
    """A user aggregate in two phases: the greatest value."""

    type = pa.int64()
    state_type = pa.int64()

    def init(self) -> int | None:
        return None

    def add(self, state: int | None, values: pa.Array) -> int | None:
        return max([v for v in [state, *values.to_pylist()] if v is not None], default=None)

    def merge(self, state: int | None, other: int | None) -> int | None:
        return self.add(state, pa.array([other], pa.int64()))

    def result(self, state: int | None) -> int | None:
        return state


def odd_twice(batch: pa.RecordBatch) -> Any:
    """Repeat rows with an odd number, keep rows without a number, drop rows with an even number."""
    values = batch.column("x").to_pylist()
    times = [1 if v is None else 2 if v % 2 else int(v % 4 == 0) for v in values]
    rows = [i for i, n in enumerate(times) for _ in range(n)]
    return {name: batch.column(name).take(pa.array(rows, pa.int64())) for name in "kxs"} | {
        ROW: rows
    }


def picky(batch: pa.RecordBatch) -> Any:
    """Raises for 2 and for null."""
    found = [12 // (v - 2) for v in batch.column("x").to_pylist()]
    return {"k": batch.column("k"), "x": found, "s": batch.column("s")}


@udf(returns="int64")
def squared(x: int) -> int:
    return x * x % 50


def user_steps(stream: Stream, ordered: bool) -> st.SearchStrategy[Stream]:
    """The stream after one step of user code."""
    types = {f.name: f.type for f in stream.select("k", "x", "s").schema}
    numbered = types | {"x": pa.int64()}
    processes = [Bursts, Changes] if ordered else [Bursts]
    made = [
        lambda: stream.apply(odd_twice, types),
        lambda: stream.apply(picky, numbered, on_error="skip"),
        lambda: stream.with_columns(x=squared(col("x").cast(int))),
        lambda: stream.filter(squared(col("x").cast(int)) > 3),
        lambda: stream.transform(Earlier("none"), numbered),
        lambda: stream.group_by("k").transform(Earlier("k"), numbered),
        *(
            lambda process=process, keys=keys: _processed(stream, process, keys)
            for process in processes
            for keys in (["k"], ["s"], ["k", "s"])
        ),
    ]
    chosen: st.SearchStrategy[Any] = st.sampled_from(made)
    return chosen.map(lambda make: make())


def _processed(stream: Stream, process: type[KeyedProcess], keys: list[str]) -> Stream:
    found = stream.group_by(*keys).process(process, on_error="skip")
    k = col("k") if "k" in keys else col("total") % 4
    return found.select(k=k, x=col("total"), s=col("s" if "s" in keys else "word"))


def naive_user_rows(node: UserStep, rows: list[Row]) -> list[Row]:
    """Return the step's output for all rows of its input."""
    schema, spec = event_schema(node.input.schema), node.spec
    if isinstance(spec, Apply):
        return [made for row in rows for made in _applied(spec, row, schema)]
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row[VS]):
        groups[tuple(row[key] for key in node.keys or ())].append(row)
    batches = [pa.RecordBatch.from_pylist(group, schema=schema) for group in groups.values()]
    if isinstance(spec, KeyedProcessing):
        time = _reached(node.input)
        made = [process_rows(spec, batch, time) for batch in batches]
    else:
        made = [operator_rows(spec, batch) for batch in batches]
    return [row for batch in made for row in batch.to_pylist()]


def _reached(node: LogicalNode) -> int:
    """Return the last finite CTI of a node, computed from the CTIs of its sources."""
    if isinstance(node, Source):
        assert node.spec.items is not None
        rows = node.spec.items.to_pylist()
        return max((row[VS] for row in rows if row[KIND] == CTI), default=MIN_TIME)
    return reached(node, [_reached(child) for child in node.inputs])


def _applied(spec: Apply, row: Row, schema: pa.Schema) -> list[Row]:
    try:
        found = spec.function.target(pa.RecordBatch.from_pylist([row], schema=schema))
    except (TypeError, ZeroDivisionError):
        assert spec.on_error == "skip"
        return []
    columns = {n: pa.array(found[n]).to_pylist() for n in spec.schema.names}
    count = len(columns["k"])
    return [
        {VS: row[VS], VE: row[VE], **{n: c[i] for n, c in columns.items()}} for i in range(count)
    ]
