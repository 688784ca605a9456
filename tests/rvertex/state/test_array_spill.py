"""The arrays of operators that may be spilled to scratch are spilled, and no others."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rstream.items.batch import VS, event_schema
from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.events.group_arrays import GroupArray
from rvertex.events.reorder_buffer import SortedRuns
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.joins.as_of import AsOfJoin
from rvertex.operators.joins.row_store import RowStore
from rvertex.operators.ordered.matching.match import MatchRows
from rvertex.operators.ordered.matching.pattern import Sequence, Var
from rvertex.operators.windows.running.aggregate import RunningSessionAggregate
from rvertex.operators.windows.session import SessionAggregate
from rvertex.state import array_spill
from rvertex.state.array_spill import ArraySpill
from rvertex.state.errors import UnspillableStateError
from rvertex.state.memory import StateMemory
from tests.support.budget import one_in
from tests.support.small_limits import small_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rvertex.operators.protocol import OperatorSpec

PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.int64())])
ROWS, STEP = 60_000, 4_000


class Pair(NamedTuple):
    codes: np.ndarray
    text: str


class Owner:
    """All kinds of attributes that an operator may have, in a product module."""

    __module__ = "rvertex.tests"

    def __init__(self) -> None:
        self.values = np.arange(1_000)
        self.runs: list[Any] = [Pair(np.arange(500), "kept"), (np.arange(9), [np.ones(7)])]
        self.by_name = {"a": pa.array(["text", None] * 100)}
        self.table = pa.table({"x": pa.array([1, 2]).dictionary_encode(), "n": pa.nulls(2)})
        self.chunked = pa.chunked_array([[1.5], [2.5, None]])
        self.batch = pa.record_batch({"s": [{"a": 1}, {"a": 2}], "l": [[1], []]})
        self.group = GroupArray(np.int64, -1)
        self.group.writable(300)[:] = 5
        self.any_values = np.array([{}, None], object)


class Lazy:
    """An object with a property in place of an attribute, like the events of keyed processes."""

    __module__ = "rvertex.tests"
    __slots__ = ("_value", "never_set")
    _value: np.ndarray

    @property
    def value(self) -> int:
        raise AssertionError("a property was called")


def test_properties_are_not_called() -> None:
    lazy = Lazy()
    lazy._value = np.arange(9)
    with small_limits():
        ArraySpill([lazy], StateMemory(0)).fit(1)
    assert lazy._value.tolist() == list(range(9))


def plain(owner: Owner) -> list[Any]:
    (first, (second, (third,))) = owner.runs
    arrays = [owner.values, first[0], second, third, owner.group.read()]
    tables = [owner.table, owner.chunked, owner.batch, owner.by_name["a"]]
    return [a.tolist() for a in arrays] + [t.to_pylist() for t in tables]


@pytest.fixture
def small() -> Iterator[None]:
    with small_limits():
        yield


@pytest.mark.usefixtures("small")
def test_all_arrays_are_moved_and_stay_equal() -> None:
    owner, memory = Owner(), StateMemory(0)
    before = plain(owner)
    spill = ArraySpill([owner], memory)
    spill.fit(1)
    assert plain(owner) == before
    assert isinstance(owner.runs[0], Pair)
    assert memory.used_bytes == owner.any_values.nbytes
    arrays = [owner.values, owner.runs[0][0], owner.runs[1][0], owner.runs[1][1][0]]
    assert all(memory.scratch.holds(a.__array_interface__["data"][0]) for a in arrays)
    files = memory.scratch.files
    spill.fit(1)
    assert memory.scratch.files == files


@pytest.mark.usefixtures("small")
def test_an_array_that_was_moved_can_be_written_to() -> None:
    owner, memory = Owner(), StateMemory(0)
    ArraySpill([owner], memory).fit(1)
    owner.values[3] = 77
    owner.group.writable(400)[2] = 6
    assert owner.values[2:5].tolist() == [2, 77, 4]
    assert owner.group.read()[[1, 2, 299, 399]].tolist() == [5, 6, 5, -1]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["view", "variable", "snapshot", "tuple"])
def test_an_array_with_other_references_is_not_moved(kind: str) -> None:
    owner, memory = Owner(), StateMemory(0)
    others: dict[str, Callable[[], Any]] = {
        "view": lambda: owner.values[5:],
        "variable": lambda: owner.values,
        "snapshot": lambda: pa.array(owner.values),
        "tuple": lambda: owner.runs[1],
    }
    other = others[kind]()
    ArraySpill([owner], memory).fit(1)
    owner.values[5], owner.runs[1][0][0] = 99, 98
    seen = {"view": 0, "variable": 5, "snapshot": 5, "tuple": 0}
    first = other[seen[kind]] if kind != "tuple" else other[0][0]
    assert int(first.as_py() if isinstance(first, pa.Scalar) else first) >= 98


@pytest.mark.usefixtures("small")
def test_a_move_that_ignores_other_references_is_detected() -> None:
    with (
        mock.patch.object(array_spill, "_OWN_REFERENCES", 99),
        pytest.raises(AssertionError),
    ):
        test_an_array_with_other_references_is_not_moved("view")


@pytest.mark.usefixtures("small")
def test_without_reference_counts_no_writable_array_is_moved() -> None:
    with mock.patch.object(array_spill, "_references", return_value=1):
        unknown = array_spill._own_references()
    assert (unknown, array_spill._own_references() > 0) == (0, True)
    owner, memory = Owner(), StateMemory(0)
    before = plain(owner)
    with mock.patch.object(array_spill, "_OWN_REFERENCES", unknown):
        ArraySpill([owner], memory).fit(1)
    assert plain(owner) == before
    numbers = [v for v in vars(owner).values() if isinstance(v, np.ndarray) and v.flags.writeable]
    assert numbers
    assert not any(memory.scratch.holds(v.ctypes.data) for v in numbers)


OPEN_MATCHES = MatchRows(
    ("k",), Sequence((Var(0), Var(1))), ("A", "B"), (None, None), (), (), (), ("k",)
)


def test_open_keys_beyond_the_budget_fail_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 20_000)
    monkeypatch.setattr("rvertex.state.array_spill.LOOK_BYTES", 1)
    monkeypatch.setattr("rvertex.state.array_spill.OBJECTS_BYTES_MIN", 1_000_000)
    # Keys that are searched together are arrays, which can be spilled; one by one they are objects.
    monkeypatch.setattr("rvertex.operators.ordered.matching.lockstep.KEYS_MIN", 1 << 40)
    operator, memory = OPEN_MATCHES.open([PAYLOAD]), StateMemory(1_500_000)
    spill = ArraySpill([operator], memory)

    def feed(lo: int) -> None:
        vs = np.arange(lo, lo + 1_000)
        columns = [pa.array(vs), pa.array(vs + 1), pa.array(vs * 1_000_003), pa.array(vs)]
        events = pa.RecordBatch.from_arrays(columns, schema=event_schema(PAYLOAD))
        operator.process([Run(events, NO_CTIS)])
        spill.fit(1)

    feed(0)
    assert memory.keys == 1_000
    with pytest.raises(UnspillableStateError, match=r"Match keeps about 1\d{6} bytes .*1500000"):
        feed(1_000)


def test_without_a_budget_nothing_is_looked_at() -> None:
    owner, memory = Owner(), StateMemory(None)
    ArraySpill([owner], memory).fit(1 << 40)
    assert memory.scratch.files == memory.used_bytes == 0


def test_small_state_takes_no_share_of_the_budget() -> None:
    memory = StateMemory(160)  # a quarter is reserved for work, an eighth for pages
    holder = memory.holder()
    holder.used_bytes = 100
    ArraySpill([Owner()], memory).fit(1 << 40)
    assert memory.share_bytes == 100
    assert not holder.must_spill


SPECS: dict[str, OperatorSpec] = {
    "sessions": SessionAggregate(("k",), 50_000, None, (AggregateSpec("sum", "x", "x"),)),
    "running sessions": RunningSessionAggregate(
        ("k",), 50_000, None, (AggregateSpec("sum", "x", "x"),)
    ),
    **{
        f"as-of join {strategy}": AsOfJoin(
            ("k",), ("k",), (("left", "x", "x"), ("right", "x", "y")), strategy, tolerance, True
        )
        for strategy, tolerance in (("backward", None), ("forward", ROWS), ("nearest", ROWS))
    },
}


def bytes_of_matches(operator: Any, memory: StateMemory) -> int:
    """The bytes in memory of an as-of join's matches, reported or not."""
    matches = operator._rights._rows.table().to_batches()
    return sum(array_spill._memory_bytes(memory.scratch, batch) for batch in matches)


