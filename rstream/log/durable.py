"""The durable part of one stream: its folder of segments and its persisted low-water mark.

The low-water mark is written to ``_low_water_mark`` before the first segment below it is deleted.
So neither a crash in between nor a segment that a slow replica wrote again looks like a hole. A
complete stream has a seal, which names its segments; readers ignore all others.

Invariants: (1) the index holds only segments that exist or existed; if opening a segment shows that
it vanished, the folder is listed again; (2) an intact segment is never overwritten. The writer of
the stream renames a damaged segment, which frees its name; its items then count as lost.
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
from rstream.store.part_files import place_of
from rstream.store.seals import SEAL_NAME, is_closing, sealed_names
from rstream.store.segment_names import SegmentIndex, parse_segment_name, segment_name
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.format.table import TableForm
    from rstream.items.batch import Items
    from rstream.log.background import Background
    from rstream.store.protocol import BlobStore

_Seen = TypeVar("_Seen")
#: Segments that a reader finds deleted, one after the other, before it takes an item for lost.
LOOKS_MAX = 8
#: Around the name of a damaged segment: readers that skip ``_*`` or take ``*.parquet`` ignore it.
DAMAGED, ASIDE = "_damaged-", ".aside"


class DurableLog:
    """Segments of one stream in one folder. Safe to use from many threads."""

    def __init__(
        self,
        store: BlobStore,
        stream: str,
        *,
        schema: pa.Schema | None = None,
        form: TableForm | None = None,
    ) -> None:
        """``schema``: that of the items as files have it; None: that of what is written.

        ``form``: what is written are clean tables.
        """
        self.store = store
        #: What is collected leaves its digest (:mod:`rstream.log.retention`).
        self.keeps_digest = False
        self._encoder = SegmentEncoder(stream, schema, form)
        self.stream = stream
        self._lock = threading.Lock()
        #: Held during a listing, so that the index does not change meanwhile.
        self._listing_lock = threading.Lock()
        self._collect_lock = threading.Lock()
        self._index = SegmentIndex()
        self._mark = 0
        #: Where the stream begins, and the digest of all that was collected of it.
        self.beginning = marks.FROM_THE_START
        #: Segments below the persisted mark: a crash came before their deletion.
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
        """Read the listing again."""
        with self._listing_lock:
            names = self.store.list()
            has_mark, noted = marks.MARK_NAME in names, marks.beginnings(names)
            sealed = sealed_names(self.store) if SEAL_NAME in names else None
            if sealed is not None:
                names = sorted(set(names).intersection(sealed))
            ranges = [seqs for name in names if (seqs := parse_segment_name(name)) is not None]
            if noted and noted[-1] > self.beginning[0]:
                self.beginning = marks.read_beginning(self.store, noted)
            mark = marks.read_mark(self.store, ranges) if has_mark else 0
            mark = max(mark, self.beginning[0])
            with self._lock:
                self._mark = max(self._mark, mark)
                self._index.refresh([s for s in ranges if s.hi > self._mark])
                self._leftovers = [s for s in ranges if s.hi <= mark]

    def segments(self) -> list[SeqRange]:
        """Those that are known, sorted."""
        with self._lock:
            return self._index.segments()

    def layout(self) -> tuple[list[SeqRange], list[SeqRange]]:
        """The segments that reach further than any before them, and those that one of these has."""
        with self._lock:
            return self._index.chain(), self._index.covered()

    def size(self, seqs: SeqRange) -> int:
        """File bytes of a segment. Raises FileNotFoundError if it was deleted."""
        return self.store.size(segment_name(seqs))

    def lookup(self, seq: int) -> SeqRange | None:
        """The segment that holds ``seq``."""
        with self._lock:
            return self._index.lookup(seq)

    def contiguous_end(self, seq: int) -> int:
        """The end of what is durable without a hole from ``seq`` on."""
        with self._lock:
            return self._index.contiguous_end(seq)

    def end(self) -> int:
        """The end of the contiguous durable part."""
        with self._lock:
            first = self._index.first_seq
            return self._index.contiguous_end(max(self._mark, first or 0))

    def resume_at(self, start_seq: int | None, *, is_volatile: bool) -> tuple[int, int]:
        """The low-water mark, and the next seq to write, of a writer that goes on at ``start_seq``.

        Raises:
            SequenceGapError: it would leave a gap after what is durable; a volatile stream may.
        """
        if is_volatile:
            end = self.end() if start_seq is None else self.contiguous_end(start_seq)
            return self._mark, end
        first = self.first_seq or 0  # above the mark only if what was there is gone
        first = max(self._mark, first if start_seq is None else min(first, start_seq))
        end = self.contiguous_end(first)
        if start_seq is not None and start_seq > end:
            raise SequenceGapError(self.stream, start_seq, end)
        return first, end

    def holes(self) -> list[SeqRange]:
        """Ranges that no segment has, between the lowest and the highest seq."""
        with self._lock:
            return self._index.holes()

    def write(self, items: Items | Cut) -> None:
        """Make a segment of ``items``; what is there under its name already stays."""
        cut = items if isinstance(items, Cut) else Cut.of([items])
        seqs = SeqRange(cut.first_seq, cut.next_seq)
        name = segment_name(seqs)
        if not self._has_complete(seqs):
            data = self._encoder.encode(cut.first_seq, cut.batches, cut.digests)
            try:
                self.store.put(name, data)
            except StoreError:
                self._remove_torn(seqs)
                raise
        with self._listing_lock, self._lock:
            self._index.add(seqs)

    def _has_complete(self, seqs: SeqRange) -> bool:
        """Whether there is such a segment, not half of one (where puts are not atomic)."""
        if not self.store.exists(segment_name(seqs)):
            return False
        try:
            self.open(seqs).close()
        except (CorruptSegmentError, FileNotFoundError):
            return False
        return True

    def set_aside(self, seqs: SeqRange) -> None:
        """Take a damaged segment out of the stream; what is left of it lies beside."""
        name = segment_name(seqs)
        with contextlib.suppress(FileNotFoundError):
            self.store.put(f"{DAMAGED}{name}{ASIDE}", self.store.get(name))
        self._delete(seqs)

    def _set_aside_torn(self) -> None:
        """Set aside what a crash has left half written at the end."""
        while (seqs := self._last()) is not None and not self._has_complete(seqs):
            if not self._is_gone(seqs):
                self.set_aside(seqs)

    def _is_gone(self, seqs: SeqRange) -> bool:
        """Whether another writer has collected a segment since it was listed; lists again if so."""
        if self.store.exists(segment_name(seqs)):
            return False
        self.refresh()
        return seqs not in self.segments()

    def _last(self) -> SeqRange | None:
        return max(self.segments(), default=None)

    def _remove_torn(self, seqs: SeqRange) -> None:
        """After a put that failed: where puts are not atomic, half a segment may be there.

        A whole one stays: another writer of the stream has put it, and counts on it.
        """
        with contextlib.suppress(StoreError, FileNotFoundError):
            try:
                self.open(seqs).close()
            except CorruptSegmentError:
                self.store.delete(segment_name(seqs))

    def has_below(self, mark: int) -> bool:
        """Whether :meth:`collect` would delete anything."""
        with self._lock:
            first = self._index.first_seq
            if first is None or first >= mark:
                return bool(self._leftovers)
            return bool(self._leftovers or self._index.wholly_below(mark))

    def boundary(self, mark: int) -> int:
        """The end of what goes if ``mark`` is collected and the newest segment stays."""
        with self._lock:
            chain = self._index.chain()
            below = min(mark, chain[-1].lo) if chain else 0
            return max((s.hi for s in self._index.wholly_below(below)), default=self._mark)

    def collect(self, mark: int, *, is_final: bool = True) -> int:
        """Delete segments wholly below ``mark``; returns how many.

        ``is_final`` False: another writer may go on further back, so the mark is not persisted.

        Raises:
            StoreError: a deletion failed; the rest is deleted by the next call.
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
                self.store.delete(segment_name(seqs))
            self._leftovers = []
            for seqs in doomed:
                self.store.delete(segment_name(seqs))
                with self._lock:
                    self._index.remove(seqs)
            return len(left) + len(doomed)

    def delete_covered(self, segments: Sequence[SeqRange]) -> None:
        """Delete those of these segments of which a longer one, that is whole, holds all.

        None if somebody has begun to seal the stream: whoever does, lists the segments after that.
        """
        with self._lock:
            covers = {seqs: self._index.cover_of(seqs) for seqs in segments}
        whole = {
            cover for cover in covers.values() if cover is not None and self._has_complete(cover)
        }
        if not whole or is_closing(self.store):
            return
        for seqs, cover in covers.items():
            if cover in whole:
                self._delete(seqs)

    def _delete(self, seqs: SeqRange) -> None:
        self.store.delete(segment_name(seqs))
        with self._listing_lock, self._lock:
            self._index.remove(seqs)

    def finish_collecting(self, background: Background) -> None:
        """Delete what a crash has left below the mark."""
        if self._leftovers:
            background.submit(lambda: self.collect(self._mark))

    def check(self) -> None:
        """Assert the invariants."""
        with self._lock:
            self._index.check()
            assert self._mark >= 0, self._mark

    def open(
        self, seqs: SeqRange, columns: Sequence[str] | None = None, *, checked: bool = False
    ) -> SegmentFile:
        """Open one segment. Raises FileNotFoundError if it was deleted, CorruptSegmentError."""
        name, place = segment_name(seqs), place_of(self.store, segment_name(seqs))
        try:
            file = self.store.open(name)
            return SegmentFile(file, place, seqs, columns=columns, checked=checked)
        except CorruptSegmentError:
            return self.open_whole(seqs, columns)

    def open_whole(self, seqs: SeqRange, columns: Sequence[str] | None = None) -> SegmentFile:
        """The same of a fresh copy in memory, checked: tells a bad read from a bad file."""
        name, place = segment_name(seqs), place_of(self.store, segment_name(seqs))
        data = pa.BufferReader(self.store.get(name))
        return SegmentFile(data, place, seqs, columns=columns, checked=True)

    def read_schema(self) -> pa.Schema | None:
        """The item schema of the last segment; None: none is there. Raises CorruptSegmentError."""
        return self._of_last(lambda file: file.schema)

    def read_form(self) -> TableForm | None:
        """The table form of the last segment; None: a row for every item, or no segment."""
        return self._of_last(lambda file: file.form)

    def _of_last(self, look: Callable[[SegmentFile], _Seen]) -> _Seen | None:
        for _ in range(LOOKS_MAX):
            segments = self.segments()
            if not segments:
                return None
            try:
                with contextlib.closing(self.open(segments[-1])) as file:
                    return look(file)
            except FileNotFoundError:  # another writer of the stream has collected it
                self.refresh()
        raise StoreError(self.uri, "it lists segments that are not there")

    def check_schema(self, schema: pa.Schema, *, set_aside_torn: bool = False) -> None:
        """Refuse items with columns that ``schema`` lacks, or a damaged last segment.

        ``set_aside_torn``: set it aside; its items must be written again.
        """
        if set_aside_torn:
            self._set_aside_torn()
        if (found := self.read_schema()) is not None and not is_wider(schema, found):
            raise InvalidBatchError(self.stream, f"{self.uri} holds {found}, expected {schema}")


