"""The control protocol: frames in both directions over one connection per peer.

A frame is its number, one byte and its content: a message, a heartbeat, or goodbye. Each side sends
a frame at least every :data:`HEARTBEAT_S`, and considers the other dead after :data:`SILENCE_S`
without a frame. (A broken connection is noticed at once; the limit is for peers that hang.) This
file does not depend on Flight: two functions represent a connection.

Invariants: (1) messages are delivered once each, in the order of sending, up to the end of the
connection. The receiver does not rely on the transport: it ignores a copy, ends the connection at a
gap, and notices a loss at the next heartbeat at the latest (:mod:`rstream.transport.frame_order`);
(2) the writer thread ends after :meth:`Link.close`, with the connection, or if the peer is silent.
"""

from __future__ import annotations

import logging
import threading
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING

from rstream.clock import SystemClock
from rstream.errors import OperatingError, error_class
from rstream.transport.frame_order import InOrder, Numbered

if TYPE_CHECKING:
    from collections.abc import Callable

HEARTBEAT_S = 5.0
SILENCE_S = 20.0
#: Most unsent messages per peer. A peer with more is disconnected.
OUTBOX_MESSAGES_MAX = 10_000
JOIN_WAIT_S = 5.0
_log = logging.getLogger(__name__)
_HEARTBEAT = b"\0"
_MESSAGE = b"\1"
_GOODBYE = b"\2"


@error_class
class DisconnectedError(OperatingError):
    """The peer of a control connection is gone."""

    peer: str

    message = "peer {peer} is not connected"


class Link:
    """One side of one connection.

    Args:
        write: sends a frame; any exception means that the connection is broken.
        name: the peer's name.
        on_silent: called once, from the writer thread or by ``put``, if the peer hangs.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        name: str,
        on_silent: Callable[[], None],
        *,
        heartbeat_s: float = HEARTBEAT_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._write = write
        self._name = name
        self._on_silent = on_silent
        self._numbered, self._order = Numbered(), InOrder()
        self._heartbeat_s, self._silence_s = heartbeat_s, silence_s
        self._clock = SystemClock()
        self._heard_s = self._clock.monotonic_s()
        self._queue: Queue[bytes] = Queue(OUTBOX_MESSAGES_MAX)
        self._is_closed = False
        self._is_cut_off = False
        #: The lock is held while a frame is written; see :meth:`end`.
        self._writing, self._has_ended = threading.Lock(), False
        #: Acquired, and never released, by the thread that calls ``on_silent``.
        self._silence = threading.Lock()
        self._queue.put(_HEARTBEAT)
        self._thread = threading.Thread(target=self._send, name=f"control-{name}", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def put(self, message: bytes) -> bool:
        """Queue a message. Return False if the connection is broken or the peer is too far behind.

        It also checks for silence, because a write to a peer that hangs may block the writer
        thread.
        """
        if self._is_closed or self._ends_by_silence():
            return False
        try:
            self._queue.put_nowait(_MESSAGE + message)
        except Full:
            self._is_closed = self._is_cut_off = True
            return False
        return True

    def receive(self, read: Callable[[], bytes], on_message: Callable[[bytes], None]) -> None:
        """Pass on messages until the end: a goodbye, a gap, or any exception of ``read``."""
        while True:  # ends with the connection
            try:
                frame = read()
            except Exception:  # transports report the end by various exceptions
                return
            self._heard_s = self._clock.monotonic_s()
            verdict, content = self._order.open(frame)
            if verdict == "broken":
                _log.warning("a message of %s is missing or late: its connection ends", self._name)
                return
            if verdict == "ignore":
                continue
            if content[:1] == _GOODBYE:
                return
            if content[:1] == _MESSAGE:
                on_message(content[1:])

    def close(self) -> None:
        """Send the queued messages and a goodbye, and stop."""
        if not self._is_closed:
            self._is_closed = True
            try:
                self._queue.put_nowait(_GOODBYE)
            except Full:
                self._is_cut_off = True
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_WAIT_S)

    def end(self) -> None:
        """Stop writing. Wait until a write in progress has ended.

        The write ends when the peer reads, when the connection breaks, or when the server stops.
        """
        with self._writing:
            self._has_ended = True

    def _send(self) -> None:
        while True:  # ends with close(), the connection or silence
            try:
                frame = self._queue.get(timeout=self._heartbeat_s)
            except Empty:
                frame = _HEARTBEAT
            try:
                with self._writing:
                    if self._has_ended:
                        return
                    self._write(self._numbered.frame(frame))
            except Exception:  # the receiving side notices the break and reports it
                self._is_closed = True
                return
            if self._ends_by_silence():
                return
            if frame is _GOODBYE or (self._is_cut_off and self._queue.empty()):
                return

    def _ends_by_silence(self) -> bool:
        if self._clock.monotonic_s() - self._heard_s <= self._silence_s:
            return False
        self._is_closed = True
        if self._silence.acquire(blocking=False):
            self._on_silent()
        return True


class Hub:
    """The links of a control server, one per peer. Any thread may use it.

    ``on_connect(peer)``, ``on_message(peer, bytes)`` and ``on_disconnect(peer)`` are called in this
    order from the thread that serves the peer (the last from another thread if the peer hangs).

    Invariant: a peer has at most one link, the newest; only the loss of that link is reported.
    """

    def __init__(
        self,
        on_message: Callable[[str, bytes], None],
        on_connect: Callable[[str], None],
        on_disconnect: Callable[[str], None],
    ) -> None:
        self._on_message = on_message
        self._on_connect, self._on_disconnect = on_connect, on_disconnect
        self._links: dict[str, Link] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def peers(self) -> list[str]:
        """Return the connected peers."""
        with self._lock:
            return sorted(self._links)

    def serve(self, peer: str, write: Callable[[bytes], None], read: Callable[[], bytes]) -> None:
        """Serve one connection until it ends. It replaces an older connection of the peer.

        ``write`` is no longer in use when this returns. The transport then frees the call, and a
        write into freed memory would crash the process.
        """
        link = Link(write, peer, lambda: self._ended(peer, link))
        with self._lock:
            is_late = self._is_closed
            old, self._links[peer] = self._links.get(peer), link
        if old is not None:
            old.close()
        try:
            if not is_late:
                self._on_connect(peer)
                link.receive(read, lambda message: self._on_message(peer, message))
        finally:
            link.close()
            self._ended(peer, link)
            link.end()

    def send(self, peer: str, message: bytes) -> None:
        """Queue a message. Raises DisconnectedError if the peer is gone."""
        with self._lock:
            link = self._links.get(peer)
        if link is None or not link.put(message):
            raise DisconnectedError(peer)

    def close(self) -> None:
        """Send every peer a goodbye, now or when it connects. Its disconnect is not reported."""
        with self._lock:
            self._is_closed = True
            links = list(self._links.values())
        for link in links:
            link.close()

    def _ended(self, peer: str, link: Link) -> None:
        with self._lock:
            if self._links.get(peer) is not link:
                return
            del self._links[peer]
        if not self._is_closed:
            self._on_disconnect(peer)
