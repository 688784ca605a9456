"""Decompresses bodies, and checks the limit on their size before the bytes are in memory."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from jobmanager.intake.errors import BodyTooLargeError, ContentEncodingError, PostError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = ("", "identity")
_GZIP = ("gzip", "x-gzip")
_GZIP_WINDOW = 31
#: Bytes that are decompressed at a time.
_PIECE_BYTES = 1 << 20


class Inflater:
    """Decompresses a body with the encoding of its header ``Content-Encoding``."""

    def __init__(self, encoding: str, bytes_max: int) -> None:
        """Start to decompress. Raises ContentEncodingError: the encoding is not supported."""
        name = encoding.strip().lower()
        if name not in (*_PLAIN, *_GZIP):
            raise ContentEncodingError(encoding[:80])
        self._stream = zlib.decompressobj(_GZIP_WINDOW) if name in _GZIP else None
        self._has_begun = False
        self._left = bytes_max
        self._bytes_max = bytes_max

    def pieces(self, part: bytes) -> Iterator[bytes]:
        """Yield the decompressed bytes of the next part of the body.

        Raises:
            BodyTooLargeError: the decompressed body is too large. PostError: it is no gzip.
        """
        if self._stream is None:
            yield self._counted(part)
            return
        is_more = bool(part)
        while is_more:  # ends: each turn consumes bytes of the part, or yields a full block
            if self._stream.eof and part:
                self._stream = zlib.decompressobj(_GZIP_WINDOW)  # another gzip member follows
            self._has_begun = True
            try:
                piece = self._stream.decompress(part, _PIECE_BYTES)
            except zlib.error as error:
                raise PostError(f"Content-Encoding is gzip, the body is not: {error}") from None
            yield self._counted(piece)
            part = self._stream.unconsumed_tail or self._stream.unused_data
            is_more = bool(part) or len(piece) == _PIECE_BYTES

    def finish(self) -> None:
        """Check that the body is complete.

        Raises PostError: it ends in the middle of its content.
        """
        if self._stream is not None and not (self._has_begun and self._stream.eof):
            raise PostError("the gzip data of the body are cut off")

    def _counted(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            raise BodyTooLargeError(self._bytes_max)
        return piece
