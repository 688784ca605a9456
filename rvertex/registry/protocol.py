"""The interface of a registry's replicated store: a log per shard, and one replaceable value."""

from __future__ import annotations

from typing import Protocol


class ClaimLog(Protocol):
    """Logs of numbered entries. Thread-safe; each call blocks for limited time.

    Every method raises ``RegistryAwayError`` if the store did not answer.
    """

    def append(self, shard: int, data: bytes) -> int:
        """Append an entry, and return its number once a majority of the servers has it.

        After an error the entry may be in the log, or appear later.
        """

    def read(self, shard: int, next_seq: int, until_seq: int | None) -> list[tuple[int, bytes]]:
        """Return entries from ``next_seq`` on, with their numbers, in order; more may follow.

        ``until_seq``: wait until the entry of this number exists. None: do not wait.
        """

    def trim(self, shard: int, below_seq: int) -> None:
        """Allow the deletion of entries with lower numbers."""

    def read_map(self) -> tuple[int, bytes] | None:
        """Return the majority's current shard map, with its version; None: there is none."""

    def write_map(self, data: bytes, version: int | None) -> bool:
        """Replace the map if it still has this version (None: if there is none)."""