def fed(kind: str, budget: int | None, *, text: bool = False) -> tuple[pa.Table, StateMemory, int]:
    """The output for many keys, the operator's memory, and its peak memory."""
    spec, rng = SPECS[kind], np.random.default_rng(1)
    ports = 2 if kind.startswith("as-of join") else 1
    memory, most = StateMemory(budget), 0
    payload = PAYLOAD.set(0, pa.field("k", pa.string())) if text else PAYLOAD
    operator = spec.open([payload] * ports)
    spill = ArraySpill([operator], memory)
    out = []
    for lo in range(0, ROWS, STEP):
        vs = np.arange(lo, lo + STEP)
        keys = pa.array(rng.integers(0, ROWS, STEP) * 1_000_003)
        keys = pc.utf8_lpad(keys.cast(pa.string()), 36, "-") if text else keys
        columns = [pa.array(vs), pa.array(vs + 1), keys, pa.array(vs)]
        events = pa.RecordBatch.from_arrays(columns, schema=event_schema(payload))
        spill.fit(events.nbytes)
        in_memory = bytes_of_matches(operator, memory) if ports == 2 else 0
        most = max(most, memory.used_bytes, in_memory)
        ctis = np.array([lo]) if lo else NO_CTIS
        out.append(operator.process([Run(events, ctis)] * ports).events)
    end = Run(events.slice(0, 0), np.array([int(INF_TIME)]))
    out.append(operator.process([end] * ports).events)
    return pa.Table.from_batches(out), memory, most


