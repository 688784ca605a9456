"""The destination suite on a function that records its call numbers; the arguments it gets.

Not covered: a receiver that forgets earlier calls.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from rstream import MemoryBlobs, open_store
from rstream.items.json_text import json_text
from rvertex.sinks.errors import DeliveryFencedError, DestinationError
from rvertex.sinks.function import FunctionDestination
from rvertex.sinks.spec import DeliveryPlace
from tests.rvertex.sinks.conformance import Conformance, deliver
from tests.rvertex.sinks.places import SCHEMA, Row, expected, items, progress
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths
from tests.support.interrupted_store import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from rstream.store.protocol import BlobStore


def keep(folder: str, first_seq: int, batch: pa.RecordBatch, stream: str) -> None:
    """A receiver that stores each call once: stream and number are the file name."""
    name = f"{stream.replace('/', '.')}-{first_seq:012d}"
    store = open_store(folder, fsync=False)
    (
        [json.dumps(row) for row in batch.to_pylist()]
        if batch.schema == SCHEMA
        else [json_text(row) for row in batch.to_pylist()]
    )
    if not store.put_new(name, "\n".join(map(json_text, batch.to_pylist())).encode()):
        raise AssertionError(f"{name}: other rows than before")


@dataclass(frozen=True)
class FunctionPlace:
    """A destination whose rows are those that :func:`keep` has stored."""

    folder: str
    refused: dict[str, str] = field(default_factory=dict)

    def destination(self, partition: int, schema: pa.Schema = SCHEMA) -> FunctionDestination:
        store = open_store(f"{self.folder}/root/{partition}", fsync=False)
        function = functools.partial(keep, f"{self.folder}/kept")
        place = DeliveryPlace("job", "d", partition, 2, schema, store)
        return FunctionDestination(function, "function", place)

    def rows(self) -> list[Row]:
        store = open_store(f"{self.folder}/kept")
        texts = [store.get(name).decode() for name in store.list()]
        return [json.loads(line) for text in texts for line in text.splitlines()]

    def shown(self, column: str, value: Any) -> Any:
        return json.loads(json_text(value))


class TestFunction(Conformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> FunctionPlace:
        return FunctionPlace(str(tmp_path))


def open_memory(store: BlobStore, function: Callable[..., Any]) -> FunctionDestination:
    return FunctionDestination(function, "fn", DeliveryPlace("job", "d", 0, 1, SCHEMA, store))


def test_a_call_gets_a_number_and_rows() -> None:
    calls: list[tuple[int, list[Row]]] = []
    called = open_memory(MemoryBlobs(), lambda seq, batch: calls.append((seq, batch.to_pylist())))
    called.open(1)
    called.write(items(0, 0, 3))
    called.write(items(0, 3, 6))
    called.commit(progress(0, 6))
    called.commit(progress(0, 7))
    deliver(called, 0, 7, 9)
    assert calls == [(0, expected(0, 6)), (7, expected(0, 9)[len(expected(0, 6)) :])]


def test_a_failed_call_is_repeated_unchanged() -> None:
    """A failed call is repeated with the same rows, however the next writer divides them."""
    calls: list[tuple[int, list[Row]]] = []

    def weak(first_seq: int, batch: pa.RecordBatch) -> None:
        calls.append((first_seq, batch.to_pylist()))
        if len(calls) < 3:
            raise ConnectionError("away")

    store = MemoryBlobs()
    called = open_memory(store, weak)
    called.open(1)
    with pytest.raises(DestinationError, match=r"ConnectionError: away \(items from 0\)"):
        deliver(called, 0, 0, 4)
    with pytest.raises(DestinationError, match="not open"):
        called.commit(progress(0, 4))
    with pytest.raises(DestinationError, match="away"):
        called.open(1)
    assert called.open(1) == progress(0, 4)
    assert calls == [(0, expected(0, 4))] * 3
    deliver(called, 0, 4, 9)
    assert len(calls) == 4


def test_a_process_suspended_before_its_call_notices_its_successor() -> None:
    """The successor makes the same call, and so does the writer that wakes up during it."""
    calls: list[tuple[int, int]] = []
    sleeping, woken = threading.Event(), threading.Event()

    def slow(first_seq: int, batch: pa.RecordBatch) -> None:
        calls.append((first_seq, batch.num_rows))
        if not sleeping.is_set():
            sleeping.set()
            assert woken.wait(120)

    store = MemoryBlobs()
    old, successor = open_memory(store, slow), open_memory(store, slow)
    old.open(1)
    errors: list[BaseException] = []

    def sleep() -> None:
        try:
            deliver(old, 0, 0, 6)
        except DeliveryFencedError as error:
            errors.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    assert sleeping.wait(120)
    assert successor.open(2) == progress(0, 6)
    woken.set()
    thread.join()
    assert calls == [(0, 4), (0, 4)]
    assert len(errors) == 1
    deliver(successor, 0, 6, 7)


def test_a_crash_at_every_call() -> None:
    """Every received call has the rows that its number had before."""
    seen: dict[int, list[Row]] = {}

    def keep_same(first_seq: int, batch: pa.RecordBatch) -> None:
        rows = batch.to_pylist()
        assert seen.setdefault(first_seq, rows) == rows

    def life(store: BlobStore, epoch: int, cut: int) -> None:
        called = open_memory(store, keep_same)
        found = called.open(epoch)
        told = 0 if found is None else found.next_seq
        while told < 14:
            end = min(told + cut, 14)
            deliver(called, 0, told, end)
            told = end

    undisturbed = Life()
    life(CrashingBlobs(MemoryBlobs(), undisturbed), 1, 5)
    for death in deaths(undisturbed.calls, is_atomic=True):
        store = MemoryBlobs()
        seen.clear()
        with contextlib.suppress(DiedError):
            life(CrashingBlobs(store, Life(*death)), 1, 5)
        life(store, 2, 4)
        rows = [row for _, rows in sorted(seen.items()) for row in rows]
        assert rows == expected(0, 14), death
        assert len(store.list()) == 2


@pytest.mark.parametrize(("first", "within"), [(2, 3), (3, 2)])
@pytest.mark.parametrize("is_noted", [True, False])
def test_two_processes_open_at_once(first: int, within: int, is_noted: bool) -> None:
    """A writer opens during each call of another writer's ``open``."""
    alone = open_two(first, within, -1, is_noted=is_noted)
    assert alone > 6
    for at in range(alone):
        open_two(first, within, at, is_noted=is_noted)


