"""Rejects rows of a live log that start too far in the future: they become bad rows.

A row is early if it starts more than ``max_ahead`` after the wall clock. The clock differs in each
run, so the host journals it in "clock" entries, and a replay compares rows with the journaled time.
An entry decides the rows before its position ``until``. When a row beyond the last ``until`` looks
early, the host first writes a new entry with the current time. Rows that are not early need no
entry: with ``max_ahead="1h"`` about one entry is written per hour. Pure.

Invariant: which rows are bad is a function of the log and its entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.items.json_text import json_rows
from rstream.types import INF_TIME, MIN_TIME
from rvertex.sources.events import iso, too_far_ahead
from rvertex.sources.formats.rows.bad_rows import DEAD
from rvertex.sources.logs.errors import LogRowError
from rvertex.sources.logs.protocol import DEAD_POSITION, LogRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.spec import SourceSpec

#: The clock before the first entry. By it every row is early, so the host writes an entry.
NO_CLOCK = [int(MIN_TIME), 0]


@dataclass(frozen=True, slots=True)
class EarlyRows:
    """The rule by which the rows of one partition are early."""

    source: str
    partition: int
    max_ahead_us: int
    #: The column with the event's start; "(vs)" for an expression.
    column: str
    fails: bool

    @staticmethod
    def of(spec: SourceSpec, partition: int) -> EarlyRows | None:
        """Return the rule of a source; None if it has no ``max_ahead``."""
        assert spec.live is not None, spec.path
        if spec.checks.max_ahead_us is None:
            return None
        column = spec.vs if isinstance(spec.vs, str) else "(vs)"
        fails = spec.checks.on_bad_row == "fail"
        source = spec.shown or spec.path
        return EarlyRows(source, partition, spec.checks.max_ahead_us, column, fails)

    def lack(self, rows: LogRows, clocks: Sequence[Sequence[int]]) -> bool:
        """Return whether a row needs a new "clock" entry: it is early and after every ``until``."""
        return bool((self._ahead(rows, clocks)[0] & (rows.positions >= clocks[-1][1])).any())

    def _ahead(
        self, rows: LogRows, clocks: Sequence[Sequence[int]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows are early, bool[n], and the clock time each was compared with, us.

        A row is compared with the first clock whose ``until`` is beyond it, else with the last
        clock.
        """
        times, untils = np.array(clocks, np.int64).T
        first = untils.searchsorted(rows.positions, side="right")
        compared = times[np.minimum(first, len(times) - 1)]
        latest = np.minimum(compared, INF_TIME - self.max_ahead_us) + self.max_ahead_us
        return int64_column(rows.batch, VS) > latest, compared

    def set_aside(self, rows: LogRows, clocks: Sequence[Sequence[int]]) -> LogRows:
        """Move early rows to the bad rows.

        Raises:
            LogRowError: a row is early, and the source does not skip bad rows.
        """
        is_early, compared = self._ahead(rows, clocks)
        if not is_early.any():
            return rows
        positions = rows.positions[is_early]
        values = [iso(time) for time in int64_column(rows.batch, VS)[is_early].tolist()]
        reasons = [too_far_ahead(self.max_ahead_us, at) for at in compared[is_early].tolist()]
        if self.fails:
            at = int(positions[0])
            raise LogRowError(self.source, self.partition, at, reasons[0], values[0])
        taken = pa.array(is_early)
        places = zip(positions.tolist(), values, reasons, self._origins(rows, taken), strict=True)
        early = pa.RecordBatch.from_pylist(
            [
                {
                    **origin,
                    "partition": self.partition,
                    DEAD_POSITION: position,
                    "column": self.column,
                    "value": value,
                    "reason": reason,
                }
                for position, value, reason, origin in places
            ],
            schema=DEAD,
        )
        kept = pa.array(~is_early)
        dead = early if rows.dead is None else _in_order(pa.concat_batches([rows.dead, early]))
        return LogRows(rows.positions[~is_early], rows.batch.filter(kept), rows.next_position, dead)

    def _origins(self, rows: LogRows, taken: pa.Array) -> list[dict[str, Any]]:
        """Return the origin of each row in ``taken``.

        If the log has no origins, the row as JSON.
        """
        texts = json_rows(rows.batch.filter(taken))
        if rows.origins is None:
            return [{"source": self.source, "raw": text} for text in texts]
        origins = rows.origins.filter(taken).to_pylist()
        return [
            {**origin, "raw": text if origin["raw"] is None else origin["raw"]}
            for origin, text in zip(origins, texts, strict=True)
        ]


def _in_order(dead: pa.RecordBatch) -> pa.RecordBatch:
    order = np.argsort(dead.column(DEAD_POSITION).to_numpy(), kind="stable")
    return dead.take(pa.array(order))
