"""The checksum of a segment's bytes, which its footer holds.

It is the CRC-32 of the whole file without the eight digits that say it: it tells that a file is no
more what was put, at the price of reading it. What its items are is told by their digests.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: Its name in the JSON of a footer, and what stands there until it is known.
CRC, UNKNOWN = "crc32", "00000000"
#: No text in JSON has a quote that is not escaped, so no name of a column looks like this.
_BEFORE = f'"{CRC}": "'.encode()
#: A Parquet file ends with the length of its footer, 4 bytes, and a mark of 4.
_END = 8


def write_checksum(data: pa.Buffer) -> None:
    """Put the checksum of a segment into its footer, which has :data:`UNKNOWN` there."""
    view = memoryview(data).cast("B")
    at = _place(view)
    assert at, "its footer has no place for it"
    view[at : at + len(UNKNOWN)] = _checksum(view, at)


def has_changed(data: bytes) -> bool:
    """Whether a segment says another checksum than its bytes have; not if it says none."""
    view = memoryview(data).cast("B")
    at = _place(view)
    return bool(at) and view[at : at + len(UNKNOWN)] != _checksum(view, at)


def _place(view: memoryview) -> int:
    """Where the digits of the checksum begin; 0: nowhere."""
    footer = len(view) - _END - int.from_bytes(view[-_END : 4 - _END], "little")
    at = bytes(view[max(footer, 0) :]).rfind(_BEFORE)
    return 0 if at < 0 else max(footer, 0) + at + len(_BEFORE)


def _checksum(view: memoryview, at: int) -> bytes:
    crc = zlib.crc32(view[at + len(UNKNOWN) :], zlib.crc32(view[:at]))
    return f"{crc:0{len(UNKNOWN)}x}".encode()
