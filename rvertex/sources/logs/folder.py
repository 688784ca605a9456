"""Reads a growing folder as a log: the rows of its files, in the order in which they were added.

A file is complete when two scans in a row find the same version of it. Then a "file" entry of the
journal adds it to the log, with its number and version, and its rows are read. Row r of file n has
position ``n << ROW_BITS | r``, so files can be added before their rows are counted. The positions
between the last row of a file and the next file are a gap. With several partitions, the hash of the
file's name assigns it to one.

Invariants: (1) a file is read once, completely, in the version of its entry; another version is an
error, also after the file was read; (2) the log ends after its last file, if the newest scan found
no other file. ``LiveFolder.taken_files`` defines whether files may be deleted once they were read.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import empty_events
from rvertex.errors import SourceNotFoundError, SourceVanishedError
from rvertex.sources.files import list_files
from rvertex.sources.formats.parquet import row_groups
from rvertex.sources.formats.rows.bad_rows import DEAD, bad_of, dead_rows, without_bad
from rvertex.sources.logs.errors import FileTakenError, LostInputError
from rvertex.sources.logs.protocol import ORIGIN, FoundFile, LogEnd, LogRows
from rvertex.sources.readers import open_reader
from rvertex.sources.spec import LiveFolder, SourcePartition, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from rstream.clock import Clock
    from rstream.log.background import Background
    from rvertex.sources.logs.entries import LogEntry
    from rvertex.sources.readers import SourceReader
    from rvertex.sources.spec import SourceSpec
    from rvertex.sources.versions import FileVersion

#: Bits of a position for the row within its file: at most 2**32 rows per file.
ROW_BITS = 32
#: Rows that are read ahead per partition.
AHEAD_ROWS = 65_536
#: Most files that are added with one decision.
ENTERED_MAX = 1_000


def folder_units(spec: SourceSpec) -> tuple[Unit, ...]:
    """Return the folder's partitions, whose number is an option of the source."""
    assert isinstance(spec.live, LiveFolder), spec.live
    return tuple(Unit(spec.path, stream=k) for k in range(spec.live.partitions))


def partition_of_file(path: str, partitions: int) -> int:
    """Return the partition of a file, by its name without the folder."""
    name = path.rpartition("/")[2].encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest()) % partitions


