"""Find the ends of CSV rows: line ends outside of quotes.

The rules are the rules of Arrow. A quote opens a quoted field only at the field's beginning. Two
quotes inside a quoted field are one character. Text after the closing quote is plain.

One rule is added: if a quote is not closed within ``QUOTED_BYTES_MAX``, its row ends with its line
and is bad. Otherwise a single unmatched quote would make one row of the rest of the file.

Invariant: where a row ends depends on the text from the row's beginning, not on how much text has
been read.
"""

from __future__ import annotations

import csv
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rvertex.sources.formats.rows.line_rows import LineRows

#: The longest row with quotes, in bytes.
QUOTED_BYTES_MAX = 4 << 20
UNCLOSED = (
    f"a quote that is not closed within {QUOTED_BYTES_MAX >> 20} MiB (write longer fields as JSON "
    "lines or Parquet)"
)
_QUOTE, _LF, _CR = 34, 10, 13


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Row k is ``data[starts[k]:ends[k]]`` with its line end. Empty lines are skipped."""

    #: Start offsets of the rows, int64[n].
    starts: np.ndarray
    ends: np.ndarray
    #: bool[n]: whether the row has a quote that is not closed.
    is_open: np.ndarray


def cut_rows(data: bytes, delimiter: str, *, is_last: bool) -> CsvRows:
    """Divide text into complete rows. With ``is_last`` the remaining text is a row, too."""
    ends, is_open = _ends(data, delimiter, is_last=is_last)
    starts = np.append(0, ends[:-1]) if len(ends) else ends
    is_row = _lengths(data, starts, ends) > 0
    return CsvRows(starts[is_row], ends[is_row], is_open[is_row])


def whole_rows(data: bytes, delimiter: str, *, is_last: bool) -> tuple[int, bool]:
    """Return the bytes of the complete rows, and whether one of them has an open quote."""
    if b'"' in data:
        ends, is_open = _ends(data, delimiter, is_last=is_last)
        return (int(ends[-1]), bool(is_open.any())) if len(ends) else (0, False)
    if is_last:
        return len(data), False
    cut = data.rfind(b"\n") + 1
    return cut or data.rfind(b"\r", 0, max(0, len(data) - 1)) + 1, False


def _ends(data: bytes, delimiter: str, *, is_last: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the end offset of each row, int64[n], and whether it has an open quote, bool[n]."""
    ends = _quick_ends(data, delimiter, is_last=is_last)
    if ends is None:
        return _slow_ends(data, delimiter, is_last=is_last)
    return ends, np.zeros(len(ends), np.bool_)


def _quick_ends(data: bytes, delimiter: str, *, is_last: bool) -> np.ndarray | None:
    """Return the row ends of text whose quotes only enclose whole fields; None for other text."""
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == _LF)
    if b"\r" in data:
        alone = np.flatnonzero(text == _CR)
        after = np.append(text, 0)[alone + 1]
        ends = np.union1d(ends, alone[(after != _LF) & (alone < len(text) - 1)])
    if b'"' in data:
        quotes = np.flatnonzero(text == _QUOTE)
        if len(quotes) % 2 and not is_last:  # the last quote is closed in later text
            ends, quotes = ends[: np.searchsorted(ends, quotes[-1])], quotes[:-1]
            if len(ends) == 0:
                return None
        if not _are_usual(text, quotes, ord(delimiter)):
            return None
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    ends = ends + 1
    if is_last and (len(ends) == 0 or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    if b'"' in data and len(ends) and int(np.diff(ends, prepend=0).max()) > QUOTED_BYTES_MAX:
        return None
    return ends[ends > 0]


def _are_usual(text: np.ndarray, quotes: np.ndarray, delimiter: int) -> bool:
    """Return whether all quotes enclose whole fields or are doubled.

    That is, every odd quote begins a field and every even quote ends it or is doubled.
    """
    if len(quotes) == 0:
        return True
    if len(quotes) % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    edges = (delimiter, _LF, _CR)
    before = text[np.maximum(opening - 1, 0)]
    begins = np.isin(before, edges) | (opening == 0)
    begins[1:] |= opening[1:] == closing[:-1] + 1
    after = text[np.minimum(closing + 1, len(text) - 1)]
    ends = np.isin(after, edges) | (closing == len(text) - 1)
    ends[:-1] |= opening[1:] == closing[:-1] + 1
    return bool(begins.all() and ends.all())


def _slow_ends(data: bytes, delimiter: str, *, is_last: bool) -> tuple[np.ndarray, np.ndarray]:
    row, line = _patterns(delimiter)
    ends: list[int] = []
    is_open: list[bool] = []
    at = 0
    while at < len(data):  # ends: each round takes a row or a line, or stops
        match = row.match(data, at)
        end = -1 if match is None else match.end()
        if match is not None and end == len(data) and not is_last and match[1] != b"\n":
            break  # the row may be incomplete
        is_quoted = match is None or data.find(b'"', at, end) >= 0
        if match is None and not is_last and len(data) - at <= QUOTED_BYTES_MAX:
            break  # the quote may be closed in later text
        if match is None or (is_quoted and end - at > QUOTED_BYTES_MAX):
            stop = line.search(data, at)
            end = len(data) if stop is None else stop.end()
            is_open.append(True)
        else:
            is_open.append(False)
        ends.append(end)
        at = end
    return np.array(ends, np.int64), np.array(is_open, np.bool_)


@functools.cache
def _patterns(delimiter: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return the patterns of a row with its line end, and of a line end."""
    d = re.escape(delimiter.encode())
    plain = rb"[^" + d + rb"\r\n]"
    field = rb'(?:"(?:[^"]++|"")*+"' + plain + rb'*+|(?!")' + plain + rb"*+)"
    end = rb"(\r\n|\n|\r|\Z)"
    return re.compile(field + rb"(?:" + d + field + rb")*+" + end), re.compile(rb"\r\n|\n|\r")


def _lengths(data: bytes, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the lengths of rows in bytes, without their line ends."""
    if len(ends) == 0:
        return ends
    text = np.frombuffer(data, np.uint8)
    lengths: np.ndarray = ends - starts
    lengths -= np.isin(text[ends - 1], (_LF, _CR)) & (lengths > 0)
    last = text[np.maximum(starts + lengths - 1, 0)]
    lengths -= (last == _CR) & (text[ends - 1] == _LF) & (lengths > 0)
    return lengths


def field_counts(rows: LineRows, delimiter: str) -> np.ndarray:
    """Return the number of fields of each row, int64[n]."""
    if b'"' in rows.data:
        texts = (rows.raw(k).decode("latin-1") for k in range(len(rows.starts)))
        return np.array(
            [len(next(csv.reader((text,), delimiter=delimiter), ())) for text in texts], np.int64
        )
    at = np.flatnonzero(np.frombuffer(rows.data, np.uint8) == ord(delimiter))
    between: np.ndarray = np.searchsorted(at, rows.ends) - np.searchsorted(at, rows.starts)
    return between + 1
