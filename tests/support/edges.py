"""Random rows in two forms, as intervals and as start and end edges, and their common meaning.

A row with an end may be one interval or two edges; both mean the same table. So an operator over
edges must output the same table as its interval version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from rstream.items.edges import paired
from rstream.types import INF_TIME
from tests.support.builders import Cti, Ev, make_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.events.run import Run
    from rvertex.operators.protocol import OperatorSpec

PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.int64())])
TIMES = 12


@dataclass(frozen=True, slots=True)
class Row:
    """A row with lifetime ``[vs, ve)``; ``is_split``: its end is a separate edge."""

    vs: int
    ve: int
    is_split: bool
    k: int | None
    x: int

    def payload(self) -> dict[str, Any]:
        return {"k": self.k, "x": self.x}


@st.composite
def some_rows(draw: st.DrawFn, *, ends: bool = True) -> list[Row]:
    """Rows with many ties: equal rows, many ends at one instant, points, endless rows."""
    rows = []
    for _ in range(draw(st.integers(0, 9))):
        vs = draw(st.integers(0, TIMES))
        length = draw(st.sampled_from([1, 1, 2, 3, 5, None] if ends else [None]))
        ve = int(INF_TIME) if length is None else vs + length
        k = draw(st.sampled_from([None, 1, 1, 2, 2, 3]))
        rows.append(Row(vs, ve, draw(st.booleans()), k, draw(st.integers(0, 2))))
    return rows


some_ctis = st.lists(st.integers(0, TIMES + 6), max_size=4, unique=True)


def edge_run(rows: Sequence[Row], ctis: Sequence[int], payload: pa.Schema = PAYLOAD) -> Run:
    """The rows in the form with edges."""
    items: list[Ev | Cti] = [Cti(t) for t in sorted(ctis)]
    for row in rows:
        if row.is_split and row.ve != INF_TIME:
            items += [Ev(row.vs, int(INF_TIME), row.payload()), Ev(row.ve, row.vs, row.payload())]
        else:
            items.append(Ev(row.vs, row.ve, row.payload()))
    return make_run(items, payload)


def closed_run(rows: Sequence[Row], ctis: Sequence[int], payload: pa.Schema = PAYLOAD) -> Run:
    """The same rows as intervals."""
    items: list[Ev | Cti] = [Cti(t) for t in sorted(ctis)]
    return make_run([*items, *(Ev(r.vs, r.ve, r.payload()) for r in rows)], payload)


def meant(run: Run) -> list[tuple[Any, ...]]:
    """The rows that a run with edges represents, in a fixed order."""
    return sorted_rows(paired(pa.Table.from_batches([run.events])))


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return sorted(rows, key=lambda row: tuple((v is None, v) for v in row))


def answer_of(spec: OperatorSpec, runs: Sequence[Run], schemas: Sequence[pa.Schema]) -> Run:
    """Return the output of an operator for complete runs that end."""
    return spec.open(schemas).process(runs)


def ending(ctis: Sequence[int]) -> list[int]:
    """Return CTIs, followed by the one that ends a stream."""
    return [*sorted(ctis), int(INF_TIME)]


def joined_lives(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows (vs, ve, payload), with touching rows of equal payload joined."""
    by_payload: dict[tuple[Any, ...], list[list[int]]] = {}
    for vs, ve, *payload in sorted(rows, key=lambda row: tuple((v is None, v) for v in row)):
        lives = by_payload.setdefault(tuple(payload), [])
        if lives and lives[-1][1] == vs:
            lives[-1][1] = ve
        else:
            lives.append([vs, ve])
    out = [(vs, ve, *payload) for payload, lives in by_payload.items() for vs, ve in lives]
    return sorted(out, key=lambda row: tuple((v is None, v) for v in row))


def begins(run: Run) -> list[tuple[Any, ...]]:
    """Return start and payload of each row that starts, in order."""
    rows = [e for e in run.events.to_pylist() if e["_vs"] < e["_ve"]]
    return [(row["_vs"], *map(str, list(row.values())[2:])) for row in rows]
