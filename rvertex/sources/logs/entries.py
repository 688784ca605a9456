"""Entries: what chance or the clock decided about a log, written down before it has any effect.

Each entry is an item of one log partition and stands before a position of it: it takes effect
before the first row there or beyond. The entries of a partition are numbered from 0 and their
positions do not decrease. Source: ADR 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from rvertex.sources.versions import FileVersion  # noqa: TC001  (the decoder reads the hints)

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


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[LogEntry])


def encode_entries(entries: Sequence[LogEntry]) -> bytes:
    """The entries as msgpack."""
    return _ENCODER.encode(entries)


def decode_entries(data: bytes) -> list[LogEntry]:
    """What :func:`encode_entries` wrote.

    A field that is missing takes its default, one that is unknown is ignored.
    """
    return _DECODER.decode(data)
