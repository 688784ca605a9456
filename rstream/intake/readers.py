"""Positions of the jobs that read a log, so that its retention keeps the rows they still need.

    _readers/<reader>      the reader's last reported position, and the time of the report

A reader reports its position periodically. The report may lag behind, but is never ahead. A reader
that has not reported for ``reader_wait_s`` is ignored.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore

FOLDER = "_readers"


def report_position(store: BlobStore, reader: str, seq: int, now_us: int) -> None:
    """Record that this reader needs no rows below ``seq``.

    The file is synced: if a power failure lost it, retention might delete the reader's rows.
    """
    document = json.dumps({"seq": seq, "written_us": now_us}).encode()
    store.put(_name(reader), document)


def forget_reader(store: BlobStore, reader: str) -> None:
    """Delete the reader's position, because it needs no more rows."""
    store.delete(_name(reader))


def needed_seq(store: BlobStore, since_us: int) -> int | None:
    """Return the least position reported since ``since_us``; None: no reader has reported.

    An unreadable report, incomplete after a crash, keeps all rows until its reader reports again.
    """
    least: int | None = None
    for path in store.list(FOLDER):
        try:
            data = store.get(path)
        except FileNotFoundError:
            continue
        seq, written_us = _parsed(data)
        if written_us is None or written_us >= since_us:
            least = seq if least is None else min(least, seq)
    return least


def _parsed(data: bytes) -> tuple[int, int | None]:
    try:
        document = json.loads(data)
        return int(document["seq"]), int(document["written_us"])
    except (ValueError, KeyError, TypeError):
        return 0, None


def _name(reader: str) -> str:
    return f"{FOLDER}/{quote(reader, safe='')}"