@pytest.mark.parametrize("kind", one_in(3, SPECS))
@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_operators_that_know_nothing_of_scratch_keep_to_the_budget(
    kind: str, text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 20_000)
    monkeypatch.setattr("rvertex.state.array_spill.LOOK_BYTES", 1)
    monkeypatch.setattr("rvertex.keys.wide_index._CHUNK_BYTES_MAX", 100_000)
    whole, _, needed = fed(kind, 1 << 40, text=text)
    found, memory, most = fed(kind, 100_000, text=text)
    assert found.equals(whole)
    assert memory.spilled_bytes > 1_000_000
    # A growing hash table is in memory until the next search.
    assert most < (needed // 2 if text else 300_000) < needed


def test_row_stores_are_read_from_scratch(small: None) -> None:
    store = RowStore(event_schema(PAYLOAD))
    rows = pa.RecordBatch.from_pydict(
        {"_vs": [1, 2, 3], "_ve": [2, 3, 4], "k": [7, 8, 9], "x": [0, 0, 1]},
        schema=event_schema(PAYLOAD),
    )
    store.add(rows)
    memory = StateMemory(0)
    ArraySpill([store], memory).fit(1)
    store.add(rows)
    ArraySpill([store], memory).fit(1)
    assert store.take(np.array([4, -1, 0])).column("k").to_pylist() == [8, None, 7]
    assert memory.spills >= 2


class Waiting:
    """An operator with queues of batches, like operators that buffer rows."""

    __module__ = "rvertex.tests"

    def __init__(self) -> None:
        batches = [pa.record_batch({VS: np.arange(k, k + 3)}) for k in range(0, 900, 3)]
        self.rows = deque(batches)
        self.sorted = SortedRuns(batches[0].schema)
        for batch in batches:
            self.sorted.push(batch)


def test_operators_without_scratch_support_keep_to_the_budget() -> None:
    """Queues of batches count as memory and are moved to scratch."""
    owner, memory = Waiting(), StateMemory(0)
    with small_limits():
        ArraySpill([owner], memory).fit(1)
    assert memory.used_bytes == 0
    assert len(owner.rows) < 200
    rows = pa.Table.from_batches(owner.rows).column(0).to_pylist()
    assert rows == owner.sorted.take_below(INF_TIME).column(0).to_pylist() == list(range(900))
