"""Which operator of a vertex delays the watermark, and because of which row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rstream.types import INF_TIME, MIN_TIME
from rvertex.checkpoint.ranges.sharded import Sharded
from rvertex.messages import Hold
from rvertex.operators.cti_forwarding import ForwardCtis
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.left import LeftJoin
from rvertex.operators.lifetimes.clip import Clip
from rvertex.operators.lifetimes.shift import Shift
from rvertex.operators.lifetimes.stitch import Stitch
from rvertex.operators.windows.session import SessionAggregate
from rvertex.vertex.holding import holding, words_of
from tests.support.builders import cti, ev, make_run

if TYPE_CHECKING:
    from rvertex.operators.protocol import OperatorSpec

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64())])
CLIP = Clip(("k",), ("k",))


@pytest.mark.parametrize(
    ("spec", "ports", "name"),
    [
        (CLIP, 2, "clip"),
        (Stitch(("k",)), 1, "stitch"),
        (AntiJoin(("k",), ("k",), (("k", "k"),)), 2, "anti join"),
        (LeftJoin(("k",), ("k",), (("left", "k", "k"), ("right", "x", "x"))), 2, "left join"),
        (ForwardCtis(CLIP), 2, "clip"),
    ],
)
def test_the_row_that_delays_the_watermark_is_named(
    spec: OperatorSpec, ports: int, name: str
) -> None:
    """The named row is the first one whose end is unknown, not a row that only waits behind it."""
    operator = spec.open([SCHEMA] * ports)
    rows = [ev(1, 4, k="early", x=0), ev(2, 90, k="it's", x=1), ev(3, 5, k="behind", x=2), cti(9)]
    out = operator.process([make_run(rows, SCHEMA), *[make_run([cti(9)], SCHEMA)] * (ports - 1)])
    reached = [9, int(out.ctis[-1])]
    assert holding([spec], [operator], reached) == (Hold(name, '''k="it's"''', 2, False),)
    again = spec.open([SCHEMA] * ports)
    again.load(operator.snapshot())
    assert holding([spec], [again], [9, MIN_TIME]) == (Hold(name, '''k="it's"''', 2, False),)


def test_the_first_operator_of_a_chain_is_named_and_a_shift_delays_nothing() -> None:
    specs = (Shift(-3), SessionAggregate(("k",), 5, None, ()), CLIP)
    operators = [Shift(-3).open([SCHEMA]), object(), object()]
    (hold,) = holding(specs, operators, [20, 17, 11, 4])  # type: ignore[arg-type]
    assert hold == Hold("session aggregate", "", 11, False)
    assert holding(specs[:1], operators[:1], [20, 17]) == ()  # type: ignore[arg-type]
    assert holding(specs, operators, [INF_TIME] * 4) == ()  # type: ignore[arg-type]
    assert holding(specs, operators, [20] * 4) == ()  # type: ignore[arg-type]


def test_with_several_key_ranges_the_operator_of_a_range_is_named() -> None:
    spec = Sharded((Shift(-3), ForwardCtis(Stitch(("k",)))), (("k",),), ((0, 8), (8, 16)))
    (hold,) = holding([spec], [object()], [20, 11])  # type: ignore[list-item]
    assert hold.operator == "stitch"


def test_descriptions_of_waiting_operators() -> None:
    assert words_of(CLIP) == "clip"
    assert words_of(AntiJoin(("k",), ("k",), ())) == "anti join"
