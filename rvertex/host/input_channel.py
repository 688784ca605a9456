"""One input channel of an instance: its next items, from whichever site has them.

Theory of operation. The writers of a channel are known by ``Locate``: none (all of it is durable),
one, or several that write the same. An inlet reads from one *site* until that has an end: the line
breaks, the site lacks the seq, or it is no longer listed and has nothing more. What was received is
read first; then the inlet goes on to the next site at once, at the very next seq. Only a site that
broke before is given ``reconnect_s``. When every site lacks the seq, that is reported, once for
these sites and this seq.

Invariants: (1) what is read is contiguous, whoever it comes from; (2) a site is left only for a
reason, never because another one is as good.
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
    from rvertex.messages import Locate, Site
    from rvertex.vertex.spec import InputChannel

#: Why a site was left: it lacks the seq, the line broke, it is behind others, it is not listed.
End = Literal["lost", "broken", "silent", "left"]
#: A site that has given nothing for so long is left for another; doubled each time it was in vain.
SILENCE_S = 1.0
SILENCE_MAX_S = 60.0


@dataclass(slots=True)
class Attachment:
    """A reader, and the site that it reads (None: what is durable)."""

    reader: StreamReader
    site: Site | None
    opened_s: float
    #: The reader, if it reads over a line: to ask a protocol takes longer than to read.
    distant: DistantReader | None
    has_given: bool = False


class Inlet:
    """See the module. ``report_lost``: called with the seq and the epochs that were tried."""

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
        #: Sites that were left since the last items, when and why.
        self._ends: dict[Site | None, tuple[float, End]] = {}
        self._silence_s = SILENCE_S
        self._has_read = False
        self._reported: tuple[int, tuple[int, ...]] | None = None

    def read(self, seq: int, rows_max: int) -> Items | None:
        """The items from ``seq`` on, at most ``rows_max``; None if there are none now."""
        while True:  # ends: each round but the last leaves a site, and none is tried twice at once
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
        """Why nothing more will come, or not soon; None: it is worth waiting."""
        distant, site = attached.distant, attached.site
        location = self._env.location(self._channel.stream)
        sites = () if location is None else location.sites
        if distant is not None and distant.is_broken:
            return "lost" if isinstance(distant.failure, SequenceLostError) else "broken"
        if site is None:
            return "left" if sites else None
        if not self._env.is_there(self._channel.stream, site):
            return "broken"
        if site not in sites:
            return "left"
        waited_s = self._env.clock.monotonic_s() - attached.opened_s
        if attached.has_given or waited_s < self._silence_s:
            return None
        if not any(s != site and self._may_try(s) for s in sites):
            return None
        self._silence_s = min(2 * self._silence_s, SILENCE_MAX_S)
        return "silent"

    def _untried(self) -> bool:
        """Whether there is a site that was not left since the last items."""
        location = self._env.location(self._channel.stream)
        tried = {*self._ends, None if self._attached is None else self._attached.site}
        return location is not None and any(s not in tried for s in location.sites)

    def _note_progress(self, attached: Attachment) -> None:
        attached.has_given = self._has_read = True
        if self._ends:
            self._ends.clear()
        self._silence_s = SILENCE_S

    def _leave(self, attached: Attachment, end: End) -> None:
        self._attached = None
        attached.reader.close()
        if end != "left":
            self._ends[attached.site] = (self._env.clock.monotonic_s(), end)

    def _attach(self, seq: int) -> Attachment | None:
        """Begin to read at ``seq`` where that is possible now."""
        location = self._env.location(self._channel.stream)
        if location is None:
            return None
        sites: list[Site | None] = [*self._env.nearest_first(self._channel.stream, seq)]
        for site in sites or [None]:
            if not self._may_try(site):
                continue
            try:
                reader = self._env.open_reader(
                    self._channel, site, seq, durable_first=not self._has_read
                )
            except (SequenceLostError, SequenceDiscardedError):
                self._ends[site] = (self._env.clock.monotonic_s(), "lost")
                continue
            if reader is not None:
                distant = reader if isinstance(reader, DistantReader) else None
                self._attached = Attachment(reader, site, self._env.clock.monotonic_s(), distant)
                return self._attached
        self._report_if_lost(location, seq)
        return None

    def _may_try(self, site: Site | None) -> bool:
        at_s, end = self._ends.get(site, (0.0, None))
        if end is None:
            return True
        if end == "lost":
            return False
        return self._env.clock.monotonic_s() - at_s >= self._env.limits.reconnect_s

    def _report_if_lost(self, location: Locate, seq: int) -> None:
        """Say once that what is needed must be recomputed, then wait to hear of a new site."""
        sites: tuple[Site | None, ...] = location.sites or (None,)
        if any(self._ends.get(site, (0.0, None))[1] != "lost" for site in sites):
            return
        epochs = tuple(site.epoch for site in location.sites)
        if self._reported != (seq, epochs):
            self._reported = (seq, epochs)
            self._report_lost(self._channel.stream, seq, epochs)
