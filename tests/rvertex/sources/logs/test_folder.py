"""A growing folder as a log: each file once, complete, in the order of its entries.

Not covered: a file system that shows a file's old size and time while it grows.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from concurrent.futures import Future
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest

from rstream.clock import ManualClock
from rstream.log.background import InlineBackground
from rvertex.errors import SourceChangedError, SourceNotFoundError, SourceSchemaError
from rvertex.sources.logs import folder as folder_module
from rvertex.sources.logs.entries import LogEntry, decode_entries, encode_entries
from rvertex.sources.logs.errors import FileTakenError, LostInputError
from rvertex.sources.logs.folder import (
    ROW_BITS,
    FolderLog,
    folder_units,
    partition_of_file,
)
from rvertex.sources.spec import Json, LiveFolder, SourcePartition, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int64())])
T = TypeVar("T")


class Folder:
    """A folder, a reader of it, and the entries for the files that it found."""

    def __init__(self, path: Path, partitions: int = 1) -> None:
        self.spec = SourceSpec(
            kind=Json(),
            path=str(path),
            schema=SCHEMA,
            columns=SCHEMA,
            vs="t",
            live=LiveFolder(partitions=partitions),
        )
        self.path, self.clock = path, ManualClock()
        self.entries: list[LogEntry] = []
        self.reader = self.open((0,) * partitions, ())

    def open(self, positions: Sequence[int], entries: Sequence[LogEntry]) -> FolderLog:
        source = SourcePartition(self.spec, folder_units(self.spec), 0)
        reader = FolderLog(source, positions, self.clock, lambda: None, InlineBackground())
        reader.enter(entries)
        return reader

    def write(self, name: str, rows: Sequence[int]) -> None:
        lines = "".join(json.dumps({"t": x, "x": x}) + "\n" for x in rows)
        (self.path / name).write_text(lines)

    def scan(self) -> list[str]:
        """Scan once more. Return the new files, which are entered."""
        self.clock.advance(1_000_000)
        self.reader.found()
        found = self.reader.found()
        told = [sum(e.partition == k for e in self.entries) for k in range(2)]
        entries = []
        for file in found:
            k = file.partition
            place = (k, told[k], file.position, 0, 0, file.path, file.version)
            entries.append(LogEntry("file", *place))
            told[k] += 1
        self.reader.enter(entries)
        self.entries += entries
        return [Path(file.path).name for file in found]

    def read(self, partition: int = 0, rows_max: int = 2) -> list[tuple[int, int]]:
        """All rows that can be read now, as ``(position, x)``."""
        found: list[tuple[int, int]] = []
        while (rows := self.reader.read(partition, rows_max)) is not None or self.has_more():
            if rows is not None:
                xs = rows.batch.column("x").to_pylist()
                found += zip(rows.positions.tolist(), xs, strict=True)
        return found

    def has_more(self) -> bool:
        return any(p.reading is not None or p.ahead is not None for p in self.reader._partitions)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_files_are_read_once_after_two_equal_listings(folder: Folder) -> None:
    folder.write("a.json", [1, 2, 3])
    assert folder.scan() == []
    folder.write("b.json", [9])
    assert folder.scan() == ["a.json"]
    assert folder.reader.found() == [], "it was entered, though nobody has looked again"
    folder.write("b.json", [9, 10])
    assert folder.scan() == []
    assert folder.scan() == ["b.json"]
    assert folder.scan() == []
    after = 1 << ROW_BITS
    assert folder.read() == [(0, 1), (1, 2), (2, 3), (after, 9), (after + 1, 10)]
    end = folder.reader.end(0)
    assert end is not None
    assert end.position == 2 * after


def test_names_of_files_being_written_are_ignored(folder: Folder) -> None:
    for name in ("a.json.tmp", ".b.json", "_c.json", "d.json.part", "e.csv", "f.json~"):
        folder.write(name, [1])
    folder.write("g.json", [1])
    folder.scan()
    assert folder.scan() == ["g.json"]


def test_a_successor_continues_at_any_row(folder: Folder) -> None:
    folder.write("a.json", [1, 2, 3])
    folder.write("b.json", [4, 5])
    folder.scan()
    assert folder.scan() == ["a.json", "b.json"]
    whole = folder.read()
    entries = decode_entries(encode_entries(folder.entries))
    for at, (position, _) in enumerate(whole):
        folder.reader = folder.open((position,), entries)
        assert folder.read() == whole[at:]
        folder.scan()
        assert folder.scan() == []


def test_a_changed_file_is_rejected_by_name_and_a_deleted_file_is_lost_input(
    folder: Folder,
) -> None:
    folder.write("a.json", [1, 2, 3])
    folder.write("b.json", [4])
    folder.scan()
    folder.scan()
    folder.write("a.json", [7])
    with pytest.raises(SourceChangedError, match=r"a\.json"):
        folder.read()
    os.remove(folder.path / "a.json")
    folder.reader = folder.open((0,), folder.entries)
    with pytest.raises(
        LostInputError, match=r"a\.json, partition 0: .* from position 0.*; start a new job"
    ):
        folder.read()
    folder.reader.skip_to(0, 1 << ROW_BITS)
    assert folder.read() == [(1 << ROW_BITS, 4)]


def test_partitions_divide_the_files_by_their_names(tmp_path: Path) -> None:
    folder = Folder(tmp_path, partitions=2)
    names = [f"{n}.json" for n in range(8)]
    for n, name in enumerate(names):
        folder.write(name, [n])
    folder.scan()
    assert sorted(folder.scan()) == names
    read = [folder.read(k) for k in (0, 1)]
    assert sorted(x for rows in read for _, x in rows) == list(range(8))
    for k, rows in enumerate(read):
        assert {partition_of_file(f"{x}.json", 2) for _, x in rows} == {k}


def test_the_end_is_known_after_all_listed_files_were_entered_and_read(folder: Folder) -> None:
    folder.write("a.json", [1])
    assert folder.reader.end(0) is None, "nobody has looked yet"
    folder.clock.advance(1_000_000)
    assert [folder.reader.found(), folder.reader.found()] == [[], []]
    assert folder.reader.end(0) is None, "a file was seen that may still grow"
    assert folder.scan() == ["a.json"]
    assert folder.scan() == []
    assert folder.reader.end(0) is None, "it was not read"
    assert folder.reader.lag(0) is None, "how many rows it has is not known"
    folder.read()
    assert folder.reader.lag(0) == 0
    looked_s = folder.clock.monotonic_s()
    folder.clock.advance(500_000)
    end = folder.reader.end(0)
    assert end is not None
    assert end.reported_s == looked_s, "since then a file may have come"


def test_a_finishing_log_has_the_files_that_are_complete_now(folder: Folder) -> None:
    folder.write("a.json", [1])
    since_s = folder.clock.monotonic_s()
    assert not folder.reader.finish(since_s), "the folder was not listed yet"
    folder.write("grows.json", [2])
    assert folder.scan() == []
    assert not folder.reader.finish(since_s), "one listing does not show whether a file is complete"
    folder.write("later.json", [3])
    folder.write("grows.json", [2, 4])
    assert folder.scan() == ["a.json"]
    assert folder.reader.finish(since_s)
    assert folder.scan() == [], "files that came after the request belong to the next job"
    assert folder.reader.closing_position(0, since_s) == 1 << ROW_BITS
    assert folder.read() == [(0, 1)]


def test_a_failed_listing_does_not_end_a_log(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings: list[str] = []

    def failing(*_: object) -> dict[str, object]:
        listings.append("")
        raise SourceNotFoundError("in", "the store is away") from OSError("away")

    folder.write("a.json", [1])
    since_s = folder.clock.monotonic_s()
    folder.scan()
    assert not folder.reader.finish(since_s)
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "list_files", failing)
        folder.scan()
        assert not folder.reader.finish(since_s), "the file is not added"
        for _ in range(5):
            folder.reader.found()
            assert not folder.reader.finish(since_s)
        assert len(listings) <= 2, "it is listed once per interval, also while it fails"
    assert folder.scan() == ["a.json"]
    assert folder.reader.finish(since_s)


def test_a_log_without_further_files_ends_after_one_listing(folder: Folder) -> None:
    folder.write("a.json", [1])
    folder.scan()
    assert folder.scan() == ["a.json"]
    since_s = folder.clock.monotonic_s() + 1
    assert not folder.reader.finish(since_s)
    folder.clock.advance(1_000_000)
    folder.scan()
    assert folder.reader.finish(since_s)


def test_an_unreachable_folder_is_awaited_and_not_at_its_end(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "away")
    folder.scan()
    assert "No such file" in folder.reader.waiting
    assert folder.reader.end(0) is None
    folder.path.mkdir()
    folder.write("a.json", [1])
    folder.scan()
    assert folder.scan() == ["a.json"]
    assert folder.reader.waiting == ""


def test_some_of_several_folders_may_be_empty(tmp_path: Path) -> None:
    """Read files may be moved away; the log is then at its end until others arrive."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    folder = Folder(here)
    folder.write("a.json", [1])
    folder.spec = replace(folder.spec, kind=Json(more_paths=(str(there),)))
    folder.reader = folder.open((0,), ())
    folder.scan()
    assert folder.scan() == ["a.json"], "the other one is empty"
    folder.read()
    (here / "a.json").rename(tmp_path / "archived.json")
    assert folder.scan() == []
    assert (folder.reader.waiting, folder.reader.end(0) is None) == ("", False)
    (there / "b.json").write_text('{"t": 2, "x": 2}\n')
    folder.scan()
    assert folder.scan() == ["b.json"]


