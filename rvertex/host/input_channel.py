"""InputChannelReader: the next items of one input channel, from any endpoint that has them.

Theory of operation. The message ``Locate`` lists the endpoints of a channel: none if all its items
are durable, one, or several replicas that write the same items. The reader stays at one *endpoint*
until its connection breaks, it lacks the next seq, it sends nothing for too long, or ``Locate`` no
longer lists it. The reader first drains the items already received, then continues at the next
endpoint with the next seq. It retries an endpoint whose connection broke only after
``reconnect_s``. If every endpoint lacks the seq, the reader reports the loss once for these
endpoints and this seq.

Invariants: (1) the items read are contiguous, whichever endpoints they come from; (2) the reader
changes endpoints only for these reasons, not because another one is nearer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rstream.errors import CorruptSegmentError, SequenceDiscardedError, SequenceLostError
from rvertex.host.wiring import DistantReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream import StreamReader
    from rstream.items.batch import Items
    from rvertex.host.environment import HostEnvironment
    from rvertex.messages import Endpoint, Locate
    from rvertex.vertex.spec import InputChannel

#: Why the reader left an endpoint. "lost": it lacks the seq. "broken": its connection broke.
#: "silent": no item arrived for too long, and others are untried. "left": it is no longer listed.
End = Literal["lost", "broken", "silent", "left"]
#: Seconds of silence after which a reader leaves an endpoint. Doubled each time that the reader
#: left an endpoint and received no item from the next.
SILENCE_S = 1.0
SILENCE_MAX_S = 60.0


@dataclass(slots=True)
class Attachment:
    """An open reader and its endpoint (None: it reads durable items)."""

    reader: StreamReader
    endpoint: Endpoint | None
    opened_s: float
    #: The reader if it has a connection, else None. Cached, because isinstance with a protocol is
    #: slow.
    distant: DistantReader | None
    has_given: bool = False


class InputChannelReader:
    """Reads one input channel; see the module. ``report_lost`` gets stream, seq and epochs."""

    def __init__(
        self,
        channel: InputChannel,
        env: HostEnvironment,
        report_lost: Callable[[str, int, tuple[int, ...]], None],
    ) -> None:
        self._channel = channel
        self._env = env
        self._report_lost = report_lost
        self._attached: Attachment | None = None
        #: Endpoints that were left since the last received item: when (monotonic seconds), and why.
        self._ends: dict[Endpoint | None, tuple[float, End]] = {}
        self._silence_s = SILENCE_S
        self._has_read = False
        self._reported: tuple[int, tuple[int, ...]] | None = None

    def read(self, seq: int, rows_max: int) -> Items | None:
        """Return at most ``rows_max`` items from ``seq`` on; None if there are none now."""
        # Ends: each pass except the last leaves an endpoint, and no pass leaves the same one
        while True:
            attached = self._attached or self._attach(seq)
            if attached is None:
                return None
            assert attached.reader.next_seq == seq, (attached.reader.next_seq, seq)
            try:
                items = self._items(attached, rows_max)
                end = None if items is not None else self._end(attached)
            except (SequenceLostError, SequenceDiscardedError):
                items, end = None, "lost"
            except CorruptSegmentError:
                self._env.set_aside_damaged(self._channel, seq)
                items, end = None, "lost"
            if items is not None:
                self._note_progress(attached)
                return items
            if end is None:
                return None
            self._leave(attached, end)

    def close(self) -> None:
        """Stop reading."""
        attached, self._attached = self._attached, None
        if attached is not None:
            attached.reader.close()

    def _items(self, attached: Attachment, rows_max: int) -> Items | None:
        distant = attached.distant
        if distant is not None and distant.is_broken and self._untried():
            return distant.read_received(rows_max)
        return attached.reader.read_next(rows_max)

    def _end(self, attached: Attachment) -> End | None:
        """Return why to leave the endpoint; None: stay."""
        distant, endpoint = attached.distant, attached.endpoint
        location = self._env.location(self._channel.stream)
        endpoints = () if location is None else location.endpoints
        if distant is not None and distant.is_broken:
            return "lost" if isinstance(distant.failure, SequenceLostError) else "broken"
        if endpoint is None:
            return "left" if endpoints else None
        if not self._env.is_there(self._channel.stream, endpoint):
            return "broken"
        if endpoint not in endpoints:
            return "left"
        waited_s = self._env.clock.monotonic_s() - attached.opened_s
        if attached.has_given or waited_s < self._silence_s:
            return None
        if not any(s != endpoint and self._may_try(s) for s in endpoints):
            return None
        self._silence_s = min(2 * self._silence_s, SILENCE_MAX_S)
        return "silent"

    def _untried(self) -> bool:
        """Return whether some endpoint was not tried since the last received item."""
        location = self._env.location(self._channel.stream)
        tried = {*self._ends, None if self._attached is None else self._attached.endpoint}
        return location is not None and any(s not in tried for s in location.endpoints)

    def _note_progress(self, attached: Attachment) -> None:
        attached.has_given = self._has_read = True
        if self._ends:
            self._ends.clear()
        self._silence_s = SILENCE_S

    def _leave(self, attached: Attachment, end: End) -> None:
        self._attached = None
        attached.reader.close()
        if end != "left":
            self._ends[attached.endpoint] = (self._env.clock.monotonic_s(), end)

    def _attach(self, seq: int) -> Attachment | None:
        """Open a reader at ``seq`` at the first endpoint where that is possible now."""
        location = self._env.location(self._channel.stream)
        if location is None:
            return None
        endpoints: list[Endpoint | None] = [*self._env.nearest_first(self._channel.stream, seq)]
        for endpoint in endpoints or [None]:
            if not self._may_try(endpoint):
                continue
            try:
                reader = self._env.open_reader(
                    self._channel, endpoint, seq, durable_first=not self._has_read
                )
            except (SequenceLostError, SequenceDiscardedError):
                self._ends[endpoint] = (self._env.clock.monotonic_s(), "lost")
                continue
            if reader is not None:
                distant = reader if isinstance(reader, DistantReader) else None
                self._attached = Attachment(
                    reader, endpoint, self._env.clock.monotonic_s(), distant
                )
                return self._attached
        self._report_if_lost(location, seq)
        return None

    def _may_try(self, endpoint: Endpoint | None) -> bool:
        at_s, end = self._ends.get(endpoint, (0.0, None))
        if end is None:
            return True
        if end == "lost":
            return False
        return self._env.clock.monotonic_s() - at_s >= self._env.limits.reconnect_s

    def _report_if_lost(self, location: Locate, seq: int) -> None:
        """Report, once, that ``seq`` must be recomputed.

        The reader then waits for a new ``Locate``.
        """
        endpoints: tuple[Endpoint | None, ...] = location.endpoints or (None,)
        if any(self._ends.get(endpoint, (0.0, None))[1] != "lost" for endpoint in endpoints):
            return
        epochs = tuple(endpoint.epoch for endpoint in location.endpoints)
        if self._reported != (seq, epochs):
            self._reported = (seq, epochs)
            self._report_lost(self._channel.stream, seq, epochs)