@dataclass(slots=True)
class _Partition:
    """The files of one partition, and the file that is being read."""

    number: int
    #: Next position to read into memory.
    read_to: int
    files: list[tuple[str, FileVersion | None]] = field(default_factory=list)
    reader: SourceReader | None = None
    reading: Future[pa.RecordBatch | None] | None = None
    #: Rows that were read and not returned: position of the first row, and the batch.
    ahead: tuple[int, pa.RecordBatch] | None = None

    @property
    def next_position(self) -> int:
        return self.read_to if self.ahead is None else self.ahead[0]

    @property
    def end(self) -> int:
        """The position after the last file."""
        return len(self.files) << ROW_BITS


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of one listing of the folders."""

    files: dict[str, FileVersion]
    #: Why a folder could not be listed; empty: all folders were listed.
    trouble: str
    #: Whether a file that is missing here was certainly deleted, because no store failed.
    is_known: bool


class FolderLog:
    """Implements :class:`rvertex.sources.logs.protocol.LogReader` and ``FileLog``."""

    log_partitions = 0
    wait_s: float | None = None

    def __init__(
        self,
        source: SourcePartition,
        positions: Sequence[int],
        clock: Clock,
        wake: Callable[[], None],
        background: Background,
    ) -> None:
        self._spec, self._clock, self._wake = source.spec, clock, wake
        self._background = background
        live = source.spec.live
        assert isinstance(live, LiveFolder), live
        self._count, self._rule = live.partitions, live.taken_files
        self._poll_s = live.poll_every_us / 1e6
        rows = zip(source.units, positions, strict=True)
        self._partitions = [_Partition(unit.stream, position) for unit, position in rows]
        #: The files that were added, with their versions.
        self._entered: dict[str, FileVersion | None] = {}
        self._scanning: Future[Scan] | None = None
        #: When the running scan started, and when the last completed scan started.
        self._began_s, self._last_scan_s = 0.0, 0.0
        self._due_s = clock.monotonic_s()
        self._last_files: dict[str, FileVersion] = {}
        #: Complete files that were not added yet.
        self._complete: list[tuple[str, FileVersion]] = []
        self._has_scanned = False
        #: The files to add before the log may end (None: not listed yet), and the time from which
        #: they are listed.
        self._finish_s: float | None = None
        self._last: set[str] | None = None
        self._listed_s = 0.0
        #: Why the folder could not be listed. If set, it may contain unknown files.
        self._trouble = ""
        self._is_closed = False

    # ---- files

    def found(self) -> Sequence[FoundFile]:
        """Implement FileLog."""
        self._scan()
        files: list[FoundFile] = []
        next_number = [len(p.files) for p in self._partitions]
        by_number = {p.number: k for k, p in enumerate(self._partitions)}
        complete = [file for file in self._complete if self._last is None or file[0] in self._last]
        for path, version in complete[:ENTERED_MAX]:
            k = by_number.get(partition_of_file(path, self._count))
            if k is not None:
                files.append(FoundFile(k, next_number[k] << ROW_BITS, path, version))
                next_number[k] += 1
        return files

    def enter(self, entries: Sequence[LogEntry]) -> None:
        """Implement FileLog."""
        for entry in entries:
            partition = self._partitions[entry.partition]
            assert entry.position == partition.end, (entry, partition.end)
            partition.files.append((entry.path, entry.version))
            self._entered[entry.path] = entry.version
        self._complete = [file for file in self._complete if file[0] not in self._entered]

    def finish(self, since_s: float) -> bool:
        """See FileLog. A folder that cannot be listed does not end, since it may have files."""
        if self._finish_s is None:
            self._finish_s, self._due_s = since_s, min(self._due_s, since_s)
        if self._trouble:
            return False
        if self._last is None:
            if not self._has_scanned or self._last_scan_s < since_s:
                return False
            self._last, self._listed_s = set(self._last_files), self._last_scan_s
        if self._last and self._last_scan_s == self._listed_s:
            return False
        self._last &= {path for path, _ in self._complete}
        return not self._last

    def _scan(self) -> None:
        """Process the result of a scan, or start the next scan when it is due."""
        if self._scanning is not None:
            if self._scanning.done():
                scanned, self._scanning = self._scanning.result(), None
                self._compare(scanned)
        elif self._clock.monotonic_s() >= self._due_s and not self._is_closed:
            self._began_s = self._clock.monotonic_s()
            self._due_s = self._began_s + self._poll_s
            self._scanning = self._background.submit(self._list)
            self._scanning.add_done_callback(lambda _: self._wake())

    def _list(self) -> Scan:
        """List all folders, some of which may be empty. Runs in the background."""
        versions: dict[str, FileVersion] = {}
        trouble, is_known = "", True
        for path in self._spec.paths:
            try:
                versions |= list_files(self._spec.format, path)
            except SourceNotFoundError as error:
                # An error without a cause means that the folder is empty
                if error.__cause__ is not None:
                    trouble = str(error)
                    is_known = is_known and isinstance(error.__cause__, FileNotFoundError)
        numbers = {p.number for p in self._partitions}
        files = {
            path: version
            for path, version in versions.items()
            if partition_of_file(path, self._count) in numbers
        }
        return Scan(files, trouble, is_known)

    def _compare(self, scan: Scan) -> None:
        """Record as complete the files that are unchanged since the last scan.

        Raises:
            FileTakenError: a file that was added has changed.
        """
        self._trouble = scan.trouble
        if scan.trouble and self._last is not None:
            return  # the folder may have files that this listing lacks
        self._check_taken(scan)
        fresh = {p: v for p, v in scan.files.items() if p not in self._entered}
        self._complete = [
            (path, version)
            for path, version in sorted(fresh.items())
            if path in self._last_files and self._last_files[path].is_same(version)
        ]
        self._last_files, self._last_scan_s, self._has_scanned = fresh, self._began_s, True

    def _check_taken(self, scan: Scan) -> None:
        """Raise if a file that was added has changed or, with the rule "kept", was deleted."""
        for path, then in self._entered.items():
            now = scan.files.get(path)
            if now is None and self._rule == "kept" and scan.is_known:
                raise FileTakenError(path, "gone since the job read it")
            if now is None or then is None or self._rule == "any" or now.is_same(then):
                continue
            raise FileTakenError(path, f"changed since the job read it: {then} then, {now} now")

    # ---- rows

    def read(self, partition: int, rows_max: int) -> LogRows | None:
        """Implement LogReader."""
        state = self._partitions[partition]
        gap = None
        if state.ahead is None and state.reading is not None and state.reading.done():
            gap = self._take(state)
        if state.ahead is None:
            self._begin(state)
            return gap
        first, batch = state.ahead
        rows = batch.slice(0, rows_max)
        count, rest = rows.num_rows, batch.slice(rows_max)
        state.ahead = (first + count, rest) if rest.num_rows else None
        if state.ahead is None:
            self._begin(state)
        return self._log_rows(state, first, rows)

    def _log_rows(self, state: _Partition, first: int, batch: pa.RecordBatch) -> LogRows:
        """Return a file's rows, the first at position ``first``. Bad rows are separate."""
        positions = np.arange(first, first + batch.num_rows, dtype=np.int64)
        following, width = first + batch.num_rows, len(self._spec.row_schema) + 2
        bad = bad_of(batch, width)
        if bad is None:
            origins = self._origins(state.files, first, len(positions))
            return LogRows(positions, batch, following, None, origins)
        is_bad = bad.is_valid().to_numpy(zero_copy_only=False)
        dead = dead_rows(bad)
        places = {
            "partition": pa.array(np.full(dead.num_rows, state.number, np.int32)),
            "position": pa.array(positions[is_bad]),
        }
        columns = [places.get(name, dead.column(name)) for name in DEAD.names]
        dead = pa.RecordBatch.from_arrays(columns, schema=DEAD)
        good = positions[~is_bad]
        origins = self._origins(state.files, first, len(good))
        return LogRows(good, without_bad(batch, width), following, dead, origins)

    def _origins(
        self, files: Sequence[tuple[str, FileVersion | None]], first: int, rows: int
    ) -> pa.RecordBatch | None:
        """Return the file of each row, if rows may become dead letters; else None."""
        if not self._spec.checks.keeps_origins:
            return None
        path = files[first >> ROW_BITS][0]
        sources = pa.repeat(path, rows)
        nothing = pa.nulls(rows, pa.binary())
        return pa.RecordBatch.from_arrays([sources, nothing, nothing], schema=ORIGIN)

    def _take(self, state: _Partition) -> LogRows | None:
        """Store the rows that were read. At the end of a file, return the gap after it."""
        assert state.reading is not None
        number = state.read_to >> ROW_BITS
        reading, state.reading = state.reading, None
        try:
            batch = reading.result()
        except SourceVanishedError as error:
            following = (number + 1) << ROW_BITS
            raise LostInputError(
                state.files[number][0], state.number, state.read_to, following, error.reason
            ) from error
        if batch is not None:
            state.ahead = state.read_to, batch
            state.read_to += batch.num_rows
            return None
        self._close_reader(state)
        state.read_to = (number + 1) << ROW_BITS
        return LogRows(np.empty(0, np.int64), empty_events(self._spec.row_schema), state.read_to)

    def _begin(self, state: _Partition) -> None:
        """Start to read the next rows in the background, if there is a file to read."""
        if state.reading is not None or state.read_to >= state.end or self._is_closed:
            return
        state.reading = self._background.submit(lambda: self._read_file(state))
        state.reading.add_done_callback(lambda _: self._wake())

    def _read_file(self, state: _Partition) -> pa.RecordBatch | None:
        """Return the next rows of the file; None at its end. Call it in the background only."""
        if state.reader is None:
            path, version = state.files[state.read_to >> ROW_BITS]
            has_groups = self._spec.kind.has_row_groups
            units = row_groups(path, version) if has_groups else [Unit(path, version=version)]
            row = state.read_to & ((1 << ROW_BITS) - 1)
            state.reader = open_reader(SourcePartition(self._spec, tuple(units), 0), row)
        return state.reader.read_next(AHEAD_ROWS)

    def end(self, partition: int) -> LogEnd | None:
        """Implement LogReader."""
        state = self._partitions[partition]
        if (
            not self._has_scanned
            or self._last_files
            or self._trouble
            or state.next_position < state.end
        ):
            return None
        return LogEnd(state.end, self._last_scan_s)

    def closing_position(self, partition: int, since_s: float) -> int | None:
        """Implement LogReader.

        Returns the end of the added files, which each instance reads in the journal.

        Files in the folder that are not added yet are handled by ``finish``.
        """
        del since_s
        return self._partitions[partition].end

    def skip_to(self, partition: int, position: int) -> None:
        """Implement LogReader."""
        state = self._partitions[partition]
        assert state.reading is None, "a file is skipped once reading it has failed"
        self._close_reader(state)
        state.ahead, state.read_to = None, position

    def lag(self, partition: int) -> int | None:
        """Implement LogReader. The lag is known only if all rows were read."""
        state = self._partitions[partition]
        return 0 if self._has_scanned and state.next_position >= state.end else None

    @property
    def waiting(self) -> str:
        """Implement LogReader."""
        return self._trouble

    def close(self) -> None:
        """Implement LogReader. A file that is being read is closed after the read."""
        self._is_closed = True
        for state in self._partitions:
            if state.reading is None:
                self._close_reader(state)
            else:
                state.reading.add_done_callback(partial(self._close_when_read, state))

    def _close_when_read(self, state: _Partition, _: Future[pa.RecordBatch | None]) -> None:
        self._close_reader(state)

    def _close_reader(self, state: _Partition) -> None:
        reader, state.reader = state.reader, None
        if reader is not None:
            reader.close()
