"""The digest of a stream's durable prefix, mostly computed from the footers of its segments.

Invariants: (1) the digest covers the items ``[0, seq)``, as a reader would read them; (2) items are
read only from row groups that are partly in the prefix; (3) counted segments are not read again.
Retention keeps the digest of the items it deletes (:mod:`rstream.log.retention`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rstream.items.digest import StreamDigest
from rstream.log.durable import DurableLog

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore
    from rstream.types import SeqRange


class PrefixDigest:
    """A growing prefix. ``digest`` is the digest of the items below ``seq``."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._log: DurableLog | None = None
        self.seq = 0
        self.digest = StreamDigest()

    def reach(self, until: int) -> bool:
        """Extend to ``until`` or the durable end; return whether ``until`` was reached.

        A shorter prefix is computed from the start again. The prefix contains at least the deleted
        items, even if these reach beyond ``until``.
        """
        if self.seq == until:
            return True
        if until < self.seq:
            self.seq, self.digest = 0, StreamDigest()
        if self._log is None:
            self._log = DurableLog(self._store, self._store.uri)
        self._log.refresh()
        self._pass_over()
        while self.seq < until and (segment := self._log.lookup(self.seq)) is not None:
            try:
                self._take(segment, until)
            except FileNotFoundError:  # the segment was merged into another since the listing
                self._log.refresh()
                self._pass_over()
                if self._log.lookup(self.seq) == segment:
                    break
        return self.seq == until

    def _pass_over(self) -> None:
        """Start after the deleted items, with their digest."""
        assert self._log is not None
        seq, digest = self._log.beginning
        if seq > self.seq:
            self.seq, self.digest = seq, StreamDigest.from_bytes(digest)

    def _take(self, segment: SeqRange, until: int) -> None:
        assert self._log is not None
        with contextlib.closing(self._log.open(segment)) as file:
            for seqs, digest in file.group_digests():
                if seqs.hi <= self.seq or self.seq >= until:
                    continue
                if seqs.lo == self.seq and seqs.hi <= until:
                    self.digest.add(digest)
                    self.seq = seqs.hi
                    continue
                items = file.read_group(self.seq, verify=True)
                items = items.head(until - self.seq)
                self.digest.update(items.first_seq, items.batch)
                self.seq = items.next_seq
