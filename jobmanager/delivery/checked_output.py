"""Reads an output for a delivery, and checks that it still is what was delivered.

A delivery that opens its destination finds a position and a digest there. The output below that
position must have this digest, or rows would be delivered on top of a different past. So the reader
takes the digest of what is durable from the segments, and reads the rest up to the position again.
It does the same whenever the output is written by another instance, against its own digest.

Invariants: (1) ``digest`` is that of the items below ``next_seq``, as they were read; (2) no item
is given before all below it were checked; (3) where rows may end later than they come, the items
of an instant are given together, so they go into one write and one commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.delivery.output_tap import READ_ITEMS_MAX, OutputTap
from rstream import Items
from rstream.errors import OutputCollectedError
from rstream.items.batch import CTI, VS, int64_column, kinds
from rstream.items.dictionaries import join_batches
from rstream.items.digest import StreamDigest
from rstream.log.prefix_digest import PrefixDigest
from rvertex.sinks.errors import DeliveryDivergedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.delivery.output_tap import Endpoints
    from jobmanager.delivery.wiring import DeliveryWiring


class CheckedOutput:
    """One partition of an output, from any position on; one thread reads it."""

    def __init__(
        self,
        vertex: str,
        stream: str,
        uri: str,
        *,
        endpoints: Endpoints,
        secret: str,
        wake: Callable[[], None],
        wiring: DeliveryWiring,
        destination: str,
        whole_instants: bool = False,
    ) -> None:
        """``destination``: for messages. ``whole_instants``: give no part of an instant."""
        self._destination, self._stream = destination, stream
        self._gives_instants = whole_instants
        #: Items at and after ``next_seq`` of the last instant read, of which more may come.
        self._held: Items | None = None
        #: Items at and after ``next_seq`` that were read and not given; those held follow them.
        self._rest: Items | None = None
        self._prefix = PrefixDigest(wiring.open_store(uri))
        self._tap = OutputTap(
            vertex, stream, uri, 0, endpoints, secret, wake, wiring, self._attached
        )
        self.next_seq = 0
        #: What the items below ``next_seq`` must have, None if that is to be found out.
        self._expected: StreamDigest | None = StreamDigest()
        self._read = StreamDigest()
        self._is_checked = True

    @property
    def digest(self) -> bytes:
        """That of all items below ``next_seq``; only once they are checked."""
        assert self._is_checked
        return self._read.to_bytes()

    @property
    def is_checking(self) -> bool:
        """Whether the items below ``next_seq`` have not all been seen yet."""
        return not self._is_checked

    @property
    def is_over(self) -> bool:
        """Whether everything was read, to the end of the output."""
        return self._is_checked and self._rest is None and self._tap.is_over

    def seek(self, seq: int, digest: bytes | None) -> None:
        """Go on at ``seq``; ``digest``: that of the items below, None if it is not known."""
        is_here = self._is_checked and seq == self.next_seq and digest == self._read.to_bytes()
        self.next_seq = seq
        self._expected = None if digest is None else StreamDigest.from_bytes(digest)
        if is_here:
            return
        self._held = self._rest = None
        if digest is not None and seq == 0:
            self._read = StreamDigest()
        self._is_checked = False
        self._tap.seek(seq)

    def read(self, has_ended: bool, max_items: int = READ_ITEMS_MAX) -> Items | None:
        """The next items; None if there are none now. ``has_ended``: nobody writes any more.

        Where instants are whole, they may be more than ``max_items``.

        Raises:
            DeliveryDivergedError: what is there is not what was read, or delivered, before.
            OutputCollectedError: retention has deleted the next items.
        """
        while True:  # ends: with items, or when there are none now
            items, self._rest = self._rest, None
            if items is None:
                items = self._read_checked(has_ended, max_items)
                if items is not None and self._gives_instants:
                    items = self._whole_instants(items)
            if items is None:
                return None
            if items.batch.num_rows:
                break
            max_items = min(2 * max_items, READ_ITEMS_MAX)
        items = self._head(items, max_items)
        assert items.first_seq == self.next_seq, (items.first_seq, self.next_seq)
        self._read.update(items.first_seq, items.batch)
        self.next_seq = items.next_seq
        return items

    def close(self) -> None:
        """Release the reader."""
        self._tap.close()

    def _read_checked(self, has_ended: bool, max_items: int) -> Items | None:
        items = self._tap.read(has_ended, READ_ITEMS_MAX if self.is_checking else max_items)
        while items is not None and self.is_checking:
            items = self._check(items)
            if items is None:
                items = self._tap.read(has_ended, max_items)
        return items

    def _head(self, items: Items, max_items: int) -> Items:
        """The first of these items, at least one instant where instants are whole."""
        n = max_items
        if n >= items.batch.num_rows:
            return items
        if self._gives_instants:
            times = int64_column(items.batch, VS)
            n = int(times.searchsorted(times[n])) or int(times.searchsorted(times[0], "right"))
        if n < items.batch.num_rows:
            self._rest = items.from_seq(items.first_seq + n)
        return items.head(n)

    def _whole_instants(self, items: Items) -> Items:
        """These items and those held, up to the last instant; that is held unless a CTI ends it."""
        held, self._held = self._held, None
        if held is not None and not held.batch.schema.equals(items.batch.schema):
            self._rest = self._whole_instants(items)  # a deployed query writes more columns
            return held
        if held is not None:
            items = Items(held.first_seq, join_batches([held.batch, items.batch]))
        if kinds(items.batch)[-1] == CTI:
            return items
        times = int64_column(items.batch, VS)
        first_seq = items.first_seq + int(times.searchsorted(times[-1]))
        self._held = items.from_seq(first_seq)
        return items.head(first_seq - items.first_seq)

    def _attached(self, seq: int) -> int:
        """The tap has found who writes now: where it begins to read."""
        del seq
        self._held = self._rest = None
        if self._is_checked:
            self._expected = self._read
        # The last item is read in any case: it may be the end of the output.
        self._prefix.reach(max(self.next_seq - 1, 0))
        if self._prefix.seq > self.next_seq:
            raise OutputCollectedError(self._stream, self.next_seq, self._prefix.seq)
        self._read = self._prefix.digest.copy()
        self._is_checked = False
        if self.next_seq == 0:
            self._compare()
        return self._prefix.seq

    def _check(self, items: Items) -> Items | None:
        """Count items below ``next_seq``; gives what is left of them once all are seen."""
        below = items.head(self.next_seq - items.first_seq)
        self._read.update(below.first_seq, below.batch)
        if below.next_seq < self.next_seq:
            return None
        self._compare()
        return items.from_seq(self.next_seq) if items.next_seq > self.next_seq else None

    def _compare(self) -> None:
        if self._expected is not None and self._read != self._expected:
            raise DeliveryDivergedError(self._destination, self.next_seq)
        self._is_checked = True
