"""Entries: what chance or the clock decided about a log, written down before it has any effect.

Each entry is an item of one log partition and stands before a position of it: it takes effect
before the first row there or beyond. The entries of a partition are numbered from 0 and their
positions do not decrease. Source: ADR 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgpack

from rvertex.sources.versions import FileVersion

if TYPE_CHECKING:
    from collections.abc import Sequence

#: "advance": nothing below ``time`` follows. "file": the rows of a file stand here. "lost": the log
#: goes on at ``until``, what lies between is gone. "clock": the wall clock says ``time``, by which
#: rows up to ``until`` are found to be too far ahead. "end": nothing follows.
EntryKind = Literal["advance", "file", "lost", "clock", "end"]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One decision; ``partition`` counts the partitions of the source vertex from 0."""

    kind: EntryKind
    partition: int
    #: Its number among the entries of the partition.
    index: int
    position: int
    #: "advance" and "clock" only, us.
    time: int = 0
    #: "lost" and "clock" only.
    until: int = 0
    #: "file" only.
    path: str = ""
    version: FileVersion | None = None


def encode_entries(entries: Sequence[LogEntry]) -> bytes:
    """The entries as msgpack."""
    packed: bytes = msgpack.packb([_row(entry) for entry in entries])
    return packed


def decode_entries(data: bytes) -> list[LogEntry]:
    """What :func:`encode_entries` wrote."""
    return [_entry(row) for row in msgpack.unpackb(data)]


def _row(entry: LogEntry) -> list[Any]:
    version = entry.version
    return [
        *(entry.kind, entry.partition, entry.index, entry.position),
        *(entry.time, entry.until, entry.path),
        None if version is None else [version.size_bytes, version.stamps],
    ]


def _entry(row: list[Any]) -> LogEntry:
    kind, partition, index, position, time, until, path, told = row
    version = None
    if told is not None:
        size_bytes, stamps = told
        version = FileVersion(size_bytes, tuple((name, value) for name, value in stamps))
    return LogEntry(kind, partition, index, position, time, until, path, version)
