"""The durable part of one stream: a folder of segments and a persisted low-water mark.

The low-water mark is written to ``_low_water_mark`` before the first segment below it is deleted.
So neither a crash in between, nor a segment that a slow replica writes again, looks like a hole. A
complete stream has a seal, which lists its segments; readers ignore all other segments.

Invariants: (1) the index contains only segments that exist or existed; if a segment turns out to be
deleted, the folder is listed again; (2) an intact segment is never overwritten. The writer of the
stream renames a damaged segment, which frees its name; its items then count as lost.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from rstream.errors import CorruptSegmentError, InvalidBatchError, SequenceGapError, StoreError
from rstream.format.codec import SegmentEncoder, SegmentFile
from rstream.items.batch import is_wider
from rstream.log.tail import Cut
from rstream.store import marks
from rstream.store.fences import valid_segments
from rstream.store.part_files import place_of
from rstream.store.seals import SEAL_NAME, is_closing, sealed_names
from rstream.store.segment_names import SegmentIndex, segment_name
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.format.table import TableForm
    from rstream.items.batch import Items
    from rstream.log.background import Background
    from rstream.store.protocol import BlobStore

_Seen = TypeVar("_Seen")

#: A reader reports an item as lost after it found this many deleted segments in a row.
LOOKS_MAX = 8
#: Prefix and suffix in the name of a damaged segment. Readers of ``*.parquet`` do not match it.
DAMAGED, ASIDE = "_damaged-", ".aside"


class DurableLog:
    """The segments of one stream in one folder. Any thread may use it."""

    def __init__(
        self,
        store: BlobStore,
        stream: str,
        *,
        schema: pa.Schema | None = None,
        form: TableForm | None = None,
        generation: int = 0,
    ) -> None:
        """Open the folder; ``schema``: of the files (None: of the written items).

        ``form``: write tables for users. ``generation``: of the job that writes
        (:mod:`rstream.store.fences`).
        """
        self.store = store
        self.generation = generation
        #: Whether the digest of deleted items is kept (:mod:`rstream.log.retention`).
        self.keeps_digest = False
        self._encoder = SegmentEncoder(stream, schema, form)
        self.stream = stream
        self._lock = threading.Lock()
        #: Held during a listing, so that the index does not change in between.
        self._listing_lock = threading.Lock()
        self._collect_lock = threading.Lock()
        self._index = SegmentIndex()
        #: By the range of valid items: the range in the name of the file, if a fence is within it.
        self._cut_off: dict[SeqRange, SeqRange] = {}
        self._mark = 0
        #: First seq of the stream, and the digest of all items before it that were deleted.
        self.beginning = marks.FROM_THE_START
        #: Segments below the persisted mark that a crash kept from being deleted.
        self._leftovers: list[SeqRange] = []
        self.refresh()

    @property
    def uri(self) -> str:
        return self.store.uri

    @property
    def mark(self) -> int:
        """The persisted low-water mark."""
        return self._mark

    @property
    def first_seq(self) -> int | None:
        """The lowest durable seq at or above the mark."""
        with self._lock:
            first = self._index.first_seq
        return None if first is None else max(first, self._mark)

    def refresh(self) -> None:
        """List the folder again."""
        with self._listing_lock:
            names = self.store.list()
            has_mark, noted = marks.MARK_NAME in names, marks.beginnings(names)
            sealed = sealed_names(self.store) if SEAL_NAME in names else None
            if sealed is not None:
                names = sorted(set(names).intersection(sealed))
            files = valid_segments(names)
            ranges = list(files)
            if noted and noted[-1] > self.beginning[0]:
                self.beginning = marks.read_beginning(self.store, noted)
            mark = max(self.beginning[0], marks.read_mark(self.store, ranges) if has_mark else 0)
            with self._lock:
                self._cut_off = {s: file for s, file in files.items() if s != file}
                self._mark = max(self._mark, mark)
                self._index.refresh([s for s in ranges if s.hi > self._mark])
                self._leftovers = [s for s in ranges if s.hi <= mark]

    def segments(self) -> list[SeqRange]:
        """Return the known segments, sorted."""
        with self._lock:
            return self._index.segments()

    def layout(self) -> tuple[list[SeqRange], list[SeqRange]]:
        """Return the segments that reach beyond all earlier ones, and the covered others."""
        with self._lock:
            return self._index.chain(), self._index.covered()

    def size(self, seqs: SeqRange) -> int:
        """Return the bytes of a segment's file. Raises FileNotFoundError if it was deleted."""
        return self.store.size(self._name(seqs))

    def _file(self, seqs: SeqRange) -> SeqRange:
        """Return the range in the name of the file that has ``seqs``."""
        return self._cut_off.get(seqs, seqs)

    def _name(self, seqs: SeqRange) -> str:
        return segment_name(self._file(seqs))

    def lookup(self, seq: int) -> SeqRange | None:
        """Return the segment that contains ``seq``."""
        with self._lock:
            return self._index.lookup(seq)

    def contiguous_end(self, seq: int) -> int:
        """Return the end of the durable items that follow ``seq`` without a hole."""
        with self._lock:
            return self._index.contiguous_end(seq)

    def end(self) -> int:
        """Return the end of the durable items without a hole."""
        with self._lock:
            first = self._index.first_seq
            return self._index.contiguous_end(max(self._mark, first or 0))

    def resume_at(self, start_seq: int | None, *, is_volatile: bool) -> tuple[int, int]:
        """Return low-water mark and next seq of a writer that continues at ``start_seq``.

        Raises:
            SequenceGapError: not volatile, and ``start_seq`` is past the durable end.
        """
        if is_volatile:
            end = self.end() if start_seq is None else self.contiguous_end(start_seq)
            return self._mark, end
        first = self.first_seq or 0  # above the mark only if earlier items are lost
        first = max(self._mark, first if start_seq is None else min(first, start_seq))
        end = self.contiguous_end(first)
        if start_seq is not None and start_seq > end:
            raise SequenceGapError(self.stream, start_seq, end)
        return first, end

    def holes(self) -> list[SeqRange]:
        """Return the ranges between the lowest and the highest seq that no segment covers."""
        with self._lock:
            return self._index.holes()

    def write(self, items: Items | Cut) -> None:
        """Write ``items`` as a segment. An intact segment of the same name is kept."""
        cut = items if isinstance(items, Cut) else Cut.of([items])
        seqs = SeqRange(cut.first_seq, cut.next_seq, self.generation)
        name = segment_name(seqs)
        if not self._has_complete(seqs):
            data = self._encoder.encode(cut.first_seq, cut.batches, cut.digests)
            try:
                self.store.put(name, data)
            except StoreError:
                self._remove_torn(seqs)
                raise
        with self._listing_lock, self._lock:
            # until now, this range was the valid part of a longer file
            self._cut_off.pop(seqs, None)
            self._index.add(seqs)

    def _has_complete(self, file: SeqRange) -> bool:
        """Return whether this file exists and is complete.

        A put that is not atomic may leave a part of a file.
        """
        if not self.store.exists(segment_name(file)):
            return False
        try:
            self._open(file).close()
        except (CorruptSegmentError, FileNotFoundError):
            return False
        return True

    def set_aside(self, seqs: SeqRange) -> None:
        """Rename a damaged segment, which removes it from the stream but keeps the file."""
        name = self._name(seqs)
        with contextlib.suppress(FileNotFoundError):
            self.store.put(f"{DAMAGED}{name}{ASIDE}", self.store.get(name))
        self._delete(seqs)

    def _set_aside_torn(self) -> None:
        """Rename a segment at the end that is incomplete after a crash."""
        while (seqs := self._last()) is not None and not self._has_complete(self._file(seqs)):
            if not self._is_gone(seqs):
                self.set_aside(seqs)

    def _is_gone(self, seqs: SeqRange) -> bool:
        """Return whether another writer has deleted a segment since the listing.

        If so, list the folder again.
        """
        if self.store.exists(self._name(seqs)):
            return False
        self.refresh()
        return seqs not in self.segments()

    def _last(self) -> SeqRange | None:
        return max(self.segments(), default=None)

    def _remove_torn(self, seqs: SeqRange) -> None:
        """Delete an incomplete segment after a put that failed and was not atomic.

        A complete segment is kept: another writer of the stream has written it and relies on it.
        """
        with contextlib.suppress(StoreError, FileNotFoundError):
            try:
                self._open(seqs).close()
            except CorruptSegmentError:
                self.store.delete(segment_name(seqs))

    def has_below(self, mark: int) -> bool:
        """Return whether :meth:`collect` would delete anything."""
        with self._lock:
            first = self._index.first_seq
            is_above = first is None or first >= mark
            return bool(self._leftovers or (not is_above and self._index.wholly_below(mark)))

    def boundary(self, mark: int) -> int:
        """Return up to where ``collect(mark)`` would delete if the newest segment is kept."""
        with self._lock:
            chain = self._index.chain()
            below = min(mark, chain[-1].lo) if chain else 0
            return max((s.hi for s in self._index.wholly_below(below)), default=self._mark)

    def collect(self, mark: int, *, is_final: bool = True) -> int:
        """Delete segments that are completely below ``mark``; return their number.

        ``is_final`` False: do not persist the mark, because another writer may continue before it.

        Raises:
            StoreError: a deletion failed; the next call deletes the remaining segments.
        """
        with self._collect_lock:
            with self._lock:
                left, doomed = self._leftovers, self._index.wholly_below(mark)
            if not left and not doomed:
                return 0
            if doomed:
                self._mark = max(self._mark, mark)
            if doomed and is_final:
                self._mark = marks.raise_mark(self.store, self._mark, doomed)
            for seqs in left:
                self.store.delete(self._name(seqs))
            self._leftovers = []
            for seqs in doomed:
                self.store.delete(self._name(seqs))
                with self._lock:
                    self._index.remove(seqs)
            return len(left) + len(doomed)

    def delete_covered(self, segments: Sequence[SeqRange]) -> None:
        """Delete the given segments that are completely covered by a longer, intact segment.

        A writer keeps segments of later generations: its own may not count there. It deletes
        none once sealing has started, because sealing lists the segments after that.
        """
        with self._lock:
            own = [seqs for seqs in segments if seqs.generation <= self.generation]
            covers = {seqs: self._index.cover_of(seqs) for seqs in own}
        needed = {cover for cover in covers.values() if cover is not None}
        whole = {cover for cover in needed if self._has_complete(self._file(cover))}
        if not whole or is_closing(self.store):
            return
        for seqs, cover in covers.items():
            if cover in whole:
                self._delete(seqs)

    def _delete(self, seqs: SeqRange) -> None:
        self.store.delete(self._name(seqs))
        with self._listing_lock, self._lock:
            self._index.remove(seqs)

    def finish_collecting(self, background: Background) -> None:
        """Delete segments below the mark that a crash kept from being deleted."""
        if self._leftovers:
            background.submit(lambda: self.collect(self._mark))

    def check(self) -> None:
        """Assert the invariants; for tests."""
        with self._lock:
            self._index.check()
            assert self._mark >= 0, self._mark

    def open(
        self, seqs: SeqRange, columns: Sequence[str] | None = None, *, checked: bool = False
    ) -> SegmentFile:
        """Open one segment. Raises FileNotFoundError if it was deleted, CorruptSegmentError."""
        return self._open(self._file(seqs), columns, checked=checked)

    def _open(
        self, file: SeqRange, columns: Sequence[str] | None = None, *, checked: bool = False
    ) -> SegmentFile:
        name = segment_name(file)
        place = place_of(self.store, name)
        try:
            opened = self.store.open(name)
            return SegmentFile(opened, place, file, columns=columns, checked=checked)
        except CorruptSegmentError:
            return self._open_whole(file, columns)

    def open_whole(self, seqs: SeqRange, columns: Sequence[str] | None = None) -> SegmentFile:
        """Open a verified copy of a segment in memory. It fails if the file is bad."""
        return self._open_whole(self._file(seqs), columns)

    def _open_whole(self, file: SeqRange, columns: Sequence[str] | None) -> SegmentFile:
        name = segment_name(file)
        data = pa.BufferReader(self.store.get(name))
        return SegmentFile(data, place_of(self.store, name), file, columns=columns, checked=True)

    def read_schema(self) -> pa.Schema | None:
        """Return the last segment's item schema; None without segments.

        Raises CorruptSegmentError.
        """
        return self._of_last(lambda file: file.schema)

    def read_form(self) -> TableForm | None:
        """Return the last segment's table form; None: one row per item, or there is no segment."""
        return self._of_last(lambda file: file.form)

    def _of_last(self, look: Callable[[SegmentFile], _Seen]) -> _Seen | None:
        for _ in range(LOOKS_MAX):
            segments = self.segments()
            if not segments:
                return None
            try:
                with contextlib.closing(self.open(segments[-1])) as file:
                    return look(file)
            except FileNotFoundError:  # another writer of the stream has collected the segment
                self.refresh()
        raise StoreError(self.uri, "it lists missing segments")

    def check_schema(self, schema: pa.Schema, *, set_aside_torn: bool = False) -> None:
        """Raise for items with columns that ``schema`` lacks, or for a damaged last segment.

        ``set_aside_torn``: rename a damaged last segment, since its items must be written again.
        """
        if set_aside_torn:
            self._set_aside_torn()
        if (stored := self.read_schema()) is not None and not is_wider(schema, stored):
            raise InvalidBatchError(self.stream, f"{self.uri} holds {stored}, expected {schema}")
