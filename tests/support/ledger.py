"""A destination in memory that tests can disconnect, fence and read: a fake external system."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rvertex.sinks.errors import DeliveryFencedError, DeliveryUnknownError, DestinationError

if TYPE_CHECKING:
    from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress

Row = dict[str, Any]


@dataclass
class Ledger:
    """The data of one partition at a destination: rows, progress and the newest epoch."""

    rows: list[Row] = field(default_factory=list)
    progress: DeliveryProgress | None = None
    epoch: int = 0
    #: Calls to fail next: names of calls; "lost" for a commit whose answer is lost.
    faults: list[str] = field(default_factory=list)
    opens: int = 0
    #: The position of each commit.
    commits: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def connect(self) -> LedgerWriter:
        return LedgerWriter(self)

    def take_fault(self, *names: str) -> str:
        """The next fault, if it is one of ``names``."""
        if self.faults and self.faults[0] in names:
            return self.faults.pop(0)
        return ""


class LedgerWriter:
    """A destination over a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._epoch = 0
        self._pending: list[Row] = []

    def open(self, epoch: int) -> DeliveryProgress | None:
        with self._ledger.lock:
            self._fail_if("open")
            if epoch < self._ledger.epoch:
                raise DeliveryFencedError("ledger", epoch)
            self._ledger.opens += 1
            self._ledger.epoch = self._epoch = epoch
            self._pending = []
            return self._ledger.progress

    def write(self, rows: DeliveredRows) -> None:
        self._fail_if("write")
        assert len(rows.seqs) == rows.table.num_rows
        assert ((rows.first_seq <= rows.seqs) & (rows.seqs < rows.next_seq)).all()
        self._pending += rows.table.to_pylist()

    def commit(self, progress: DeliveryProgress) -> None:
        with self._ledger.lock:
            self._fail_if("commit")
            if self._epoch < self._ledger.epoch:
                raise DeliveryFencedError("ledger", self._epoch)
            self._ledger.rows += self._pending
            self._ledger.progress = progress
            self._ledger.commits.append(progress.next_seq)
            self._pending = []
            if self._ledger.take_fault("lost"):
                raise DeliveryUnknownError("ledger", "the answer was lost")

    def close(self) -> None:
        self._pending = []

    def _fail_if(self, call: str) -> None:
        if self._ledger.take_fault(call):
            raise DestinationError("ledger", f"no {call} for now")
