"""The checksum of a segment's bytes, which is stored in its footer.

It is the CRC-32 of the whole file without the eight digits of the checksum itself. It detects a
damaged file, but only by reading all of it. The digests, not the checksum, verify the items.
"""

from __future__ import annotations

import zlib

import pyarrow as pa

#: Key of the checksum in the footer's JSON, and its value until it is computed.
CRC, UNKNOWN = "crc32", "00000000"
#: Text in front of the checksum. Unambiguous, because JSON escapes quotes in strings such as column
#: names.
_BEFORE = f'"{CRC}": "'.encode()
#: A Parquet file ends with the length of its footer (4 bytes) and a magic number (4 bytes): 8 bytes
#: in all.
_LENGTH_BYTES, _END_BYTES = 4, 8
_CHUNK_BYTES = 1 << 20


def write_checksum(data: pa.Buffer) -> None:
    """Write the checksum of a segment into its footer, in place of :data:`UNKNOWN`."""
    file = pa.BufferReader(data)
    at = _place(file)
    assert at, "its footer has no place for it"
    memoryview(data).cast("B")[at : at + len(UNKNOWN)] = _checksum(file, at)


def has_changed(file: pa.NativeFile) -> bool:
    """Return whether a segment's checksum differs from its bytes; False if it has no checksum."""
    at = _place(file)
    if not at:
        return False
    file.seek(at)
    return bool(file.read(len(UNKNOWN)) != _checksum(file, at))


def _place(file: pa.NativeFile) -> int:
    """Return the offset of the checksum's digits; 0: the file has no checksum."""
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
