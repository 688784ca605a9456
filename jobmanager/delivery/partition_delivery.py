"""Delivers one partition of an output to a destination.

The thread of a :class:`PartitionDelivery` reads new items of the output without waiting for a flush
or a checkpoint. It commits rows together with its progress. After a failure it opens the
destination again, reads its position there, and continues from that position. See
docs/adr/0033-delivery.md for why each row arrives once. With dead letters, a commit that the
destination rejects is tried again with half of its rows, and so on, until a single row is rejected.
That row is stored as a dead letter and left out. If the rejected rows share an instant, all
beginnings are stored.

Invariants: (1) rows are written in the order of the partition, and only above the destination's
position, after the output was checked up to it; (2) the job does not wait for a delivery, which
reads from bounded buffers, and beyond them from Parquet; (3) an error of the destination never ends
the job: the delivery's state and ``error`` show it.
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
    "opening",  # reads the position from the destination
    "checking",  # reads the delivered items again, and compares digests
    "delivering",
    "waiting",  # the destination failed; there is another attempt after a pause
    "finished",  # the output is complete, and all of it is delivered
    "stopped",  # the job ended before its output was complete, or was cancelled
    "fenced",  # another process delivers
    "failed",
]
#: While more items can be read, a commit waits for this many commit intervals, or for as long as
#: the last commit took.
INTERVALS_MAX = 4
#: The final states of a delivery.
ENDED: tuple[DeliveryState, ...] = ("finished", "stopped", "fenced", "failed")


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """State and progress of a delivery, for statuses."""

    state: DeliveryState = "opening"
    #: All items below this seq are delivered.
    delivered_seq: int = 0
    #: Number of rows, and of commits, by this process.
    rows: int = 0
    commits: int = 0
    #: Number of rows in the dead letters of this partition, stored by any process.
    refused: int = 0
    #: The reason for the states "waiting" and "failed"; else empty.
    error: str = ""
    #: When the present call to the destination began, monotonic s; 0: there is no call.
    call_s: float = 0.0


class PartitionDelivery:
    """One delivering thread: its body and its state."""

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
        """Deliver ``output``. ``has_ended``: whether it has no writer. ``wake``: set on new items.

        ``refused``: stores rejected rows; None: the first rejected row ends the delivery.
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
        #: Number of rows written since the last commit; and when that period began, monotonic s.
        self._pending_rows = 0
        #: The rows written since the last commit; kept only if there are dead letters.
        self._pending: list[DeliveredRows] = []
        self._refused = refused
        #: Most rows of a commit. Halved while the delivery searches for a rejected row.
        self._rows_max = limits.commit_rows_max
        #: When the present call to the destination began, monotonic s; None: there is no call.
        self._called_s: float | None = None
        self._committed_s = float("-inf")
        self._commit_took_s = 0.0
        self._retry_s = limits.retry_pause_s
        self.state: DeliveryState = "opening"
        #: Whether the output was found to have all items that the destination has.
        self.has_checked = False
        self._delivered_seq = self._rows = self._commits = 0
        self._error = ""

    def view(self) -> DeliveryView:
        """Return its state and progress. Safe from any thread."""
        refused = 0 if self._refused is None else self._refused.rows
        called_s = self._called_s
        call_s = 0.0 if called_s is None else round(self._clock.monotonic_s() - called_s, 1)
        return DeliveryView(
            self.state, self._delivered_seq, self._rows, self._commits, refused, self._error, call_s
        )

    def stop(self) -> None:
        """Request the delivery to end soon. Safe from any thread."""
        self._is_stopped = True
        self._wake.set()

    def hurry(self) -> None:
        """End the pause before the next attempt, if there is one. Safe from any thread."""
        self._is_hurried = True
        self._wake.set()

    def run(self) -> None:
        """Deliver until the output is complete, or until a final state is reached."""
        try:
            while self.state not in ENDED:
                self._try()
        except Exception as error:  # our bug, or an unexpected error of a client
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
            if self._is_owner():  # a former process opened the destination once more
                self._claim.epoch = 0
                self._pause(error)
            else:
                self.state, self._error = "fenced", str(error)
        except OperatingError as error:
            self._pause(error)
        except RowsRefusedError as error:
            self._put_aside(error)
        except StreamEngineError as error:
            if self._claim.epoch and not self._is_owner():
                # This process was suspended, and its successor has delivered these items. So
                # retention may have deleted them.
                fenced = DeliveryFencedError(self._label, self._claim.epoch)
                self.state, self._error = "fenced", str(fenced)
                return
            self._fail(error)
            _log.error("delivery failed", extra={"delivery": self._label, "reason": str(error)})

    def _open(self) -> None:
        self._release()
        self.state = "opening"
        begun_seq, first_seq = self._claim.begins(self._start_seq)
        # Check this before the claim, so that an error does not replace a running delivery.
        if self._start_seq and self._start_seq != begun_seq:
            raise DeliveryBegunError(self._label, begun_seq)
        if self._claim.epoch == 0:
            self._claim.take(self._clock.now_us())
        self._destination = self._connect()
        progress = self._destination.open(self._claim.epoch)
        if not self._claim.is_newest():
            raise DeliveryFencedError(self._label, self._claim.epoch)
        if progress is None:
            if self._claim.has_begun():
                raise DeliveryForgottenError(self._label)
            self._output.seek(first_seq, None)
        else:
            self._output.seek(progress.next_seq, progress.digest)
            self._delivered_seq = progress.next_seq
        self._pending_rows, self._pending = 0, []
        if self._refused is not None:
            self._refused.load()

    def _deliver(self) -> None:
        while not self._is_stopped:  # until the output is complete
            self._wake.clear()
            has_ended = self._has_ended()
            left = max(self._rows_max - self._pending_rows, 1)
            items = self._output.read(has_ended, left)
            self.state = "checking" if self._output.is_checking else "delivering"
            self.has_checked |= not self._output.is_checking
            if items is not None:
                self._write(items)
            wait_s = self._commit_if_due(is_idle=items is None)
            if self._output.is_over:
                self._finish()
                return
            if items is None and has_ended:
                if self._pending_rows and not self._output.is_checking:
                    self._commit()
                break  # the items to check or deliver will never arrive
            if items is None:
                if not self._pending_rows and not self._output.is_checking:
                    self._error = ""  # the destination works, and has all items
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
            self._called_s = self._clock.monotonic_s()
            self._destination.write(rows)
            self._called_s = None

    def _without_refused(self, rows: DeliveredRows, refused: RefusedRows) -> DeliveredRows | None:
        """Return the rows except the rows in the dead letters, and except the ends of these."""
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
        """Commit if a commit is due. Return the time to wait unless new items arrive, s."""
        since_s = self._clock.monotonic_s() - self._committed_s
        if self._output.is_checking:  # the writer was replaced after rows were written
            return LOOK_INTERVAL_S
        if self._pending_rows:
            interval_s = self._limits.commit_interval_ms / 1e3
            # Items that can be read are added to the same commit. A live output arrives in small
            # batches. With one commit for each batch the delivery would fall behind, most of all if
            # commits are slow.
            most_s = max(INTERVALS_MAX * interval_s, 2 * self._commit_took_s)
            wait_s = interval_s if is_idle else most_s
            if since_s < wait_s and self._pending_rows < self._rows_max:
                return max(interval_s - since_s, 0.0)
            self._commit()
        elif is_idle and self._is_progress_due(since_s):
            self._commit()
        return LOOK_INTERVAL_S

    def _is_progress_due(self, since_s: float) -> bool:
        """Return whether a commit without rows is due, ``since_s`` after the last commit."""
        limits = self._limits
        if self._is_ahead():
            return since_s >= limits.progress_interval_s
        return self._commits > 0 and since_s >= limits.reminder_interval_s

    def _is_ahead(self) -> bool:
        """Return whether items after the delivered ones were read, even if they contain no rows."""
        return self._output.next_seq > self._delivered_seq

    def _commit(self) -> None:
        assert self._destination is not None
        progress = DeliveryProgress(self._output.next_seq, self._output.digest)
        self._committed_s = self._called_s = self._clock.monotonic_s()
        self._destination.commit(progress)
        self._called_s = None
        self._commit_took_s = self._clock.monotonic_s() - self._committed_s
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
        """Store the rejected row if it is identified. Otherwise halve the commits to find it."""
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
        # An instant is never divided. So all its beginnings are blamed, or all its rows if it has
        # no beginning.
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
        """Wait before the next attempt, longer each time.

        The end of the job does not end the pause.
        """
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

    def _is_owner(self) -> bool:
        try:
            return self._claim.is_newest()
        except OperatingError:
            return True  # unknown now, so the next claim decides

    def _fail(self, error: Exception) -> None:
        self.state, self._error = "failed", str(error) or type(error).__name__

    def _release(self) -> None:
        """Close the destination and discard uncommitted rows."""
        self._called_s = None
        if self._destination is None:
            return
        destination, self._destination = self._destination, None
        try:
            destination.close()
        except StreamEngineError as error:
            _log.info("closing failed", extra={"delivery": self._label, "reason": str(error)})
