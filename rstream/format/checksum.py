"""The checksum of a segment's bytes, which its footer holds.

It is the CRC-32 of the whole file without the eight digits that say it: it tells that a file is no
more what was put, at the price of reading it. What its items are is told by their digests.
"""

from __future__ import annotations

import zlib

import pyarrow as pa

#: Its name in the JSON of a footer, and what stands there until it is known.
CRC, UNKNOWN = "crc32", "00000000"
#: No text in JSON has a quote that is not escaped, so no name of a column looks like this.
_BEFORE = f'"{CRC}": "'.encode()
#: A Parquet file ends with the length of its footer, 4 bytes, and a mark of 4.
_LENGTH_BYTES, _END_BYTES = 4, 8
_CHUNK_BYTES = 1 << 20


def write_checksum(data: pa.Buffer) -> None:
    """Put the checksum of a segment into its footer, which has :data:`UNKNOWN` there."""
    file = pa.BufferReader(data)
    at = _place(file)
    assert at, "its footer has no place for it"
    memoryview(data).cast("B")[at : at + len(UNKNOWN)] = _checksum(file, at)


def has_changed(file: pa.NativeFile) -> bool:
    """Whether a segment says another checksum than its bytes have; not if it says none."""
    at = _place(file)
    if not at:
        return False
    file.seek(at)
    return bool(file.read(len(UNKNOWN)) != _checksum(file, at))


def _place(file: pa.NativeFile) -> int:
    """Where the digits of the checksum begin; 0: nowhere."""
    end = file.size() - _END_BYTES
    file.seek(max(end, 0))
    footer = max(end - int.from_bytes(file.read(_LENGTH_BYTES), "little"), 0)
    file.seek(footer)
    at = int(file.read().rfind(_BEFORE))
    return 0 if at < 0 else footer + at + len(_BEFORE)


def _checksum(file: pa.NativeFile, at: int) -> bytes:
    crc = _crc(file, 0, at, 0)
    crc = _crc(file, at + len(UNKNOWN), file.size(), crc)
    return f"{crc:0{len(UNKNOWN)}x}".encode()


def _crc(file: pa.NativeFile, begin: int, end: int, crc: int) -> int:
    file.seek(begin)
    for at in range(begin, end, _CHUNK_BYTES):
        crc = zlib.crc32(file.read_buffer(min(_CHUNK_BYTES, end - at)), crc)
    return crc
