"""Journals: one history for any number of writers, and damage is detected."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from rstream.store.blobs import open_store
from rstream.store.memory_blobs import MemoryBlobs
from rvertex.checkpoint.journal import Journal
from rvertex.errors import CorruptJournalError, OvertakenError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


def test_entries_are_read_as_written() -> None:
    journal = Journal(MemoryBlobs(), "values/v")
    names = [journal.append(number, b"%d" % number) for number in (0, 3, 17)]
    assert names == [journal.name(number) for number in (0, 3, 17)]
    assert journal.numbers() == [0, 3, 17]
    assert journal.read([3, 17]) == [b"3", b"17"]


def test_the_first_writer_of_a_number_decides_its_entry() -> None:
    store = MemoryBlobs()
    Journal(store, "values/v").append(0, b"mine")
    with pytest.raises(OvertakenError):
        Journal(store, "values/v").append(0, b"yours")
    assert Journal(store, "values/v").read([0]) == [b"mine"]


def test_a_late_writer_is_stopped_although_entries_were_deleted() -> None:
    store = MemoryBlobs()
    journal = Journal(store, "values/v")
    for number in range(3):
        journal.append(number, b"successor %d" % number)
    store.delete(journal.name(0))
    store.delete(journal.name(1))
    with pytest.raises(OvertakenError):
        Journal(store, "values/v").append(1, b"zombie")


def test_a_writer_whose_entry_is_deleted_at_once_is_stopped() -> None:
    class Collecting(MemoryBlobs):
        def list(self, folder: str = "") -> list[str]:
            self.blobs.clear()
            return list(super().list(folder))

    with pytest.raises(OvertakenError):
        Journal(Collecting(), "values/v").append(1, b"zombie")


def test_an_incomplete_entry_is_rejected_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between creating and filling an entry is an error that says what to do."""
    store = open_store(str(tmp_path))
    journal = Journal(store, "values/v")
    journal.append(0, b"first")

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "this file system has no links")

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", no_links)
    with monkeypatch.context() as dying:
        dying.setattr(os, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            journal.append(1, b"second")
    with pytest.raises(CorruptJournalError, match=r"0000000000000001.*is empty.*from a copy"):
        journal.read(journal.numbers())
    store.delete(journal.name(1))
    journal.append(1, b"again")
    assert journal.read([0, 1]) == [b"first", b"again"]


class GoneOnMeanwhile(MemoryBlobs):
    """A store whose first new blob is read and continued before its writer returns."""

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        is_first = not self.blobs
        is_mine = super().put_new(path, data)
        if is_first:
            successor = Journal(self, "values/v")
            assert successor.read(successor.numbers()) == [b"slow"]
            successor.append(1, b"successor")
        return is_mine


def test_entries_used_by_a_successor_stay_when_their_writer_resumes() -> None:
    journal = Journal(GoneOnMeanwhile(), "values/v")
    with pytest.raises(OvertakenError):
        journal.append(0, b"slow")
    assert journal.read([0, 1]) == [b"slow", b"successor"]


@pytest.mark.parametrize("at", [0, -1])
def test_damage_is_detected(at: int) -> None:
    store = MemoryBlobs()
    journal = Journal(store, "values/v")
    name = journal.append(0, b"payload")
    data = bytearray(store.get(name))
    data[at] ^= 1
    store.put(name, bytes(data))
    with pytest.raises(CorruptJournalError, match="checksum"):
        journal.read([0])
    store.delete(name)
    with pytest.raises(CorruptJournalError, match="gone"):
        journal.read([0])


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(0, 3))
def test_writers_in_any_order_produce_one_history(turns: list[int], kept: int) -> None:
    """Three instances append at the end that they know; those that are behind are stopped."""
    store = MemoryBlobs()
    journals = [Journal(store, "productions/v") for _ in range(3)]
    ends = [0, 0, 0]
    history: list[bytes] = []
    collected: set[int] = set()
    for turn, who in enumerate(turns):
        entry = b"%d by %d" % (turn, who)
        try:
            journals[who].append(ends[who], entry)
        except OvertakenError:
            ends[who] = len(history)  # started again, it reads on from the newest entry
            continue
        assert ends[who] == len(history)
        history.append(entry)
        ends[who] += 1
        for number in journals[who].numbers()[: -1 - kept]:
            store.delete(journals[who].name(number))
            collected.add(number)
    left = [number for number in journals[0].numbers() if number not in collected]
    assert journals[0].read(left) == history[len(history) - len(left) :]
