"""Operators return the same rows for plain text and for dictionaries, with any cuts and restores.

Not covered: dictionaries in windows and user code, which never get any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import event_schema
from rstream.items.dictionaries import as_declared, plain_schema
from rvertex.events.run import Run
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.as_of import AsOfJoin
from rvertex.operators.joins.inner import TemporalJoin
from rvertex.operators.joins.left import LeftJoin
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.clip import Clip
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.project import Project
from tests.support.budget import examples
from tests.support.exact import assert_same_items
from tests.support.operator_harness import assert_cut_invariant

if TYPE_CHECKING:
    from rvertex.operators.protocol import OperatorSpec

CARRIED = pa.schema([("k", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64())])
PLAIN = plain_schema(CARRIED)
_OUTPUT = (("left", "k", "k"), ("left", "n", "n"), ("right", "k", "k2"), ("right", "n", "n2"))
UNARY: tuple[OperatorSpec, ...] = (
    Chop(3),
    Extend(4),
    PointAtEnd(),
    Project((("x", "k"), ("n", "n"))),
)
PAIRS: tuple[OperatorSpec, ...] = (
    TemporalJoin(("k",), ("k",), _OUTPUT),  # type: ignore[arg-type]
    LeftJoin(("n",), ("n",), _OUTPUT),  # type: ignore[arg-type]
    AntiJoin(("k",), ("k",), (("k", "k"), ("n", "n"))),
    Clip(("k",), ("k",)),
    AsOfJoin(("k",), ("k",), _OUTPUT, "nearest", 4, is_outer=True),  # type: ignore[arg-type]
    AsOfJoin(("n",), ("n",), _OUTPUT, "backward", None, is_outer=False),  # type: ignore[arg-type]
)
Row = tuple[int, int, str | None, int]
rows = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.integers(1, 6),
        st.sampled_from(["a", "b", "", None, "a text of more words"]),
        st.integers(0, 2),
    ),
    max_size=8,
)


def events(found: list[Row], carried: bool) -> pa.RecordBatch:
    found = sorted(found, key=lambda row: row[0])
    words = pa.array([word for _, _, word, _ in found], pa.string())
    columns = [
        pa.array([vs for vs, *_ in found], pa.int64()),
        pa.array([vs + length for vs, length, *_ in found], pa.int64()),
        words.dictionary_encode() if carried else words,
        pa.array([n for *_, n in found], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=event_schema(CARRIED if carried else PLAIN))


@pytest.mark.parametrize("spec", [*UNARY, *PAIRS], ids=lambda spec: type(spec).__name__)
@examples(3)
@given(
    left=rows,
    right=rows,
    ctis=st.sets(st.integers(0, 20)),
    splits=st.lists(st.integers(1, 20), max_size=4),
)
def test_the_result_equals_that_of_plain_text(
    spec: OperatorSpec, left: list[Row], right: list[Row], ctis: set[int], splits: list[int]
) -> None:
    times = np.array(sorted(ctis), np.int64)
    sides = [left] if spec in UNARY else [left, right]
    answers = []
    for carried in (False, True):
        inputs = [Run(events(side, carried), times) for side in sides]
        schemas = [CARRIED if carried else PLAIN for _ in sides]
        answers.append(assert_cut_invariant(spec, inputs, schemas, splits))
    plain, found = (answer.events for answer in answers)
    assert_same_items(as_declared(found, plain.schema), plain, "as dictionaries")
    assert answers[0].ctis.tolist() == answers[1].ctis.tolist()
