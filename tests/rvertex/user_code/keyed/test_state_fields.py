"""Reused objects of dropped keys have nothing of the old key.

Not covered: undeclared attributes of a key that is not dropped; a snapshot loses them, so a query
that visibly sets them is an error (tests/planner/test_user_code.py).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.user_code.code import UserCode
from rvertex.user_code.keyed.process import KeyedContext, KeyedProcess, Timer
from rvertex.user_code.keyed.state_fields import state_fields
from tests.support.builders import cti, ev, make_run, table_of

K = pa.schema([("k", pa.string())])
OBJECTS: list[int] = []


def mark(process: Any, key: str) -> None:
    """Change state in a way that the analysis of a process's code cannot see."""
    process.mark = key


class Marked(KeyedProcess):
    """Dropped after its timer."""

    path: list[str]

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        OBJECTS.append(id(self))
        ctx.emit(getattr(self, "mark", ""), "".join(self.path))
        mark(self, event.k)
        self.path.append(event.k)
        ctx.set_timer(event.vs + 1)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        self.path.clear()


def test_undeclared_attributes_do_not_reach_other_keys() -> None:
    OBJECTS.clear()
    fields = state_fields(Marked, KeyedProcess)
    output = pa.schema([("mark", pa.string()), ("path", pa.string())])
    spec = KeyedProcessing(("k",), UserCode("Marked", Marked), fields, output)
    operator = spec.open([K])
    for time, key in enumerate("abc"):
        out = operator.process([make_run([ev(time * 9, k=key), cti(time * 9 + 5)], K)])
        assert table_of(out) == [ev(time * 9, k=key, mark="", path=""), cti(time * 9 + 5)]
        operator.snapshot()
    assert len(set(OBJECTS)) == 1, "one object serves all three"
