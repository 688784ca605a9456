"""Claims: exclusive numbered files below a job's root, so that a delivery has one writer.

    deliveries/<name>/<partition>/<epoch>     the delivering process; created exclusively
    deliveries/<name>/<partition>/begun       exists once the destination has rows
    deliveries/<name>/from                    the first item, and the partitions to which it applies
    deliveries/<name>/<partition>/at          position of a process outside the job, with its time

The destination stores the true position of the delivery. The position in ``at`` may be behind it,
never ahead. The job keeps all items from the position in ``at`` on.

The number of the newest file is the epoch of the delivery. A process that was suspended and resumes
finds a newer file, so it stops. The destination also rejects its writes, because it stores the
epoch with the progress.

Invariants: (1) at most one process has claimed an epoch; (2) a claim that is the newest after its
creation has a greater number than all earlier claims, even if older files were deleted meanwhile;
(3) all processes start a partition at the item that was recorded first: partitions that the output
gets after the delivery began start at item 0.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import quote

from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    read_json_document,
)
from rstream.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.store.protocol import BlobStore

FOLDER = "deliveries"
BEGUN = "begun"
FROM = "from"
AT = "at"
#: Exists in the root of an exported job until its output has all items that the former job has
#: delivered. A change before that would compute other items in their place.
BEHIND = "behind-deliveries"
_DIGITS = 10
#: Claims that a job may still make after its export, for example at restarts. The claims of the
#: exported job are later.
CLAIMS_LEFT = 1_000
#: Most attempts to claim. An attempt fails if another process claims the same epoch first.
TRIES_MAX = 100
NAME_BYTES_MAX = 200


def folder_name(delivery: str) -> str:
    """Return a folder name that is unique per delivery and at most 255 bytes long."""
    quoted = quote(delivery, safe="")
    if len(quoted) <= NAME_BYTES_MAX:
        return quoted
    mark = hashlib.blake2b(delivery.encode(), digest_size=16).hexdigest()
    return f"{quoted[: NAME_BYTES_MAX - len(mark) - 1]}+{mark}"  # a quoted name cannot contain "+"


class DeliveryClaim:
    """The right to deliver one partition. ``epoch`` is 0 until :meth:`take` succeeds."""

    def __init__(
        self, store: BlobStore, delivery: str, partition: int, present: Sequence[int] = ()
    ) -> None:
        """Make a claim below the job's root, whose store is ``store``.

        ``present``: all partitions that the output has now. Needed only to deliver.
        """
        self._store, self._partition = store, partition
        self._present = sorted({*present, partition})
        whole = f"{FOLDER}/{folder_name(delivery)}"
        self.folder = f"{whole}/{partition}"
        self._from = f"{whole}/{FROM}"
        self._begins: tuple[int, int] | None = None
        self._begun = f"{self.folder}/{BEGUN}"
        self._is_begun = False
        self.epoch = 0

    def take(self, now_us: int) -> int:
        """Become the writer in place of any former writer. Return the new epoch.

        Raises:
            StoreError: the store failed, or other processes claim first in each attempt.
        """
        me = {"pid": os.getpid(), "machine": socket.gethostname(), "written_us": now_us}
        for _ in range(TRIES_MAX):
            epoch = self._newest() + 1
            claim = json_document({**me, "epoch": epoch})
            if self._store.put_new(self._name(epoch), claim) and self._newest() == epoch:
                self.epoch = epoch
                self._delete_older()
                return epoch
        raise StoreError(
            f"{self._store.uri}/{self.folder}",
            "other processes claim this delivery again and again",
        )

    def note_begun(self) -> None:
        """Record in the root that the destination has rows."""
        if not self._is_begun:
            self._store.put(self._begun, b"")
            self._is_begun = True

    def has_begun(self) -> bool:
        """Return whether :meth:`note_begun` was called, by this process or an earlier one."""
        self._is_begun = self._is_begun or self._store.exists(self._begun)
        return self._is_begun

    def begins(self, start_seq: int) -> tuple[int, int]:
        """Return the recorded first items of the delivery and of this partition.

        If there is none, record ``start_seq`` for all present partitions. Called before the claim
        and before the destination is opened. So later processes and other partitions of the
        delivery start at the same item as the first process.

        Raises:
            BrokenDocumentError: the record was changed.
        """
        if self._begins is None:
            record = self._beginning(start_seq)
            if not self._store.put_new(self._from, record):
                record = self._store.get(self._from)
            if record.isdigit() and int(record):  # written by an earlier version
                record = self._beginning(int(record))
                self._store.put(self._from, record)
            if record.isdigit():
                self._begins = int(record), int(record)
            else:
                known = read_json_document(record)
                is_first = self._partition in known["partitions"]
                self._begins = known["seq"], known["seq"] if is_first else 0
        return self._begins

    def _beginning(self, start_seq: int) -> bytes:
        if not start_seq:
            return b"0"  # for all partitions, present and later
        return json_document({"seq": start_seq, "partitions": self._present})

    def is_newest(self) -> bool:
        """Return whether no other process has claimed the delivery since this claim."""
        return self._newest() == self.epoch

    def _delete_older(self) -> None:
        for epoch in self._epochs():
            if epoch < self.epoch - 1:
                self._store.delete(self._name(epoch))

    def _newest(self) -> int:
        return max(self._epochs(), default=0)

    def _epochs(self) -> list[int]:
        names = (path.rpartition("/")[2] for path in self._store.list(self.folder))
        return [int(name) for name in names if name.isdecimal()]

    def _name(self, epoch: int) -> str:
        return f"{self.folder}/{epoch:0{_DIGITS}d}"


def move_claims(source: BlobStore, target: BlobStore, delivery: str) -> None:
    """Let the root of an exported job continue a delivery, with later claims than here."""
    newest: dict[str, int] = {}
    for path in source.list(f"{FOLDER}/{folder_name(delivery)}"):
        folder, _, name = path.rpartition("/")
        if name.isdecimal():
            newest[folder] = max(newest.get(folder, 0), int(name))
        else:
            with contextlib.suppress(FileNotFoundError):  # a running job has replaced it meanwhile
                target.put(path, source.get(path))
    for folder, epoch in newest.items():
        moved = json_document({"moved_from": source.uri, "epoch": epoch})
        target.put(f"{folder}/{epoch + CLAIMS_LEFT:0{_DIGITS}d}", moved)


def report_position(store: BlobStore, delivery: str, partition: int, seq: int, now_us: int) -> None:
    """Record that this delivery needs no item below ``seq``.

    The file is synced at once: if a power failure lost it, the job would no longer keep items for
    this delivery.
    """
    place = f"{DeliveryClaim(store, delivery, partition).folder}/{AT}"
    store.put(place, json_document({"seq": seq, "written_us": now_us}))


def recorded_position(store: BlobStore, delivery: str, partition: int) -> int:
    """Return the last recorded position of this delivery, regardless of its age; 0 if none."""
    place = f"{DeliveryClaim(store, delivery, partition).folder}/{AT}"
    try:
        return int(read_json_document(store.get(place))["seq"])
    except (FileNotFoundError, BrokenDocumentError):
        return 0


def recorded_positions(store: BlobStore, since_us: int) -> dict[int, int]:
    """Return per partition the smallest position that was recorded at or after ``since_us``."""
    positions: dict[int, int] = {}
    for path in store.list(FOLDER):
        *_, partition, name = path.split("/")
        if name != AT or not partition.isdecimal():
            continue
        try:
            report = read_json_document(store.get(path))
        except (FileNotFoundError, BrokenDocumentError):
            continue
        if report["written_us"] >= since_us:
            k = int(partition)
            positions[k] = min(int(report["seq"]), positions.get(k, int(report["seq"])))
    return positions
