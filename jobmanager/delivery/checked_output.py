"""Reads an output for a delivery, and checks that it still has the items delivered before.

The destination of a delivery stores a position and a digest. The items of the output below that
position must have this digest; otherwise the delivered rows differ from the output. To check it,
the reader takes the digest of durable items from their segments, and reads the remaining items up
to the position again. When another instance writes the output, the reader repeats the check against
the digest of the items that it has read.

Invariants: (1) ``digest`` covers all items below ``next_seq``, as they were read; (2) an item is
returned only after all items below it were checked; (3) if rows may end after they arrive, all
items of one instant are returned together, so they are in one write and one commit.
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
    """Reads one partition of an output from any position. Only one thread may use it."""

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
        """Read ``stream``.

        ``destination``: for messages. ``whole_instants``: never split an instant.
        """
        self._destination, self._stream = destination, stream
        self._gives_instants = whole_instants
        #: Items from ``next_seq`` on of the last instant that was read. It may still be incomplete.
        self._held: Items | None = None
        #: Items from ``next_seq`` on that were read but not returned. ``_held`` follows them.
        self._rest: Items | None = None
        self._prefix = PrefixDigest(wiring.open_store(uri))
        self._tap = OutputTap(
            vertex, stream, uri, 0, endpoints, secret, wake, wiring, self._attached
        )
        self.next_seq = 0
        #: The digest that the items below ``next_seq`` must have. None: compute it.
        self._expected: StreamDigest | None = StreamDigest()
        self._read = StreamDigest()
        self._is_checked = True

    @property
    def digest(self) -> bytes:
        """The digest of all items below ``next_seq``. Read it only after they were checked."""
        assert self._is_checked
        return self._read.to_bytes()

    @property
    def is_checking(self) -> bool:
        """Whether some items below ``next_seq`` have not been read yet."""
        return not self._is_checked

    @property
    def is_over(self) -> bool:
        """Whether all items up to the end of the output were read."""
        return self._is_checked and self._rest is None and self._tap.is_over

    def seek(self, seq: int, digest: bytes | None) -> None:
        """Continue at ``seq``. ``digest``: digest of the items below ``seq``; None if unknown."""
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
        """Return the next items; None if there are none now.

        ``has_ended``: the output has no writer any more. With ``whole_instants`` the result may
        exceed ``max_items``.

        Raises:
            DeliveryDivergedError: the output differs from the items read or delivered before.
            OutputCollectedError: retention has deleted the next items.
        """
        while True:  # ends with items, or when there are none now
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
        """Return at most ``max_items`` items; with ``whole_instants`` at least one instant."""
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
        """Return the held items and ``items``, without their last instant.

        The last instant is held back until a CTI (watermark) shows that it is complete.
        """
        held, self._held = self._held, None
        if held is not None and not held.batch.schema.equals(items.batch.schema):
            # Not appended to the rest, since a query deployed meanwhile may write more columns.
            self._rest = self._whole_instants(items)
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
        """Return the seq from which the tap reads at a writer that it has found."""
        del seq
        self._held = self._rest = None
        if self._is_checked:
            self._expected = self._read
        # The last item is always read again, because it may be the end of the output.
        self._prefix.reach(max(self.next_seq - 1, 0))
        if self._prefix.seq > self.next_seq:
            raise OutputCollectedError(self._stream, self.next_seq, self._prefix.seq)
        self._read = self._prefix.digest.copy()
        self._is_checked = False
        if self.next_seq == 0:
            self._compare()
        return self._prefix.seq

    def _check(self, items: Items) -> Items | None:
        """Add items below ``next_seq`` to the digest. Return the items from ``next_seq`` on."""
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
