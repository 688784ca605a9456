"""Decodes text files: UTF-8, or the encoding that the source names. Other content is an error.

Without this check, a binary or compressed file would show as columns with odd names or as bad rows.
"""

from __future__ import annotations

import codecs

import pyarrow as pa

from rvertex.errors import UnreadableTextError
from rvertex.sources.files import CODECS, open_range

#: The option of a source that names the encoding of its files.
UTF_8 = "utf-8"
NO_TEXT_IN = "it is not text in {}: {}"
#: Number of bytes that are examined to recognise UTF-16 and UTF-32: in these, most text has a zero
#: in every other byte.
_LOOKED_AT_BYTES = 256
_ZEROS_MIN = 0.2
#: Bytes that are not characters and do not separate fields, and how many of them a text may have.
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\v\f\r\x1b\x01\x1c\x1d\x1e\x1f"})
_CONTROLS_MAX, _CONTROLS_SHARE_MAX = 5, 0.05
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"\xff\x06\0\0sNaPpY": "snappy",
}
_OTHER_FORMATS = {b"PAR1\x15": "Parquet", b"ARROW1\0\0": "Arrow", b"Obj\x01": "Avro"}
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def plain_name(encoding: str) -> str:
    """Return the normalised name of a text encoding.

    Raises:
        LookupError: no text encoding has this name.
    """
    info = codecs.lookup(encoding)
    "a".encode(encoding)  # raises for codecs that do not encode text, such as "hex"
    return UTF_8 if info.name in ("utf-8", "utf-8-sig") else info.name


def open_text(path: str, lo: int, hi: int | None, encoding: str) -> pa.NativeFile:
    """Open the bytes ``[lo, hi)`` of a file as UTF-8; a file in another encoding is read whole.

    Raises:
        SourceVanishedError: the file is gone or may not be read.
    """
    stream = open_range(path, lo, hi)
    return stream if encoding == UTF_8 else pa.transcoding_input_stream(stream, encoding, "utf8")


def check_text(path: str, start: bytes) -> None:
    """Check that a file is text in UTF-8; ``start``: its first bytes.

    Raises:
        UnreadableTextError: the file is compressed, of another format or in another encoding.
    """
    for magic, name in _COMPRESSED.items():
        if start.startswith(magic):
            what = _advice_for(path, name)
            raise UnreadableTextError(path, f"it is compressed with {name}{what}")
    for magic, name in _OTHER_FORMATS.items():
        if start.startswith(magic):
            raise UnreadableTextError(path, f"it is a {name} file, not text")
    encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    # after a power loss a file may end in zeros; they do not indicate UTF-16
    encoding = encoding or _by_zeros(start[:_LOOKED_AT_BYTES].rstrip(b"\0"))
    if encoding is not None:
        raise UnreadableTextError(
            path, f'it is text in {encoding.upper()}, not UTF-8; set encoding="{encoding}"'
        )
    text = start[:_LOOKED_AT_BYTES].rstrip(b"\0")
    controls = len(text) - len(text.translate(None, _CONTROLS))
    if controls > max(_CONTROLS_MAX, _CONTROLS_SHARE_MAX * len(text)):
        raise UnreadableTextError(path, "it is a binary file, not text")


def _advice_for(path: str, name: str) -> str:
    codec = {"bzip2": "bz2", "Zstandard": "zstd", "LZ4": "lz4"}.get(name, name)
    suffix = next((suffix for suffix, known in CODECS.items() if known == codec), None)
    if suffix is None:
        return (
            f", which is not read here: decompress it first, or compress it as {', '.join(CODECS)}"
        )
    if path.endswith(suffix):
        return " twice: decompress it once"
    return f", but its name does not end in {suffix}: rename it"


def _by_zeros(start: bytes) -> str | None:
    for k, name in enumerate(("utf-16-be", "utf-16-le")):
        every_other = start[k::2]
        if len(every_other) > 1 and every_other.count(0) > _ZEROS_MIN * len(every_other):
            return name
    return None
