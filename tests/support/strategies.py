"""Hypothesis strategies for runs in normal form, with payloads that tend to break operators.

Payloads hold nulls, NaN, signed zeros, infinities and doubles of wildly different size (whose sum
depends on its order); times are often equal, sometimes negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from rstream.types import INF_TIME
from rvertex.events.run import Run
from tests.support.builders import Ev, make_events

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The payload most tests use: a key with few values, an integer, a double, a string.
PAYLOAD = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("x", pa.float64()), ("s", pa.string())])

wild_doubles = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 1.0, -1.0, 1e16, -1e16, 1e308, -1e308, 5e-324]),
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
    st.floats(width=64),
)
#: Finite doubles whose sum depends on the order of summation.
uneven_doubles = st.sampled_from([0.1, 0.7, -0.3, 1e16, -1e16, 1e8, -1e-8, 3.0])


def values_of(kind: pa.DataType) -> st.SearchStrategy[object]:
    """Values of an Arrow type, including nulls."""
    if pa.types.is_floating(kind):
        values: st.SearchStrategy[object] = st.one_of(uneven_doubles, wild_doubles)
    elif pa.types.is_boolean(kind):
        values = st.booleans()
    elif pa.types.is_integer(kind):
        values = st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1)
    elif pa.types.is_string(kind):
        values = st.sampled_from(["", "a", "b", "ab", "é", "z"])
    elif pa.types.is_list(kind):
        values = st.lists(values_of(kind.value_type), max_size=3)
    else:
        raise NotImplementedError(str(kind))
    return st.none() | values


def keys(distinct: int = 3) -> st.SearchStrategy[int | None]:
    """A null or one of ``distinct`` integer keys."""
    return st.none() | st.integers(0, distinct - 1)


def times(lo: int = -30, hi: int = 30) -> st.SearchStrategy[int]:
    """Event times, close together so that ties and shared windows are common."""
    return st.integers(lo, hi)


@st.composite
def events(
    draw: st.DrawFn,
    payload: pa.Schema = PAYLOAD,
    *,
    times: st.SearchStrategy[int] = times(),  # noqa: B008  strategies are immutable
    duration_max: int = 1,
    distinct_keys: int = 3,
    max_size: int = 16,
) -> list[Ev]:
    """A table of events in no order; ``duration_max`` 1 makes point events."""
    columns = {f.name: values_of(f.type) for f in payload}
    if "k" in columns:
        columns["k"] = _keys_of(payload.field("k").type, distinct_keys)
    row = st.tuples(times, st.integers(1, duration_max), st.fixed_dictionaries(columns))
    return [Ev(vs, vs + d, p) for vs, d, p in draw(st.lists(row, max_size=max_size))]


def _keys_of(kind: pa.DataType, distinct: int) -> st.SearchStrategy[object]:
    return keys(distinct) if pa.types.is_integer(kind) else values_of(kind)


@st.composite
def ctis(
    draw: st.DrawFn,
    *,
    times: st.SearchStrategy[int] = times(),  # noqa: B008
    max_size: int = 6,
) -> np.ndarray:
    """CTI times int64[m], strictly increasing, sometimes ended by ``CTI(INF_TIME)``."""
    drawn = sorted(draw(st.sets(times, max_size=max_size)))
    if draw(st.booleans()):
        drawn.append(INF_TIME)
    return np.array(drawn, np.int64)


@st.composite
def runs(
    draw: st.DrawFn,
    payload: pa.Schema = PAYLOAD,
    *,
    times: st.SearchStrategy[int] = times(),  # noqa: B008
    duration_max: int = 1,
    distinct_keys: int = 3,
    max_size: int = 16,
) -> Run:
    """A whole run in normal form."""
    table = draw(
        events(
            payload,
            times=times,
            duration_max=duration_max,
            distinct_keys=distinct_keys,
            max_size=max_size,
        )
    )
    return Run(make_events(table, payload), draw(ctis(times=times)))


@st.composite
def ports(
    draw: st.DrawFn,
    payloads: Sequence[pa.Schema],
    *,
    times: st.SearchStrategy[int] = times(),  # noqa: B008
    duration_max: int = 8,
    distinct_keys: int = 3,
    max_size: int = 10,
) -> list[Run]:
    """Draw a run per payload schema, all with the same CTIs: the input of an operator."""
    shared = draw(ctis(times=times))
    return [
        Run(
            make_events(
                draw(
                    events(
                        payload,
                        times=times,
                        duration_max=duration_max,
                        distinct_keys=distinct_keys,
                        max_size=max_size,
                    )
                ),
                payload,
            ),
            shared,
        )
        for payload in payloads
    ]


def splits(items_max: int = 40) -> st.SearchStrategy[list[int]]:
    """Cuts of a merged sequence."""
    return st.lists(st.integers(1, items_max), max_size=5, unique=True).map(sorted)
