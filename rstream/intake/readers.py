"""How far the jobs that read a log are, so that its retention keeps what they still need.

    _readers/<reader>      the position that it has told, and when

A reader tells its position now and then. It may be behind the truth, never ahead. One that has been
silent for too long counts as given up.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore

FOLDER = "_readers"


def tell_position(store: BlobStore, reader: str, seq: int, now_us: int) -> None:
    """Say that this reader needs nothing below ``seq``.

    Made durable at once: a position that the power takes along would hold nothing any more.
    """
    told = json.dumps({"seq": seq, "written_us": now_us}).encode()
    store.put(_name(reader), told)


def forget_reader(store: BlobStore, reader: str) -> None:
    """It needs nothing any more."""
    store.delete(_name(reader))


def needed_seq(store: BlobStore, since_us: int) -> int | None:
    """The least position that was told since then; None: nobody has told any.

    What cannot be read was cut by a crash; its reader tells it again, and holds all until then.
    """
    found: int | None = None
    for path in store.list(FOLDER):
        try:
            data = store.get(path)
        except FileNotFoundError:
            continue
        seq, written_us = _parsed(data)
        if written_us is None or written_us >= since_us:
            found = seq if found is None else min(found, seq)
    return found


def _parsed(data: bytes) -> tuple[int, int | None]:
    try:
        told = json.loads(data)
        return int(told["seq"]), int(told["written_us"])
    except (ValueError, KeyError, TypeError):
        return 0, None


def _name(reader: str) -> str:
    return f"{FOLDER}/{quote(reader, safe='')}"
