"""Scratch files: equal rows, no names, a limit, and errors that say what to do.

Not covered: a disk that returns other bytes than were written.
"""

from __future__ import annotations

import errno
import gc
import threading
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from rvertex.state.errors import ScratchFullError, ScratchUnusableError
from rvertex.state.memory import StateMemory
from rvertex.state.scratch import Scratch, resident_file_bytes

if TYPE_CHECKING:
    from pathlib import Path


def rows(first: int = 0) -> pa.RecordBatch:
    names = pa.array([f"n{first + i % 3}" for i in range(1_000)]).dictionary_encode()
    return pa.record_batch({"x": list(range(first, first + 1_000)), "name": names})


def test_rows_are_read_back_and_the_file_has_no_name(tmp_path: Path) -> None:
    scratch = Scratch(str(tmp_path))
    given = [rows(), rows(5)]
    found = scratch.store(given)
    assert list(tmp_path.iterdir()) == []
    assert [batch.to_pylist() for batch in found] == [batch.to_pylist() for batch in given]
    assert scratch.files == 1
    assert scratch.used_bytes == scratch.written_bytes > sum(b.nbytes for b in given) // 2


def test_space_is_freed_with_the_last_array(tmp_path: Path) -> None:
    scratch = Scratch(str(tmp_path))
    column = scratch.store([rows()])[0].column("x").slice(5, 2)
    gc.collect()
    assert scratch.used_bytes > 0
    assert column.to_pylist() == [5, 6]
    del column
    gc.collect()
    assert (scratch.used_bytes, scratch.files) == (0, 0)


def test_addresses_are_used_again_while_their_last_owner_is_freed(tmp_path: Path) -> None:
    scratch, failed = Scratch(str(tmp_path)), list[KeyError]()

    def work() -> None:
        values = np.arange(2_000)
        for _ in range(1_500):
            try:
                scratch.holds(scratch.store_array(values).ctypes.data)
            except KeyError as error:
                failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not failed
    assert scratch.used_bytes == 0
    assert not scratch.holds(1)


def test_reaching_the_limit_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    scratch = Scratch(str(tmp_path), limit_bytes=20_000)
    kept = scratch.store([rows()])
    with pytest.raises(ScratchFullError, match=r"its limit is 20000 bytes.*scratch_limit"):
        scratch.store([rows(1)])
    assert kept[0].to_pylist() == rows().to_pylist()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ScratchFullError, match=r"its disk is full\. No state is lost"):
        Scratch(str(tmp_path))._write(10, full)
    assert list(tmp_path.iterdir()) == []


def test_too_many_open_files_are_an_error_with_its_own_remedy(tmp_path: Path) -> None:
    def refused(_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(ScratchUnusableError, match=r"allow more open files \(ulimit -n\)$"):
        Scratch(str(tmp_path))._write(10, refused)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ScratchUnusableError, match="name a folder that can be written to"):
        Scratch(str(tmp_path / "missing")).store([rows()])


def test_a_file_on_the_same_disk_is_mapped_in_place(tmp_path: Path) -> None:
    scratch, file = Scratch(str(tmp_path)), tmp_path / "part"
    file.write_bytes(b"12345678")
    found = scratch.map_file(str(file))
    assert found is not None
    file.unlink()
    assert (found.to_pybytes(), scratch.used_bytes, scratch.written_bytes) == (b"12345678", 8, 0)
    assert scratch.holds(found.address)
    assert not scratch.holds(found.address + 8)
    del found
    assert (scratch.used_bytes, scratch.files) == (0, 0)


def test_a_file_elsewhere_or_beyond_the_limit_is_not_mapped(tmp_path: Path) -> None:
    file = tmp_path / "part"
    file.write_bytes(b"12345678")
    assert Scratch(str(tmp_path), 7).map_file(str(file)) is None
    assert Scratch("/proc").map_file(str(file)) is None
    assert Scratch(str(tmp_path)).map_file(str(tmp_path / "none")) is None


def test_mapped_pages_that_were_read_once_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rvertex.state.memory.PAGES_BYTES_MIN", 1 << 20)
    holder = StateMemory(4 << 20, Scratch(str(tmp_path))).holder()
    numbers = np.arange(1 << 20)
    stored = [holder.store([pa.record_batch({"n": numbers + i})])[0] for i in range(4)]
    before, most, total = resident_file_bytes(), 0, 0
    for batch in holder.read_once(stored):
        total += int(batch.column(0).to_numpy().sum())
        most = max(most, resident_file_bytes() - before)
    assert total == 4 * int(numbers.sum()) + 6 * len(numbers)
    assert 4 << 20 < most < 17 << 20, "one batch of 8 MiB, and what the reads before left"
    assert resident_file_bytes() - before < 4 << 20


def test_short_slices_of_many_files_are_joined_without_mapping_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rvertex.state.memory.PAGES_BYTES_MIN", 1 << 20)
    monkeypatch.setattr("rvertex.state.memory._JOINED_BYTES", 1 << 20)
    memory = StateMemory(1 << 20, Scratch(str(tmp_path)))
    values = np.arange(1 << 16)
    files = [
        memory.store([pa.record_batch(dict.fromkeys("abcd", values + i))])[0].slice(9_000, 10)
        for i in range(40)
    ]
    memory.scratch.drop_pages(0)
    before, mapped = resident_file_bytes(), [0]
    real = Scratch.drop_pages

    def dropped(self: Scratch, resident_max: int) -> None:
        mapped.append(resident_file_bytes() - before)
        real(self, resident_max)

    monkeypatch.setattr(Scratch, "drop_pages", dropped)
    joined = memory.holder().joined(files)
    mapped.append(resident_file_bytes() - before)
    assert joined.equals(pa.Table.from_batches(files).combine_chunks().to_batches()[0])
    assert max(mapped) < 6 << 20, "64 KiB for each of 160 slices is 10 MiB"