def test_a_failing_store_does_not_make_files_look_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path)
    assert isinstance(folder.spec.live, LiveFolder)
    folder.spec = replace(folder.spec, live=replace(folder.spec.live, taken_files="kept"))
    folder.reader = folder.open((0,), ())
    folder.write("a.json", [1])
    folder.scan()
    assert folder.scan() == ["a.json"]
    folder.read()

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fail)
        assert folder.scan() == []
        assert "Input/output error" in folder.reader.waiting
        assert folder.reader.end(0) is None
    assert folder.scan() == []
    assert (folder.reader.waiting, folder.reader.end(0) is None) == ("", False)


def test_a_missing_folder_does_not_hide_a_failing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    folder = Folder(here)
    assert isinstance(folder.spec.live, LiveFolder)
    log = replace(folder.spec.live, taken_files="kept")
    folder.spec = replace(
        folder.spec, live=log, path=str(here), kind=Json(more_paths=(f"{tmp_path}/none",))
    )
    folder.reader = folder.open((0,), ())
    folder.write("a.json", [1])
    folder.scan()
    assert folder.scan() == ["a.json"]
    scandir = os.scandir

    def fail(path: str) -> object:
        if Path(path) == here:
            raise OSError(errno.EIO, "Input/output error")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", fail)
    assert folder.scan() == []


