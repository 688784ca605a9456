"""Retention of a job's output streams: its result, late rows and dead letters.

Theory of operation. Every ``retention_look_s`` a thread lists the files of these streams. It notes
how far each stream is durable, and when. These notes show which items are older than the retention.
Items may be deleted once every delivery has delivered them and every open subscription has read
them. The job manager sends low-water marks to the writers. They delete whole segments and keep the
digest of deleted items (:mod:`rstream.log.retention`). The notes are stored in ``retention.json``;
without that file all items count as new.

If rows begin and end, a copy of the live rows replaces deleted items (:mod:`rstream.current`). So
the current table can be read with any retention.

Invariants: (1) no item is deleted that a delivery of the query needs, or a delivery of another
process that has reported its position within ``reader_wait_s``; (2) no item is deleted that is
younger than the retention by the wall clock; (3) each mark, copy and note stays true, so it does no
harm if a replaced job manager writes one; (4) items of an output with begins and ends are deleted
only below a durable copy. Items of side outputs whose vertex no longer exists are deleted here.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobmanager.config import KEEP_ALL
from jobmanager.delivery.ages import Ages
from jobmanager.delivery.claim import recorded_positions
from jobmanager.delivery.wiring import ThreadWiring
from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    read_json_document,
)
from rstream.current import CurrentRows, RowCopies
from rstream.errors import OperatingError, StreamEngineError
from rstream.log.durable import DurableLog
from rstream.log.retention import collect
from rstream.store.blobs import unsynced
from rstream.store.part_files import part_uri, parts_in
from rvertex.events.side_output import DEAD_LETTERS, LATE
from rvertex.messages import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jobmanager.config import JobConfig
    from jobmanager.delivery.wiring import DeliveryWiring, Task
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore

_log = logging.getLogger(__name__)
AGES = "retention.json"
OUTPUT = "output"
_JOIN_WAIT_S = 10.0


@dataclass
class _Kept:
    """One stream and its retention state."""

    stream: str
    uri: str
    #: "output", or the name of a side output.
    name: str
    partition: int
    retention_us: int
    ages: Ages
    #: Whether a change of the job has removed its vertex, so that no writer deletes its items.
    is_former: bool = False
    log: DurableLog | None = None
    #: The low-water mark that was last sent to the writer, which deletes items below it.
    mark: int = 0
    #: If rows begin and end: the copies of live rows; and the content of the newest copy.
    copies: RowCopies | None = None
    current: CurrentRows | None = None
    copied_seq: int = 0


class OutputRetention:
    """Runs the retention of a job in a thread, if any stream has a retention."""

    def __init__(
        self,
        plan: PhysicalPlan,
        store: BlobStore,
        config: JobConfig,
        *,
        needed: Callable[[], Mapping[int, int]],
        tell: Callable[[tuple[Mark, ...]], None],
        wiring: DeliveryWiring | None = None,
    ) -> None:
        """Prepare the retention of ``plan``. ``store``: the store of the job's root.

        ``needed``: returns per partition of the result the smallest seq that this process still
        needs, without partitions that it does not read. ``tell``: receives the marks below which
        items of streams may be deleted.
        """
        self._store, self._config, self._root = store, config, plan.root
        self._needed, self._tell = needed, tell
        self._wiring = wiring or ThreadWiring()
        self._clock = self._wiring.clock
        self._streams = [
            _Kept(stream, uri, OUTPUT, k, config.retention_us, Ages())
            for k, (stream, uri) in enumerate(plan.sink_streams())
        ]
        for name, pairs in plan.side_streams().items():
            self._streams += [
                _Kept(stream, uri, name, k, config.side_retention_us, Ages())
                for k, (stream, uri) in enumerate(pairs)
            ]
        self._streams = [kept for kept in self._streams if kept.retention_us != KEEP_ALL]
        with_edges = [output for output in plan.of_outputs if output.changes is not None]
        has_edges = {stream for output in with_edges for stream, _ in output.sink_streams()}
        for kept in self._streams:
            if kept.stream in has_edges:
                kept.copies = RowCopies(store, kept.stream)
        #: The uris of the plan's side streams. The thread looks up the streams of former plans.
        self._sides = {uri for pairs in plan.side_streams().values() for _, uri in pairs}
        self._knows_former = config.side_retention_us == KEEP_ALL
        #: Number of readers that are being opened. No low-water mark moves while it is above 0. The
        #: lock guards this number and the sending of low-water marks.
        self._opening, self._lock = 0, threading.Lock()
        self._over, self._is_stopped = self._wiring.signal(), False
        self._task: Task | None = None
        self._is_remembered = False

    def start(self) -> None:
        """Start the thread, which calls :meth:`look` periodically until :meth:`stop`."""
        if self._streams or not self._knows_former:
            self._task = self._wiring.start("retention", self._run)

    def stop(self) -> None:
        """Stop the thread."""
        self._is_stopped = True
        self._over.set()
        if self._task is not None:
            self._task.join(_JOIN_WAIT_S)

    def look(self) -> None:
        """Compute the low-water marks of all streams, and send them to the writers.

        Raises:
            StreamEngineError: a store failed; the next call tries again.
        """
        self._find_former()
        if not self._is_remembered:  # load the file first, because new notes replace it
            self._remember()
        has_news = False
        for kept in self._streams:
            if kept.log is None:
                kept.log = DurableLog(self._wiring.open_store(kept.uri), kept.stream)
                kept.log.keeps_digest = kept.is_former
            else:
                kept.log.refresh()
            # Read the clock after the listing, because items became durable while the store was
            # listed.
            now_us = self._clock.now_us()
            has_news = kept.ages.note(now_us, kept.log.end(), kept.retention_us) or has_news
        if has_news:
            points = {kept.stream: kept.ages.points for kept in self._streams}
            unsynced(self._store).put(AGES, json_document({"points": points}))
        now_us = self._clock.now_us()
        reported = recorded_positions(self._store, now_us - int(self._config.reader_wait_s * 1e6))
        for kept, mark in zip(self._streams, self._marks(now_us, reported), strict=True):
            if kept.copies is not None:
                self._copy(kept, kept.copies, mark)
        with self._lock:
            if not self._opening:
                for kept, mark in zip(self._streams, self._marks(now_us, reported), strict=True):
                    below = mark if kept.copies is None else min(mark, kept.copied_seq)
                    kept.mark = max(kept.mark, below)
        written = [kept for kept in self._streams if not kept.is_former]
        marks = tuple(Mark(kept.stream, kept.mark) for kept in written if kept.mark)
        if marks:
            self._tell(marks)  # send them even if unchanged, because an instance may be new
        for kept in self._streams:
            if kept.is_former and kept.log is not None:
                collect(kept.log, kept.mark)

    @contextlib.contextmanager
    def opening(self) -> Iterator[dict[int, int]]:
        """Open a reader of the result in this context. Meanwhile no low-water mark moves.

        Yields the mark of each partition. Items below it may be deleted at any time.
        """
        with self._lock:
            self._opening += 1
            marks = {kept.partition: kept.mark for kept in self._streams if kept.name == OUTPUT}
        try:
            yield marks
        finally:
            with self._lock:
                self._opening -= 1

    def rows(self) -> list[dict[str, Any]]:
        """Return a status row per stream: the seq from which on its items are kept. JSON types."""
        return [
            {
                "output": kept.name,
                "partition": kept.partition,
                "kept_from_seq": 0 if kept.log is None else kept.log.mark,
                "kept_from_us": None if kept.log is None else kept.ages.since_us(kept.log.mark),
            }
            for kept in self._streams
            if not kept.is_former
        ]

    def _find_former(self) -> None:
        """Add the side streams of vertices that a change of the job has removed, once."""
        if self._knows_former:
            return
        former: list[_Kept] = []
        paths = [path for name in (LATE, DEAD_LETTERS) for path in self._store.list(name)]
        for folder in dict.fromkeys(path.rpartition("/")[0] for path in paths):
            for part in parts_in(self._store.child(folder)):
                uri = part_uri(f"{self._root}/{folder}", part)
                if uri not in self._sides:
                    name, keep_us = f"{folder}/{part}", self._config.side_retention_us
                    kept = _Kept(name, uri, folder, -1, keep_us, Ages(), is_former=True)
                    former.append(kept)
        self._streams += former
        self._knows_former, self._is_remembered = True, False

    def _run(self) -> None:
        while True:  # ends when stopped
            self._over.wait(self._config.retention_look_s)
            if self._is_stopped:
                return
            try:
                self.look()
            except OperatingError as error:
                _log.info("retention waits: %s", error)
            except StreamEngineError as error:
                _log.warning("retention: %s", error)

    def _remember(self) -> None:
        """Load the notes of a predecessor from ``retention.json``."""
        try:
            points = read_json_document(self._store.get(AGES))["points"]
        except (FileNotFoundError, BrokenDocumentError, KeyError):
            points = {}
        self._is_remembered = True
        for kept in (one for one in self._streams if not one.ages.points):
            kept.ages.points = [(at, seq) for at, seq in points.get(kept.stream, ())]

    def _marks(self, now_us: int, reported: Mapping[int, int]) -> list[int]:
        """Return per stream the seq below which no item is needed.

        ``reported``: the positions that deliveries of other processes have reported, per partition.
        """
        here = self._needed()
        marks = []
        for kept in self._streams:
            mark = kept.ages.mark(now_us - kept.retention_us)
            if kept.retention_us == 0 and kept.log is not None:
                mark = kept.log.end()
            if kept.name == OUTPUT:
                needed = [m[kept.partition] for m in (reported, here) if kept.partition in m]
                # A delivery reads its last delivered item again, because it may be the end of the
                # stream.
                mark = min([mark, *(max(seq - 1, 0) for seq in needed)])
            marks.append(mark)
        return marks

    def _copy(self, kept: _Kept, copies: RowCopies, mark: int) -> None:
        """Copy the rows that are alive after all items below ``mark``, if enough items are new.

        The cost of a copy is proportional to the number of live rows, so there must be at least
        that many new items.
        """
        if kept.current is None:
            kept.current = copies.newest() or CurrentRows()
            kept.copied_seq = kept.current.seq
        rows = 0 if kept.current.rows is None else kept.current.rows.num_rows
        if mark - kept.copied_seq < max(rows, self._config.table_copy_items_min):
            return
        kept.current.advance(self._wiring.open_store(kept.uri), upto_seq=mark)
        copies.put(kept.current)
        kept.copied_seq = kept.current.seq
