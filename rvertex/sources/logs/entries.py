"""Journal entries: decisions about a log that depend on time, each durable before it takes effect.

A replay reads the entries instead of deciding again. Each entry belongs to one log partition, with
a position: it takes effect before the first row there or beyond. The entries of a partition are
numbered from 0, and their positions do not decrease. Source: ADR 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from rvertex.sources.versions import FileVersion  # noqa: TC001  (the decoder reads the hints)

if TYPE_CHECKING:
    from collections.abc import Sequence

#: "advance": no row below ``time`` follows. "file": the rows of a file start here. "lost": the rows
#: up to ``until`` were deleted and are skipped. "clock": the wall clock is ``time``; by it the host
#: decides whether rows before ``until`` start too far in the future. "end": no row follows.
EntryKind = Literal["advance", "file", "lost", "clock", "end"]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One decision. ``partition``: index among the partitions of the source vertex, from 0."""

    kind: EntryKind
    partition: int
    #: Number of the entry in its partition.
    index: int
    position: int
    #: Set for "advance" and "clock" only, us.
    time: int = 0
    #: Set for "lost" and "clock" only.
    until: int = 0
    #: Set for "file" only.
    path: str = ""
    version: FileVersion | None = None


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[LogEntry])


def encode_entries(entries: Sequence[LogEntry]) -> bytes:
    """Encode entries as msgpack."""
    return _ENCODER.encode(entries)


def decode_entries(data: bytes) -> list[LogEntry]:
    """Decode the result of :func:`encode_entries`.

    A missing field takes its default, an unknown field is ignored.
    """
    return _DECODER.decode(data)
