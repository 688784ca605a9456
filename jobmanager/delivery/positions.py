"""How far deliveries of other processes are, so that the job keeps what they still need.

    deliveries/<name>/<partition>/at      the position that a process has told, and when

A position lies at its destination; this one may be behind it, never ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.delivery.claim import FOLDER, DeliveryClaim
from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    read_json_document,
)

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore

AT = "at"


def tell_position(store: BlobStore, delivery: str, partition: int, seq: int, now_us: int) -> None:
    """Say that this delivery needs nothing below ``seq``.

    Made durable at once: a position that the power takes along would hold nothing any more.
    """
    place = f"{DeliveryClaim(store, delivery, partition).folder}/{AT}"
    store.put(place, json_document({"seq": seq, "written_us": now_us}))


def told_position(store: BlobStore, delivery: str, partition: int) -> int:
    """What was told last of this delivery, however long ago; 0 if nothing was."""
    place = f"{DeliveryClaim(store, delivery, partition).folder}/{AT}"
    try:
        return int(read_json_document(store.get(place))["seq"])
    except (FileNotFoundError, BrokenDocumentError):
        return 0


def told_positions(store: BlobStore, since_us: int) -> dict[int, int]:
    """By partition the least position that was told since then."""
    found: dict[int, int] = {}
    for path in store.list(FOLDER):
        *_, partition, name = path.split("/")
        if name != AT or not partition.isdecimal():
            continue
        try:
            told = read_json_document(store.get(path))
        except (FileNotFoundError, BrokenDocumentError):
            continue
        if told["written_us"] >= since_us:
            k = int(partition)
            found[k] = min(int(told["seq"]), found.get(k, int(told["seq"])))
    return found