def test_a_file_that_was_read_may_be_deleted_but_not_changed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for name in ("a.json", "b.json"):
        folder.write(name, [1, 2])
    assert folder.scan() == []
    assert folder.scan() == ["a.json", "b.json"]
    (tmp_path / "a.json").unlink()
    assert folder.scan() == []
    folder.write("b.json", [1, 2, 3])
    with pytest.raises(FileTakenError, match=r"b\.json: changed since the job read it"):
        folder.scan()


@pytest.mark.parametrize("is_left", [True, False])
def test_in_a_continued_job_a_file_that_was_read_may_not_be_deleted(
    tmp_path: Path, is_left: bool
) -> None:
    folder = Folder(tmp_path)
    folder.write("a.json", [1])
    if is_left:
        folder.write("b.json", [2])
    folder.scan()
    folder.scan()
    assert isinstance(folder.spec.live, LiveFolder)
    for rule, is_refused in (("any", False), ("kept", True)):
        folder.spec = replace(folder.spec, live=replace(folder.spec.live, taken_files=rule))
        folder.reader = folder.open((0,), folder.entries)
        (tmp_path / "a.json").unlink(missing_ok=True)
        if is_refused:
            with pytest.raises(FileTakenError, match=r"a\.json: gone since the job read it"):
                folder.scan()
        else:
            assert folder.scan() == []


