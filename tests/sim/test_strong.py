"""Simulated jobs of which half the vertices are strong: no law is broken under faults of any kind.

Their code could be repeated, so the answer is known.

Cannot catch: code that gives another answer each time (tests/rvertex/test_productions.py).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, TypeVar

import pytest

from rvertex.types import InputChannel, OutputEdge, VertexSpec
from tests.sim import run as run_module
from tests.sim.run import simulate
from tests.sim.workload import Workload, make_workload

if TYPE_CHECKING:
    from collections.abc import Iterator

End = TypeVar("End", InputChannel, OutputEdge)


@pytest.fixture(autouse=True)
def _half_of_them_strong() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "make_workload", with_strong)
        yield


def with_strong(seed: int) -> Workload:
    """The workload of a seed, with other strategies."""
    work = make_workload(seed)
    random = Random(seed)
    strong = {v.id for v in work.vertices if random.random() < 0.5}
    written = {s for v in work.vertices if v.id in strong for s in v.output_streams}
    vertices = tuple(_changed(v, v.id in strong, written) for v in work.vertices)
    return replace(work, vertices=vertices)


def _changed(vertex: VertexSpec, is_strong: bool, written: set[str]) -> VertexSpec:
    inputs = tuple(_flushed(c) if c.stream in written else c for c in vertex.inputs)
    if not is_strong:
        return replace(vertex, inputs=inputs)
    recovery = replace(vertex.recovery, strategy="strong", replicas=1)
    outputs = tuple(map(_flushed, vertex.outputs))
    return replace(vertex, inputs=inputs, outputs=outputs, recovery=recovery)


def _flushed(end: End) -> End:
    return replace(end, durability="async") if end.durability == "volatile" else end


@pytest.mark.parametrize(
    "seed",
    [*range(7000, 7003), *(pytest.param(s, marks=pytest.mark.slow) for s in range(7003, 7040))],
)
def test_strong_vertices_under_faults_of_all_kinds(seed: int) -> None:
    outcome = simulate(seed)
    assert outcome.violations == (), "\n".join(outcome.tail)
