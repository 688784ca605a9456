"""Makes items durable in a folder with other writers: replicas, or a replaced instance.

The first write of a seq wins. Before the writer stores the items of a cut, it lists the folder
again. It skips the items that other writers have made durable; in verify mode it compares them. Two
writers may still store the same items at the same moment, which readers tolerate as overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.items.batch import Items
from rstream.log.conflicts import check_same
from rstream.log.reader import SegmentCursor

if TYPE_CHECKING:
    from rstream.log.durable import DurableLog
    from rstream.log.tail import Cut


class SharedWriter:
    """Writes segments of one stream, without the items that other writers have made durable."""

    def __init__(self, log: DurableLog, *, verify: bool) -> None:
        self._log = log
        self._verify = verify
        #: Number of items that other writers had made durable.
        self.taken_over = 0

    def write(self, cut: Cut) -> None:
        """Make the items of ``cut`` durable.

        Raises:
            SequenceConflictError: (verify mode) items of another writer differ.
        """
        self._log.refresh()
        there = min(self._log.contiguous_end(cut.first_seq), cut.next_seq)
        if there > cut.first_seq:
            self._take_over(cut.below(there))
        if there < cut.next_seq:
            self._log.write(cut.from_seq(there))

    def _take_over(self, cut: Cut) -> None:
        self.taken_over += cut.next_seq - cut.first_seq
        if not self._verify:
            return
        cursor = SegmentCursor(self._log)
        seq = cut.first_seq
        try:
            for batch in cut.batches:
                check_same(self._log.stream, cursor.read, Items(seq, batch))
                seq += batch.num_rows
        finally:
            cursor.close()