class OnCall(InlineBackground):
    """Runs a task when the test tells it to."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Callable[[], None]] = []

    def submit(self, task: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self.given.append(lambda: future.set_result(task()))
        return future

    def work(self) -> None:
        given, self.given = self.given, []
        for task in given:
            task()


def test_an_end_is_as_old_as_the_listing_that_found_it(tmp_path: Path) -> None:
    """A file that arrives during a listing may be missing in the list."""
    folder, background = Folder(tmp_path), OnCall()
    source = SourcePartition(folder.spec, folder_units(folder.spec), 0)
    reader = FolderLog(source, (0,), folder.clock, lambda: None, background)
    for _ in range(2):
        folder.clock.advance(60_000_000)
        began_s = folder.clock.monotonic_s()
        reader.found()
        folder.clock.advance(5_000_000)
        background.work()
        folder.clock.advance(5_000_000)
        reader.found()
        end = reader.end(0)
        assert end is not None
        assert end.reported_s == began_s


def open_files(folder: Path) -> list[str]:
    """The files in the folder that this process has open."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the handle of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in found if path.startswith(str(folder))]


@pytest.mark.parametrize("is_at_work", [True, False])
def test_a_reader_closed_during_a_read_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_at_work: bool
) -> None:
    monkeypatch.setattr(folder_module, "AHEAD_ROWS", 2)
    folder = Folder(tmp_path)
    folder.write("a.json", range(100_000))
    folder.scan()
    folder.scan()
    background = OnCall()
    source = SourcePartition(folder.spec, folder_units(folder.spec), 0)
    reader = FolderLog(source, (0,), folder.clock, lambda: None, background)
    reader.enter(folder.entries)
    assert reader.read(0, 1) is None
    background.work()
    assert reader.read(0, 1) is not None, "one row is left"
    if is_at_work:
        assert reader.read(0, 1) is not None
    assert bool(background.given) == is_at_work
    assert open_files(tmp_path)
    reader.close()
    background.work()
    assert open_files(tmp_path) == []


def test_new_files_have_the_columns_of_their_folder_names(folder: Folder) -> None:
    columns = pa.schema([*SCHEMA, ("day", pa.date32())])
    folder.spec = replace(
        folder.spec, schema=columns, columns=columns, kind=Json(folder_columns=("day",))
    )
    folder.reader = folder.open((0,), ())
    found = []
    for day in (1, 2):
        (folder.path / f"day=2026-01-0{day}").mkdir()
        folder.write(f"day=2026-01-0{day}/{day}.json", [day])
        folder.scan()
        assert folder.scan() == [f"{day}.json"]
        while (rows := folder.reader.read(0, 9)) is not None or folder.has_more():
            found += [] if rows is None else rows.batch.select(["x", "day"]).to_pylist()
    assert found == [{"x": k, "day": date(2026, 1, k)} for k in (1, 2)]
    (folder.path / "day=tomorrow").mkdir()
    folder.write("day=tomorrow/3.json", [3])
    folder.scan()
    folder.scan()
    with pytest.raises(
        SourceSchemaError, match="the folder is named day=tomorrow, which is not date"
    ):
        folder.read()
