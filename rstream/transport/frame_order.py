"""Numbers the frames of a connection, so that their order does not depend on the transport.

The sender numbers its frames from 0 (:class:`Numbered`); the receiver accepts each in order
(:class:`InOrder`). It ignores a number that it has accepted before: the frame is a copy. If a
number is too high, a frame was lost or overtaken: the connection is broken. The receiver does not
buffer later frames, because the missing one may never arrive.

Invariants: (1) the accepted numbers are 0, 1, 2, ...; (2) a broken connection accepts no more
frames. Pure.
"""

from __future__ import annotations

import struct
from typing import Literal

Verdict = Literal["take", "ignore", "broken"]
_NUMBER = struct.Struct("<Q")


class Numbered:
    """The sending end of one direction of a connection."""

    def __init__(self) -> None:
        self._next = 0

    def frame(self, content: bytes) -> bytes:
        """Return ``content`` with the next number in front."""
        number, self._next = self._next, self._next + 1
        return _NUMBER.pack(number) + content


class InOrder:
    """The receiving end."""

    def __init__(self) -> None:
        self._expected = 0
        self._is_broken = False

    def accept(self, number: int) -> Verdict:
        """Return whether to accept this frame number, ignore it, or break the connection."""
        if number > self._expected:
            self._is_broken = True
        if self._is_broken:
            return "broken"
        if number < self._expected:
            return "ignore"
        self._expected += 1
        return "take"

    def open(self, frame: bytes) -> tuple[Verdict, bytes]:
        """Return what to do with a frame, and its content.

        A frame without number breaks the link.
        """
        if len(frame) < _NUMBER.size:
            self._is_broken = True
            return "broken", b""
        (number,) = _NUMBER.unpack_from(frame)
        return self.accept(number), frame[_NUMBER.size :]