class SegmentCursor:
    """Reads the durable part forward, one row group at a time. Owned by one reader."""

    def __init__(
        self, log: DurableLog, *, columns: Sequence[str] | None = None, verify: bool = True
    ) -> None:
        self._log = log
        self._columns = columns
        self._verify = verify
        self._file: SegmentFile | None = None
        self._rest: Items | None = None

    def read(self, seq: int, items_max: int) -> Items | None:
        """Items from ``seq`` on, at most ``items_max``; None if no segment has ``seq``."""
        rest = self._rest
        if rest is None or not rest.first_seq <= seq < rest.next_seq:
            rest = self._load(seq)
            if rest is None:
                self.close()
                return None
        rest = rest.from_seq(seq)
        taken = rest.head(items_max)
        self._rest = rest.from_seq(taken.next_seq)
        return taken

    def close(self) -> None:
        """Release the open file."""
        self._rest = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _load(self, seq: int) -> Items | None:
        """The row group from ``seq`` on; the listing is read again if its segment is not there."""
        for attempt in range(LOOKS_MAX):
            if attempt:
                self.close()
                self._log.refresh()
            try:
                if self._file is None or seq not in self._file.info.seqs:
                    self.close()
                    seqs = self._log.lookup(seq)
                    if seqs is None and attempt:
                        return None
                    if seqs is None:
                        continue
                    self._file = self._log.open(seqs, self._columns)
                return self._read_group(self._file, seq)
            except FileNotFoundError:
                continue
        return None

    def _read_group(self, file: SegmentFile, seq: int) -> Items:
        try:
            return file.read_group(seq, verify=self._verify)
        except CorruptSegmentError:  # or a read that went wrong: look at a fresh copy
            self.close()
            self._file = self._log.open_whole(file.info.seqs, self._columns)
            return self._file.read_group(seq, verify=self._verify)
