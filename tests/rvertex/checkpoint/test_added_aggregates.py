"""An aggregate is added to open windows: others keep their state, the new one has later rows.

Not covered: how a job applies the change (tests/jobmanager/driver/changes).
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from planner import Stream, agg, cti, event, hopping, session, tumbling
from planner.physical.lower import lower
from rstream.types import INF_TIME
from rvertex.checkpoint.conversion import converted_state, pairs_of, places_of
from rvertex.events.run import Run, concat
from rvertex.operators.windows.grouping import NEAR
from tests.support.budget import one_in
from tests.support.builders import cti as cti_at, ev, make_run
from tests.support.cut_runs import through_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner import Query
    from rvertex.checkpoint.conversion import Place
    from rvertex.operators.protocol import OperatorState

SCHEMA = {"k": "int64", "x": "int64", "y": "float64"}
ADDED: dict[str, Callable[[], Any]] = {
    "count": partial(agg.count, "x"),
    "sum": partial(agg.sum, "x"),
    "mean": partial(agg.mean, "y"),
    "min": partial(agg.min, "x"),
    "first": partial(agg.first, "y"),
    "last": partial(agg.last, "y"),
    "any_value": partial(agg.any_value, "x"),
    "max_by": partial(agg.max_by, "x", "y"),
    "count_distinct": partial(agg.count_distinct, "x"),
    "stddev": partial(agg.stddev, "y"),
    "top_k": partial(agg.top_k, "x", 2),
}
WINDOWS: dict[str, Callable[[], Any]] = {
    "tumbling": lambda: tumbling("100us"),
    "hopping": lambda: hopping("100us", "50us"),
    "session": lambda: session("40us"),
    "by codes with gaps": lambda: tumbling("100us"),
}
#: The aggregates before the change. Numbers are stored by codes with gaps, if all can be.
PLAIN = {"n": agg.count(), "early": agg.first("x"), "late": agg.last("x")}
NUMBERS = {"n": agg.count(), "most": agg.max("x")}
CUT = 30
PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("y", pa.float64())])


def query(window: str, **more: Any) -> Query:
    points = Stream.from_items(SCHEMA, [event(0, k=1, x=1, y=1.0), cti(1)])
    grouped = points.group_by("k").window(WINDOWS[window]())
    plain = NUMBERS if "gaps" in window else PLAIN
    return grouped.agg(**plain, **more).to_parquet()


def chain(of: Query) -> list[tuple[Any, Place]]:
    """The operators from the source to the output, one vertex per stage."""
    vertices = [v for v in lower(of, root="ROOT", parallelism=2).vertices if v.index == 0]
    return [(v, place) for v in vertices for place in places_of(v)]


def run_chain(
    places: list[Any], runs: list[Run], states: list[OperatorState | None]
) -> tuple[Run, list[OperatorState]]:
    """Pass runs through the operators, which start with these states."""
    operators = [place.spec.open(place.ports) for _, place in places]
    for operator, state in zip(operators, states, strict=True):
        if state is not None:
            operator.load(through_bytes(state))
    out = []
    for run in runs:
        for operator in operators:
            run = operator.process([run])
        out.append(run)
    return concat(out), [operator.snapshot() for operator in operators]


def rows(seed: int) -> list[dict[str, Any]]:
    random, time, found = Random(seed), 0, []
    for _ in range(60):
        time += random.choice([0, 1, 2, 9])
        x = random.randint(-5, 5)
        found.append({"_vs": time, "k": random.randint(0, 3), "x": x, "y": random.uniform(0, 1)})
    return found


def run_of(events: list[dict[str, Any]], *ctis: Any) -> Run:
    found = [ev(e["_vs"], k=e["k"], x=e["x"], y=e["y"]) for e in events]
    return make_run([*found, *ctis], PAYLOAD)


def converted(old: list[Any], new: list[Any], states: list[OperatorState]) -> list[Any]:
    found: list[OperatorState | None] = []
    for vertex, place in new:
        was = next(v for v, _ in old if v.stage == vertex.stage)
        pair = next((p for p in pairs_of(was, vertex) if p.new.number == place.number), None)
        if pair is None:
            found.append(None)
            continue
        assert pair.verdict in ("kept", "converted"), pair
        assert pair.old is not None
        at = [(v.stage, p.number) for v, p in old].index((vertex.stage, pair.old.number))
        state = (
            states[at] if pair.verdict == "kept" else converted_state(pair.old, place, states[at])
        )
        assert state is not None, pair
        found.append(state)
    return found


@pytest.mark.parametrize("name", one_in(3, ADDED))
@pytest.mark.parametrize("window", WINDOWS)
def test_open_windows_keep_their_values(window: str, name: str) -> None:
    before, after = (
        chain(query(window)),
        chain(query(window, new=ADDED[name]())),
    )
    events = [row | {"k": row["k"] ** 2} for row in rows(len(name))]
    head, tail = run_of(events[:CUT]), run_of(events[CUT:], cti_at(INF_TIME))
    assert head.events.num_rows
    begun, states = run_chain(before, [head], [None] * len(before))
    if "gaps" in window:
        assert any(NEAR in table for state in states for table in state.tables)
    rest, _ = run_chain(after, [tail], converted(before, after, states))
    whole, _ = run_chain(before, [head, tail], [None] * len(before))
    old = [{k: v for k, v in row.items() if k != "new"} for row in _list(begun) + _list(rest)]
    assert old == _list(whole)
    fresh, _ = run_chain(after, [tail], [None] * len(after))
    later = {(r["_vs"], r["k"]): r["new"] for r in _list(fresh)}
    if window != "session":
        for row in _list(rest):
            assert row["new"] == later.get((row["_vs"], row["k"]), 0 if "count" in name else None)


RUNNING: dict[str, Callable[[Any, Any], Any]] = {
    "endless": lambda grouped, aggregates: grouped.agg(**aggregates),
    "session": lambda grouped, aggregates: grouped.window(session("40us", running=True)).agg(
        **aggregates
    ),
}


@pytest.mark.parametrize("name", one_in(3, [*ADDED, "first in order"]))
@pytest.mark.parametrize("kind", RUNNING)
def test_running_totals_keep_their_values(kind: str, name: str) -> None:
    plain = {"n": agg.count(), "kinds": agg.count_distinct("x"), "late": agg.last("x")}
    points = Stream.from_items(SCHEMA, [event(0, k=1, x=1, y=1.0), cti(1)])
    new = ADDED.get(name, partial(agg.count_distinct, "y"))()
    more = {"new": new, **plain} if name not in ADDED else {**plain, "new": new}
    queries = [RUNNING[kind](points.group_by("k"), a).to_parquet() for a in (plain, more)]
    before, after = map(chain, queries)
    events = rows(len(name))
    head, tail = run_of(events[:CUT]), run_of(events[CUT:], cti_at(INF_TIME))
    begun, states = run_chain(before, [head], [None] * len(before))
    rest, _ = run_chain(after, [tail], converted(before, after, states))
    whole, _ = run_chain(before, [head, tail], [None] * len(before))
    old = [{k: r[k] for k in ("_vs", "_ve", "k", *plain)} for r in _list(begun) + _list(rest)]
    assert old == [{k: r[k] for k in ("_vs", "_ve", "k", *plain)} for r in _list(whole)]
    values = [row["new"] for row in _list(rest) if isinstance(row["new"], int | float)]
    assert all(abs(value) < 1_000 for value in values)


def _list(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.Table.from_batches([run.events]).to_pylist()
    return found
