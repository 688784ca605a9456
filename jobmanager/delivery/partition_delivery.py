"""Delivers one partition of an output to one place of a destination.

The thread of a :class:`PartitionDelivery` reads what the output has, without waiting for a flush or
a checkpoint, and commits rows together with its progress. After any failure it opens the
destination again, which says how far it is, and goes on there. Why each row arrives once:
docs/adr/0033-delivery.md. With dead letters, a refused commit is tried again with half of its rows,
and so on, until one row is refused: that row is stored and left out. Of several rows of one instant
all beginnings are stored.

Invariants: (1) rows are written in the order of the partition, and only above the position that the
destination told, which the output has been checked against; (2) nobody waits for a delivery: it
reads from bounded buffers, and beyond them from Parquet; (3) an error of the destination never ends
the job: it shows as this delivery's state.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from jobmanager.delivery.output_tap import LOOK_INTERVAL_S
from rstream.errors import OperatingError, StreamEngineError
from rvertex.sinks.errors import (
    DeliveryBegunError,
    DeliveryFencedError,
    DeliveryForgottenError,
    RowsRefusedError,
    TooManyRefusedError,
)
from rvertex.sinks.protocol import DeliveryProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.delivery.checked_output import CheckedOutput
    from jobmanager.delivery.claim import DeliveryClaim
    from jobmanager.delivery.clean_rows import CleanRows
    from jobmanager.delivery.refused_rows import RefusedRows
    from jobmanager.delivery.wiring import Signal
    from rstream import Items
    from rstream.clock import Clock
    from rvertex.sinks.limits import DeliveryLimits
    from rvertex.sinks.protocol import DeliveredRows, Destination

_log = logging.getLogger(__name__)

DeliveryState = Literal[
    "opening",  # asks the destination how far it is
    "checking",  # reads again what was delivered, and compares digests
    "delivering",
    "waiting",  # the destination failed; tried again after a pause
    "finished",  # all of a complete output is delivered
    "stopped",  # the job ended before its output was complete, or was cancelled
    "fenced",  # another process delivers
    "failed",
]
#: A commit is at most so many intervals late while there is more to read.
INTERVALS_MAX = 4
#: States that a delivery does not leave.
ENDED: tuple[DeliveryState, ...] = ("finished", "stopped", "fenced", "failed")


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """Where a delivery stands, for statuses."""

    state: DeliveryState = "opening"
    #: All items below are delivered.
    delivered_seq: int = 0
    #: Rows and commits of this process.
    rows: int = 0
    commits: int = 0
    #: Rows in the dead letters of this partition, of all processes.
    refused: int = 0
    #: Why it waits or has failed.
    error: str = ""


class PartitionDelivery:
    """Body and state of one delivering thread."""

    def __init__(
        self,
        *,
        label: str,
        connect: Callable[[], Destination],
        output: CheckedOutput,
        rows: CleanRows,
        claim: DeliveryClaim,
        has_ended: Callable[[], bool],
        wake: Signal,
        clock: Clock,
        limits: DeliveryLimits,
        start_seq: int = 0,
        refused: RefusedRows | None = None,
    ) -> None:
        """``has_ended``: nobody writes the output any more. ``wake``: set if there is news.

        ``refused``: where refused rows go; None: the first one ends the delivery.
        """
        self._label = label
        self._connect = connect
        self._output = output
        self._clean = rows
        self._claim = claim
        self._has_ended = has_ended
        self._wake = wake
        self._limits = limits
        self._start_seq = start_seq
        self._clock = clock
        self._is_stopped = self._is_hurried = False
        self._destination: Destination | None = None
        #: Rows written since the last commit, and when that began (monotonic seconds).
        self._pending_rows = 0
        #: These rows, where refused ones are put aside.
        self._pending: list[DeliveredRows] = []
        self._refused = refused
        #: A commit takes no more rows; fewer while a refused one is looked for.
        self._rows_max = limits.commit_rows_max
        self._committed_s = float("-inf")
        self._retry_s = limits.retry_pause_s
        self.state: DeliveryState = "opening"
        self._delivered_seq = self._rows = self._commits = 0
        self._error = ""

    def view(self) -> DeliveryView:
        """Where it stands; from any thread."""
        refused = 0 if self._refused is None else self._refused.rows
        return DeliveryView(
            self.state, self._delivered_seq, self._rows, self._commits, refused, self._error
        )

    def stop(self) -> None:
        """Ask it to end soon; from any thread."""
        self._is_stopped = True
        self._wake.set()

    def hurry(self) -> None:
        """Have it end its pause, if it makes one; from any thread."""
        self._is_hurried = True
        self._wake.set()

    def run(self) -> None:
        """Deliver until the output is complete, or nothing more can be done."""
        try:
            while self.state not in ENDED:
                self._try()
        except Exception as error:  # our bug, or an error of a client that nobody foresaw
            self._fail(error)
            _log.exception("delivery failed", extra={"delivery": self._label})
        finally:
            self._release()
            self._output.close()

    def _try(self) -> None:
        try:
            self._open()
            self._deliver()
        except DeliveryFencedError as error:
            if self._is_still_mine():  # one that was before us opened the destination once more
                self._claim.epoch = 0
                self._pause(error)
            else:
                self.state, self._error = "fenced", str(error)
        except OperatingError as error:
            self._pause(error)
        except RowsRefusedError as error:
            self._put_aside(error)
        except StreamEngineError as error:
            if self._claim.epoch and not self._is_still_mine():
                # It slept, and what it needs may be gone since: its successor had it.
                fenced = DeliveryFencedError(self._label, self._claim.epoch)
                self.state, self._error = "fenced", str(fenced)
                return
            self._fail(error)
            _log.error("delivery failed", extra={"delivery": self._label, "reason": str(error)})

    def _open(self) -> None:
        self._release()
        self.state = "opening"
        begins = self._claim.begins(self._start_seq)
        if self._start_seq and self._start_seq != begins:  # refused before it replaces anybody
            raise DeliveryBegunError(self._label, begins)
        if self._claim.epoch == 0:
            self._claim.take(self._clock.now_us())
        self._destination = self._connect()
        found = self._destination.open(self._claim.epoch)
        if not self._claim.is_newest():
            raise DeliveryFencedError(self._label, self._claim.epoch)
        if found is None:
            if self._claim.has_begun():
                raise DeliveryForgottenError(self._label)
            self._output.seek(begins, None)
        else:
            self._output.seek(found.next_seq, found.digest)
            self._delivered_seq = found.next_seq
        self._pending_rows, self._pending = 0, []
        if self._refused is not None:
            self._refused.load()

    def _deliver(self) -> None:
        while not self._is_stopped:  # until the output is over
            self._wake.clear()
            has_ended = self._has_ended()
            left = max(self._rows_max - self._pending_rows, 1)
            items = self._output.read(has_ended, left)
            self.state = "checking" if self._output.is_checking else "delivering"
            if items is not None:
                self._write(items)
            wait_s = self._commit_if_due(is_idle=items is None)
            if self._output.is_over:
                self._finish()
                return
            if items is None and has_ended:
                if self._pending_rows and not self._output.is_checking:
                    self._commit()
                break  # what would be checked or delivered never comes
            if items is None:
                if not self._pending_rows and not self._output.is_checking:
                    self._error = ""  # the destination answers, and has all there is
                self._wake.wait(wait_s)
        self.state = "stopped"

    def _write(self, items: Items) -> None:
        rows = self._clean.of(items)
        if rows is not None and self._refused is not None:
            rows = self._without_refused(rows, self._refused)
        if rows is not None:
            assert self._destination is not None
            rows = self._clean.with_op(rows)
            self._pending_rows += rows.table.num_rows
            if self._refused is not None:
                self._pending.append(rows)
            self._destination.write(rows)

    def _without_refused(self, rows: DeliveredRows, refused: RefusedRows) -> DeliveredRows | None:
        """The rows without those in the dead letters, and without the ends of such."""
        kept = rows.without(refused.seqs)
        if kept is None or kept.ends is None:
            return kept
        ends = np.flatnonzero(kept.ends)
        hashes = self._clean.identities(kept.table.take(pa.array(ends)))
        left_out = refused.begun(hashes)
        if left_out and not self._claim.is_newest():
            raise DeliveryFencedError(self._label, self._claim.epoch)
        for place in left_out:
            refused.add_end(int(kept.seqs[ends[place]]), hashes[place])
        return kept.without(refused.seqs) if left_out else kept

    def _commit_if_due(self, *, is_idle: bool) -> float:
        """Commit what is due; gives how long there is nothing to do unless there is news."""
        since_s = self._clock.monotonic_s() - self._committed_s
        if self._output.is_checking:  # the writer was replaced after rows were written
            return LOOK_INTERVAL_S
        if self._pending_rows:
            interval_s = self._limits.commit_interval_ms / 1e3
            # While there is more to read it goes into the same commit: a tail gives small pieces,
            # and a commit for each would fall behind.
            wait_s = interval_s if is_idle else INTERVALS_MAX * interval_s
            if since_s < wait_s and self._pending_rows < self._rows_max:
                return max(interval_s - since_s, 0.0)
            self._commit()
        elif is_idle and self._is_progress_due(since_s):
            self._commit()
        return LOOK_INTERVAL_S

    def _is_progress_due(self, since_s: float) -> bool:
        """Whether a commit without rows is due, so long after the last one."""
        limits = self._limits
        if self._is_ahead():
            return since_s >= limits.progress_interval_s
        return self._commits > 0 and since_s >= limits.reminder_interval_s

    def _is_ahead(self) -> bool:
        """Whether more was read than is delivered, though there may be no rows in it."""
        return self._output.next_seq > self._delivered_seq

    def _commit(self) -> None:
        assert self._destination is not None
        progress = DeliveryProgress(self._output.next_seq, self._output.digest)
        self._committed_s = self._clock.monotonic_s()
        self._destination.commit(progress)
        self._claim.note_begun()
        self._delivered_seq = progress.next_seq
        self._rows += self._pending_rows
        self._commits += 1
        self._pending_rows, self._pending = 0, []
        self._rows_max = min(2 * self._rows_max, self._limits.commit_rows_max)
        self._retry_s, self._error = self._limits.retry_pause_s, ""

    def _finish(self) -> None:
        if self._pending_rows or self._is_ahead():
            self._commit()
        self.state, self._error = "finished", ""

    def _put_aside(self, error: RowsRefusedError) -> None:
        """Store the refused row if it is known which one, else look for it in a smaller commit."""
        refused, rows, pending = self._refused, self._pending_rows, self._pending
        suspects = [
            (part, int(at))
            for part in pending
            for at in part.rows_within(error.first_seq, error.next_seq)
        ]
        if refused is None or not suspects:
            self._fail(error)
            return
        self._release()
        if len(suspects) > 1 and self._rows_max > 1:
            self._rows_max = max(min(rows, self._rows_max) // 2, 1)
            return
        # An instant is never cut: blame its beginnings, or all of its rows if none begins.
        blamed = [(part, at) for part, at in suspects if not part.is_end(at)] or suspects
        if refused.rows + len(blamed) > self._limits.refused_rows_max:
            self._fail(TooManyRefusedError(self._label, refused.rows, error.reason))
            return
        reason = error.reason
        if len(blamed) > 1:
            reason += f" (of this or another of {len(blamed)} rows of one instant)"
        try:
            if not self._claim.is_newest():
                raise DeliveryFencedError(self._label, self._claim.epoch)
            for part, at in blamed:
                row, is_end = part.table.slice(at, 1), part.is_end(at)
                may_end = self._clean.has_edges and not is_end
                refused.add(
                    int(part.seqs[at]),
                    row,
                    reason,
                    is_end=is_end,
                    now_us=self._clock.now_us(),
                    begins=self._clean.identities(row)[0] if may_end else None,
                )
        except DeliveryFencedError as fenced:
            self.state, self._error = "fenced", str(fenced)
        except OperatingError as away:
            self._pause(away)

    def _pause(self, error: StreamEngineError) -> None:
        """Wait before the next try, longer each time; an ended job does not shorten it."""
        self.state, self._error = "waiting", str(error)
        _log.warning("delivery waits", extra={"delivery": self._label, "reason": str(error)})
        self._release()
        ends_s = self._clock.monotonic_s() + self._retry_s
        self._retry_s = min(2 * self._retry_s, self._limits.retry_pause_max_s)
        self._is_hurried = False
        while not self._is_stopped:  # until the pause is over
            left_s = ends_s - self._clock.monotonic_s()
            if left_s <= 0 or self._is_hurried:
                return
            self._wake.clear()
            self._wake.wait(left_s)
        self.state = "stopped"

    def _is_still_mine(self) -> bool:
        try:
            return self._claim.is_newest()
        except OperatingError:
            return True  # the next claim tells

    def _fail(self, error: Exception) -> None:
        self.state, self._error = "failed", str(error) or type(error).__name__

    def _release(self) -> None:
        """Leave the destination; what it was given and has not committed is given up."""
        if self._destination is None:
            return
        destination, self._destination = self._destination, None
        try:
            destination.close()
        except StreamEngineError as error:
            _log.info("closing failed", extra={"delivery": self._label, "reason": str(error)})
