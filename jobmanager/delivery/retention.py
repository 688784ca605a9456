"""Retention of what a job puts out: its answer, late rows and dead letters.

Theory of operation. A thread looks now and then at the listings of these streams. From when it saw
how far each was durable follows what is older than the retention. Of that may go what every
delivery has delivered, and every open subscription has read. The job manager tells the writers,
which delete whole segments and keep the digest of what is gone (:mod:`rstream.log.retention`). What
was seen when is kept in ``retention.json``; without it streams count as new.

Where rows have begins and ends, a copy of the living rows stands for deleted items
(:mod:`rstream.current`), so the current table can be read with any retention.

Invariants: (1) nothing goes that a delivery of the query needs, or one of another process that has
told its position lately; (2) nor what is younger than the retention, by the wall clock; (3) all
that is told or written here states a fact that stays true: it does no harm if a job manager does it
that was replaced; (4) items with edges go only below a copy that is durable.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobmanager.config import KEEP_ALL
from jobmanager.delivery.ages import Ages
from jobmanager.delivery.claim import told_positions
from jobmanager.delivery.wiring import ThreadWiring
from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    read_json_document,
)
from rstream.current import CurrentRows, RowCopies
from rstream.errors import OperatingError, StreamEngineError
from rstream.log.durable import DurableLog
from rstream.store.blobs import unsynced
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
    """One stream and what of it is kept."""

    stream: str
    uri: str
    #: "output", or the name of a side output.
    name: str
    partition: int
    retention_us: int
    ages: Ages
    log: DurableLog | None = None
    #: What writers were told.
    mark: int = 0
    #: Of an output with edges: its copies, and the living rows of the newest one.
    copies: RowCopies | None = None
    current: CurrentRows | None = None
    copied_seq: int = 0


class OutputRetention:
    """Started once; it does nothing unless something is to go."""

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
        """``store``: that of the job's root.

        ``needed``: by partition of the answer the least seq that this process still needs, for
        those where it needs any. ``tell``: takes marks below which streams may be collected.
        """
        self._store, self._config = store, config
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
        #: How many readers are being opened. The lock guards it, and what writers are told by it.
        self._opening, self._lock = 0, threading.Lock()
        self._over, self._is_stopped = self._wiring.signal(), False
        self._task: Task | None = None

    def start(self) -> None:
        """Look now and then, until :meth:`stop`."""
        if self._streams:
            self._task = self._wiring.start("retention", self._run)

    def stop(self) -> None:
        """Look no more."""
        self._is_stopped = True
        self._over.set()
        if self._task is not None:
            self._task.join(_JOIN_WAIT_S)

    def look(self) -> None:
        """See what may go, and have it collected.

        Raises:
            StreamEngineError: a store failed; the next look goes on.
        """
        has_news = False
        for kept in self._streams:
            if kept.log is None:
                kept.log = DurableLog(self._wiring.open_store(kept.uri), kept.stream)
            else:
                kept.log.refresh()
            now_us = self._clock.now_us()  # not before: items came while the store was listed
            has_news = kept.ages.note(now_us, kept.log.end(), kept.retention_us) or has_news
        if has_news:
            points = {kept.stream: kept.ages.points for kept in self._streams}
            unsynced(self._store).put(AGES, json_document({"points": points}))
        now_us = self._clock.now_us()
        told = told_positions(self._store, now_us - int(self._config.reader_wait_s * 1e6))
        for kept, mark in zip(self._streams, self._marks(now_us, told), strict=True):
            if kept.copies is not None:
                self._copy(kept, kept.copies, mark)
        with self._lock:
            if not self._opening:
                for kept, mark in zip(self._streams, self._marks(now_us, told), strict=True):
                    below = mark if kept.copies is None else min(mark, kept.copied_seq)
                    kept.mark = max(kept.mark, below)
        marks = tuple(Mark(kept.stream, kept.mark) for kept in self._streams if kept.mark)
        if marks:
            self._tell(marks)  # again and again: an instance may be new

    @contextlib.contextmanager
    def opening(self) -> Iterator[dict[int, int]]:
        """While a reader of the answer is opened, that is not known yet, nothing more may go.

        Gives by partition below which seq what is still there may go at any time.
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
        """For statuses: from where on each stream is kept; JSON types."""
        return [
            {
                "output": kept.name,
                "partition": kept.partition,
                "kept_from_seq": 0 if kept.log is None else kept.log.mark,
                "kept_from_us": None if kept.log is None else kept.ages.since_us(kept.log.mark),
            }
            for kept in self._streams
        ]

    def _run(self) -> None:
        is_remembered = False
        while True:  # until stopped
            self._over.wait(self._config.retention_look_s)
            if self._is_stopped:
                return
            try:
                if not is_remembered:
                    self._remember()
                    is_remembered = True
                self.look()
            except OperatingError as error:
                _log.info("retention waits: %s", error)
            except StreamEngineError as error:
                _log.warning("retention: %s", error)

    def _remember(self) -> None:
        """Take up what a predecessor has seen."""
        try:
            points = read_json_document(self._store.get(AGES))["points"]
        except (FileNotFoundError, BrokenDocumentError, KeyError):
            return
        for kept in self._streams:
            kept.ages.points = [(at, seq) for at, seq in points.get(kept.stream, ())]

    def _marks(self, now_us: int, told: Mapping[int, int]) -> list[int]:
        """Below these seqs nothing of each stream is needed. ``told``: by other processes."""
        here = self._needed()
        marks = []
        for kept in self._streams:
            mark = kept.ages.mark(now_us - kept.retention_us)
            if kept.retention_us == 0 and kept.log is not None:
                mark = kept.log.end()
            if kept.name == OUTPUT:
                needed = [m[kept.partition] for m in (told, here) if kept.partition in m]
                # The last item that was delivered is read again: it may be the end.
                mark = min([mark, *(max(seq - 1, 0) for seq in needed)])
            marks.append(mark)
        return marks

    def _copy(self, kept: _Kept, copies: RowCopies, mark: int) -> None:
        """Copy the rows that are alive after the items below ``mark``, if that is worth it.

        A copy costs time in the living rows, so it waits for as many new items.
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
