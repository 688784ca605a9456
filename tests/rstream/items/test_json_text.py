"""Values as JSON. Not covered: a JSON reader that parses all numbers as floats."""

from __future__ import annotations

import json
import math

import pyarrow as pa

from rstream.items.json_text import json_text, json_texts, plain_rows

#: Outside of Python's calendar.
FAR = 1 << 60


def far(kind: pa.DataType) -> pa.Array:
    return pa.array([5, FAR, None], pa.int64()).cast(kind)


def test_times_after_the_end_of_the_calendar_are_numbers() -> None:
    for kind, first in (
        (pa.timestamp("us", "UTC"), "1970-01-01T00:00:00.000005+00:00"),
        (pa.timestamp("us"), "1970-01-01T00:00:00.000005"),
        (pa.duration("s"), 5.0),
    ):
        batch = pa.record_batch({"x": far(kind)})
        for rows in (batch, pa.Table.from_batches([batch, batch])):
            found = [json.loads(json_text(row)) for row in plain_rows(rows)]
            assert found[-3:] == [{"x": first}, {"x": FAR}, {"x": None}]


def test_times_in_nested_values_become_json_text() -> None:
    times = far(pa.timestamp("us"))
    lists = pa.ListArray.from_arrays([0, 2, 3], times)
    assert json_texts(lists).to_pylist() == [f'["1970-01-01T00:00:00.000005",{FAR}]', "[null]"]
    maps = pa.MapArray.from_arrays([0, 2], ["a", "b"], times[:2])
    assert json_texts(maps).to_pylist() == [f'[["a","1970-01-01T00:00:00.000005"],["b",{FAR}]]']
    structs = pa.StructArray.from_arrays([times, pa.array([1, 2, 3])], ["t", "n"])
    assert json_texts(structs).to_pylist()[1] == f'{{"t":{FAR},"n":2}}'


def test_values_without_a_json_form_become_text() -> None:
    assert json_text([math.nan, -math.inf, b"\xff"]) == '["NaN","-Infinity","ff"]'
