"""The kinds of joins that ``bench_state.py`` measures, as queries, and the rows of their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner import Stream, col
from planner.physical.lower import lower
from rstream.items.batch import event_schema
from rstream.types import INF_TIME
from rvertex.events.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Length of the text in the rows that a join stores; one row in this number is on the other side.
STORED_TEXT, OTHERS = 76, 16
FOR_EVER = int(INF_TIME)
TYPES = {"int64": pa.int64(), "float64": pa.float64(), "string": pa.string()}
SMALL = {"k": "int64", "n": "int64"}
LARGE = {"k": "int64", "x": "float64", "text": "string"}


class Kind(NamedTuple):
    """A query; which port has the rows with text; how long they and the others live, of all rows.

    0: a point; 1: for ever. ``within``: of ``rows``, for joins with a bound between starts.
    """

    query: Callable[[Stream, Stream, int], Stream]
    large: int
    large_lives: float = 0
    other_lives: float = 0


def _interval(how: str) -> Callable[[Stream, Stream, int], Stream]:
    """Left rows wait for a right row that starts up to half of all rows later."""
    return lambda a, b, us: a.join(b, on="k", how=how, within=("0s", f"{us // 2}us"))


def _as_of(strategy: str) -> Callable[[Stream, Stream, int], Stream]:
    return lambda a, b, us: a.join_asof(
        b, by="k", strategy=strategy,
        tolerance=None if strategy == "backward" else f"{us // 2}us",
    )  # fmt: skip


def _temporal(how: str, *, where: bool = False) -> Callable[[Stream, Stream, int], Stream]:
    def query(a: Stream, b: Stream, us: int) -> Stream:
        return a.join(b, on="k", how=how, where=(col("x") * 1_024 > col("n")) if where else None)

    return query


KINDS: dict[str, Kind] = {
    "join": Kind(_temporal("inner"), 1, 1),
    "left": Kind(_temporal("left"), 0, 0.5, 1 / 64),
    "anti": Kind(_temporal("anti"), 0, 0.5, 1 / 64),
    "left_where": Kind(_temporal("left", where=True), 0, 0.5, 1 / 64),
    "anti_right": Kind(_temporal("anti"), 1, 0.5),
    "interval": Kind(_interval("inner"), 0),
    "interval_left": Kind(_interval("left"), 0),
    "interval_right": Kind(_interval("right"), 0),
    "interval_full": Kind(_interval("full"), 0),
    "interval_semi": Kind(_interval("semi"), 0),
    "interval_anti": Kind(_interval("anti"), 0),
    "as_of": Kind(_as_of("backward"), 1),
    "as_of_forward": Kind(_as_of("forward"), 0),
    "as_of_nearest": Kind(_as_of("nearest"), 1),
}


def operator(kind: str, rows: int) -> tuple[Any, list[list[str]]]:
    """Return the last operator of the query, which is the join, and the columns of its inputs."""
    made = KINDS[kind]
    sides = [Stream.from_items(SMALL, []), Stream.from_items(LARGE, [])]
    lives = [made.other_lives, made.large_lives]
    ends = [_lasting(side, life, rows) for side, life in zip(sides, lives, strict=True)]
    left, right = ends if made.large else ends[::-1]
    plan = lower(made.query(left, right, rows).to_parquet(), root="memory://c", parallelism=1)
    spec = plan.vertex(plan.topological_order()[-1])
    payloads = [channel.payload for channel in spec.inputs]
    columns = [event_schema(payload).names for payload in payloads]
    return spec.operators[0].open(payloads), columns


def _lasting(side: Stream, life: float, rows: int) -> Stream:
    if not life:
        return side
    return side.for_ever() if life == 1 else side.set_duration(f"{int(rows * life)}us")


def ports(
    kind: str,
    batches: Iterator[pa.RecordBatch],
    rows: int,
    keys: Callable[[int], np.ndarray],
    inputs: list[list[str]],
) -> Iterator[list[Run]]:
    """Yield the runs of both inputs for each batch, whose last time is the CTI.

    ``keys``: returns this many random keys. ``inputs``: the columns of each input.
    """
    made = KINDS[kind]
    for batch in batches:
        ctis = np.array([batch.column(0)[-1].as_py()])
        vs = batch.column("_vs").to_numpy()
        text = pc.utf8_lpad(batch.column("n").cast(pa.string()), STORED_TEXT, "x")
        ends = _ends(vs, made.large_lives, rows)
        columns = [batch.column("_vs"), ends, batch.column("k"), batch.column("x"), text]
        large = pa.RecordBatch.from_arrays(columns, schema=_events(LARGE))
        starts = vs[::OTHERS]
        other = pa.RecordBatch.from_arrays(
            [
                pa.array(starts),
                _ends(starts, made.other_lives, rows),
                pa.array(keys(len(starts))),
                batch.column("n").slice(0, len(starts)),
            ],
            schema=_events(SMALL),
        )
        events = [other, large] if made.large else [large, other]
        yield [Run(rows.select(names), ctis) for rows, names in zip(events, inputs, strict=True)]


def _events(types: dict[str, str]) -> pa.Schema:
    return event_schema(pa.schema([(name, TYPES[kind]) for name, kind in types.items()]))


def _ends(starts: np.ndarray, life: float, rows: int) -> pa.Array:
    if life == 1:
        return pa.array(np.full(len(starts), FOR_EVER))
    return pa.array(starts + max(int(rows * life), 1))
