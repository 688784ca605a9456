"""The calendar for years that Arrow lacks, compared with numpy, which has all of them.

Not covered: a mistake that numpy's calendar shares.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from planner.api.expressions import col
from planner.errors import EvaluationError
from planner.expressions.nodes import resolve
from rvertex.sinks.kafka.json_rows import json_values
from tests.support.budget import examples

FAR_US = 9_200_000_000_000_000_000
moments = st.lists(
    st.none()
    | st.integers(-FAR_US, FAR_US)
    | st.integers(-70_000_000_000_000_000, 300_000_000_000_000_000)
    | st.sampled_from([971_890_963_199_999_999, 971_890_963_200_000_000, -FAR_US, FAR_US]),
    min_size=1,
    max_size=8,
)


def evaluate(expr: object, values: list[int | None]) -> list[object]:
    batch = pa.record_batch({"t": pa.array(values, pa.timestamp("us"))})
    node = resolve(expr.node, batch.schema)  # type: ignore[attr-defined]
    found = node.evaluate(batch)
    if pa.types.is_timestamp(found.type):
        found = found.cast(pa.int64())
    return found.to_pylist()  # type: ignore[no-any-return]


def per_value(values: list[int | None], find: object) -> list[object]:
    return [None if v is None else find(np.datetime64(v, "us")) for v in values]  # type: ignore[operator]


def month_of(moment: np.datetime64) -> int:
    return int(moment.astype("M8[M]").astype(np.int64)) % 12 + 1


def year_of(moment: np.datetime64) -> int:
    return int(moment.astype("M8[Y]").astype(np.int64)) + 1970


def day_of(moment: np.datetime64) -> int:
    return int((moment.astype("M8[D]") - moment.astype("M8[M]")).astype(np.int64)) + 1


def text_of(moment: np.datetime64) -> str:
    year, clock = year_of(moment), str(np.datetime64(moment, "us"))[-15:]
    shown = f"{year:04d}" if year >= 0 else f"{year:05d}"
    return f"{shown}-{month_of(moment):02d}-{day_of(moment):02d} {clock}"


@given(moments)
@examples(60)
def test_calendar_functions_equal_numpy(values: list[int | None]) -> None:
    t = col("t")
    parts = {
        t.dt.year(): year_of,
        t.dt.month(): month_of,
        t.dt.day(): day_of,
        t.dt.quarter(): lambda m: (month_of(m) + 2) // 3,
        t.dt.weekday(): lambda m: (int(m.astype("M8[D]").astype(np.int64)) + 3) % 7,
        t.dt.hour(): lambda m: int(m.astype("M8[h]").astype(np.int64)) % 24,
        t.dt.floor("year"): lambda m: int(m.astype("M8[Y]").astype("M8[us]").astype(np.int64)),
        t.cast("string"): text_of,
        t.cast("date").cast("string"): lambda m: text_of(m).partition(" ")[0],
        t.dt.format("%d/%Y%%Y"): lambda m: f"{day_of(m):02d}/{text_of(m)[:-22]}%Y",
    }
    for expr, find in parts.items():
        assert evaluate(expr, values) == per_value(values, find), expr
    written = json_values(pa.array(values, pa.timestamp("us"))).to_pylist()
    told = [None if v is None else f'"{v.replace(" ", "T")}"' for v in per_value(values, text_of)]  # type: ignore[attr-defined]
    assert written == told


@pytest.mark.parametrize("name", ["week", "iso_year", "day_of_year"])
def test_weeks_repeat_every_400_years(name: str) -> None:
    near = [k * 86_400_000_000 * 37 for k in range(300)]
    cycles = 300
    far = [t + cycles * 146_097 * 86_400_000_000 for t in near]
    expr = getattr(col("t").dt, name)()
    years = cycles * 400 if name == "iso_year" else 0
    wanted = [value + years for value in evaluate(expr, list(near))]  # type: ignore[operator]
    assert evaluate(expr, list(far)) == wanted


def test_a_year_whose_start_does_not_fit_into_64_bits_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="does not fit into 64 bits"):
        evaluate(col("t").dt.floor("year"), [-(2**63)])
