"""What a registry needs of a replicated store: a log per shard, and one value that is replaced."""

from __future__ import annotations

from typing import Protocol


class ClaimLog(Protocol):
    """Logs of entries with ascending numbers. Threads may call it; each call waits, bounded.

    Every method raises ``RegistryAwayError`` if the store did not answer.
    """

    def append(self, shard: int, data: bytes) -> int:
        """Append an entry, on a majority of the servers when it returns; its number.

        After an error the entry may be in the log, or be there later.
        """

    def read(self, shard: int, next_seq: int, until_seq: int | None) -> list[tuple[int, bytes]]:
        """Entries from ``next_seq`` on, with their numbers, in order; some may follow.

        ``until_seq``: wait until the entry of this number is there. None: what there is.
        """

    def trim(self, shard: int, below_seq: int) -> None:
        """Entries with lower numbers may be deleted."""

    def read_map(self) -> tuple[int, bytes] | None:
        """The shard map as the majority has it now, with its version; None: there is none."""

    def write_map(self, data: bytes, version: int | None) -> bool:
        """Replace the map if it has this version still (None: if there is none)."""
