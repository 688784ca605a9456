"""The writer of a log dies, is suspended or gets no answer at every call of its store.

Laws: acknowledged rows are in the log once, at the acknowledged position; each producer's numbers
start at 0, without gaps and in order; the folder's Parquet files have the same rows.

Not covered: a store whose puts are not atomic, or that loses acknowledged writes.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rstream import MemoryBlobs
from rstream.errors import AppenderFencedError, StoreError
from rstream.intake.producers import Ack
from rstream.intake.reader import open_log
from rstream.intake.writer import LogWriter
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths
from tests.support.pushed import (
    LIMITS,
    SCHEMA,
    FailingBlobs,
    Interrupted,
    Ledger,
    append,
    parquet_rows,
    read_rows,
    write_pending,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream import BlobStore

PRODUCERS = ("a", "b")
ROUNDS = 5


def open_writer(store: BlobStore) -> LogWriter:
    return LogWriter(store, SCHEMA, limits=LIMITS)


def push(store: BlobStore, ledger: Ledger, end: int = ROUNDS) -> None:
    """Each producer repeats from its last acknowledgement, and continues up to ``end``."""
    writer = open_writer(store)
    told = {p: max([n for q, n in ledger.acks if q == p], default=-1) for p in PRODUCERS}
    for number in range(end):
        asked = [(p, number) for p in PRODUCERS if number >= told[p]]
        results = writer.commit([append(p, n) for p, n in asked])
        for (producer, n), ack in zip(asked, results, strict=True):
            ledger.note(producer, n, ack)
        write_pending(writer)


def finish(store: BlobStore, ledger: Ledger, end: int = ROUNDS) -> None:
    """A successor continues; then everything is there once, also as Parquet files."""
    ledger.check(store)
    push(store, ledger, end)
    writer = open_writer(store)
    writer.commit([], is_cut=True)
    write_pending(writer)
    found = ledger.check(store)
    assert {(p, n) for p, n, _ in found} == {(p, n) for p in PRODUCERS for n in range(end)}
    assert parquet_rows(store) == found


def is_fenced(run: Callable[[], None]) -> bool:
    try:
        run()
    except AppenderFencedError:
        return True
    return False


def calls_of_a_life() -> list[str]:
    life = Life()
    push(CrashingBlobs(MemoryBlobs(), life), Ledger())
    assert {call.split()[0] for call in life.calls} >= {"put", "put_new", "delete", "list"}
    return life.calls


def test_the_writer_dies_at_every_call() -> None:
    for at, how in deaths(calls_of_a_life(), is_atomic=True):
        store, ledger, life = MemoryBlobs(), Ledger(), Life(at, how)
        with contextlib.suppress(DiedError):
            push(CrashingBlobs(store, life), ledger)
        assert life.is_dead
        try:
            finish(store, ledger)
        except BaseException as error:
            error.add_note(f"{how} call {at}, {life.calls[-1]}")
            raise


@pytest.mark.slow
def test_a_zombie_is_suspended_before_every_call_while_a_successor_runs() -> None:
    fenced = 0
    for at in range(len(calls_of_a_life())):
        store, ledger = MemoryBlobs(), Ledger()
        successor = Ledger()

        def meanwhile(
            store: MemoryBlobs = store, ledger: Ledger = ledger, successor: Ledger = successor
        ) -> None:
            successor.acks.update(ledger.acks)
            push(store, successor, ROUNDS + 2)

        life = Interrupted(at, meanwhile)
        try:
            fenced += is_fenced(partial(push, CrashingBlobs(store, life), ledger))
            ledger.check(store)
            ledger.acks.update(successor.acks)
            finish(store, ledger, ROUNDS + 2)
        except BaseException as error:
            error.add_note(f"slept before call {at}, {life.calls[at]}")
            raise
    assert fenced > ROUNDS


@pytest.mark.slow
@pytest.mark.parametrize("has_effect", [False, True])
def test_every_call_is_tried_without_a_response(has_effect: bool) -> None:
    """The append fails; its producer repeats it, with the same writer."""
    failures = 0
    for at in range(60):
        store, ledger = MemoryBlobs(), Ledger()
        writer: LogWriter | None = None
        failing = FailingBlobs(store, at, has_effect=has_effect)
        told = dict.fromkeys(PRODUCERS, 0)
        for _ in range(2 * ROUNDS):
            try:
                writer = writer or open_writer(failing)
                asked = [(p, n) for p, n in told.items() if n < ROUNDS]
                results = writer.commit([append(p, n) for p, n in asked])
                for (producer, n), ack in zip(asked, results, strict=True):
                    ledger.note(producer, n, ack)
                    told[producer] = n + 1
                write_pending(writer)
            except StoreError:
                failures += 1
        assert told == dict.fromkeys(PRODUCERS, ROUNDS)
        finish(store, ledger)
    assert failures > ROUNDS


@pytest.mark.parametrize("from_seq", [0, 1])
def test_a_reader_is_suspended_before_every_call_while_commits_become_segments(
    from_seq: int,
) -> None:
    """Meanwhile a stale writer leaves a commit whose number was free again."""

    def begin() -> tuple[MemoryBlobs, LogWriter, LogWriter]:
        store = MemoryBlobs()
        zombie = open_writer(store)
        zombie.commit([append("a", 0)])
        return store, zombie, open_writer(store)

    def meanwhile(zombie: LogWriter, successor: LogWriter) -> None:
        for number in range(1, ROUNDS):
            successor.commit([append("a", number)])
            write_pending(successor)
        assert is_fenced(lambda: zombie.commit([append("z", 0)]))

    def read(store: BlobStore) -> list[tuple[str, int]]:
        reader, found = open_log(store, from_seq), []
        while (items := reader.read_next()) is not None:
            assert items.first_seq == from_seq + len(found)
            found += [(r["producer"], r["number"]) for r in items.batch.to_pylist()]
        return found

    store, _, _ = begin()
    undisturbed = Life()
    read(CrashingBlobs(store, undisturbed))
    for at in range(len(undisturbed.calls)):
        store, zombie, successor = begin()
        life = Interrupted(at, partial(meanwhile, zombie, successor))
        found = read(CrashingBlobs(store, life))
        whole = [(p, n) for p, n, _ in read_rows(store)][from_seq:]
        assert found == whole[: len(found)]
        assert ("z", 0) not in found


def test_a_successor_is_suspended_before_every_call_while_its_predecessor_runs() -> None:
    undisturbed = Life()
    store = MemoryBlobs()
    open_writer(store)
    open_writer(CrashingBlobs(store, undisturbed))
    for at in range(len(undisturbed.calls)):
        store, ledger = MemoryBlobs(), Ledger()
        before = open_writer(store)

        def meanwhile(before: LogWriter = before, ledger: Ledger = ledger) -> None:
            for number in range(ROUNDS):
                (ack,) = before.commit([append("a", number)])
                ledger.note("a", number, ack)
                write_pending(before)

        life = Interrupted(at, partial(is_fenced, meanwhile))
        writer = LogWriter(CrashingBlobs(store, life), SCHEMA, limits=LIMITS)
        following = len(ledger.acks)
        for number in range(following, ROUNDS):
            (ack,) = writer.commit([append("a", number)])
            ledger.note("a", number, ack)
        assert is_fenced(lambda before=before: before.commit([append("z", 0)]))
        finish(store, ledger)


def test_a_commit_of_a_zombie_below_the_base_is_ignored() -> None:
    store, ledger = MemoryBlobs(), Ledger()
    zombie = open_writer(store)
    (ack,) = zombie.commit([append("a", 0)])
    ledger.note("a", 0, ack)
    push(store, ledger)
    before = read_rows(store)
    numbers = {name for name in store.list("_log") if "commit" in name}
    for _ in range(2):
        with pytest.raises(AppenderFencedError):
            zombie.commit([append("a", 1)])
    # the number was free
    assert {name for name in store.list("_log") if "commit" in name} - numbers
    assert read_rows(store) == before
    finish(store, ledger)


def test_an_ack_has_the_position() -> None:
    writer = open_writer(MemoryBlobs())
    assert writer.commit([append("a", 0), append("b", 0), append("a", 0)]) == [
        Ack(0, 0),
        Ack(1, 1),
        Ack(0, 0, is_repeat=True),
    ]
