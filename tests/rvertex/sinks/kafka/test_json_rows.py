"""Rows as JSON: the same objects as for each row alone, for any text and number."""

from __future__ import annotations

import json
import math

import pyarrow as pa
from hypothesis import given, strategies as st

from rvertex.sinks.kafka.json_rows import json_rows
from tests.rvertex.sinks.kafka.places import as_json
from tests.rvertex.sinks.places import TYPED
from tests.support.budget import examples

NUMBERS = st.none() | st.floats()
TEXTS = st.none() | st.text()


@examples(60)
@given(rows=st.lists(st.tuples(TEXTS, NUMBERS), max_size=8), name=st.text(min_size=1))
def test_any_text_and_number_is_read_back(
    rows: list[tuple[str | None, float | None]], name: str
) -> None:
    texts, numbers = [row[0] for row in rows], [row[1] for row in rows]
    table = pa.record_batch([pa.array(texts, pa.string()), pa.array(numbers)], [f"{name}1", name])
    found = [json.loads(text) for text in json_rows(table).to_pylist()]
    finite = [None if x is None or not math.isfinite(x) else x for x in numbers]
    assert [row[f"{name}1"] for row in found] == texts
    assert [row[name] for row in found] == finite


def test_a_value_of_every_type_is_written_as_json() -> None:
    found = [json.loads(text) for text in json_rows(TYPED).to_pylist()]
    for row, given_row in zip(found, TYPED.to_pylist(), strict=True):
        assert row == {name: as_json(name, value) for name, value in given_row.items()}