@pytest.mark.parametrize("is_opening", [True, False])
def test_a_commit_during_the_opening_of_a_successor(is_opening: bool) -> None:
    """Each during any call of the other; the successor divides the rows differently."""
    for at in range(10):  # more calls than either one makes
        seen: dict[int, list[Row]] = {}

        def keep_same(first_seq: int, batch: pa.RecordBatch, seen: Any = seen) -> None:
            rows = batch.to_pylist()
            assert seen.setdefault(first_seq, rows) == rows

        shared = MemoryBlobs()
        found: list[int] = []
        plain = [open_memory(MemoryBlobs(shared.blobs), keep_same) for _ in range(2)]

        def succeed(writer: FunctionDestination, found: list[int] = found) -> None:
            done = writer.open(2)
            found.append(0 if done is None else done.next_seq)

        def commit(writer: FunctionDestination) -> None:
            with contextlib.suppress(DeliveryFencedError, DestinationError):
                deliver(writer, 0, 0, 4)

        if is_opening:
            old, successor = plain
            old.open(1)
            store = Interrupted(shared.blobs, at, functools.partial(commit, old))
            successor = open_memory(store, keep_same)
            succeed(successor)
        else:
            before, successor = plain
            before.open(1)
            store = Interrupted(shared.blobs, -1, functools.partial(succeed, successor))
            old = open_memory(store, keep_same)
            old.open(1)
            store._at = store.calls + at
            commit(old)
            if not found:
                succeed(successor)
        deliver(successor, 0, found[0], 9)
        assert [row for _, rows in sorted(seen.items()) for row in rows] == expected(0, 9), at


def open_two(first: int, within: int, at: int, *, is_noted: bool) -> int:
    """Open ``within`` before call ``at`` of ``first``. Return the number of calls of ``first``."""
    seen: dict[int, list[Row]] = {}
    fails = [is_noted]

    def keep_same(first_seq: int, batch: pa.RecordBatch) -> None:
        if fails[0]:
            raise ConnectionError("away")
        rows = batch.to_pylist()
        assert seen.setdefault(first_seq, rows) == rows

    shared = MemoryBlobs()
    before, other = open_memory(shared, keep_same), open_memory(shared, keep_same)
    before.open(1)
    with contextlib.suppress(DestinationError):
        deliver(before, 0, 0, 4)
    fails[0] = False
    store = Interrupted(shared.blobs, at, lambda: fenced_or_open(other, within))
    mine = open_memory(store, keep_same)
    fenced_or_open(mine, first)
    calls = store.calls
    newest = mine if first == 3 else other
    if at >= 0:
        deliver(newest, 0, 4, 9)
        assert [row for _, rows in sorted(seen.items()) for row in rows] == expected(0, 9), at
    return calls


def fenced_or_open(called: FunctionDestination, epoch: int) -> None:
    """Open, or get fenced. The later epoch must open."""
    try:
        assert called.open(epoch) == progress(0, 4)
    except DeliveryFencedError:
        assert epoch < 3
