"""A gate before sources: a job cannot end before a test has disturbed it, on any machine.

It changes no output, because output does not depend on batches.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rstream.items.batch import int64_column
from rvertex.host import opening
from rvertex.host.pacing import Pace

if TYPE_CHECKING:
    import pyarrow as pa
    import pytest

_LOOK_S = 0.01


class SourceGate:
    """The event time up to which local sources may read; open at first."""

    def __init__(self) -> None:
        self._until_us: int | None = None

    def stand(self, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
        """Install the gate for all sources that are opened later; for ever without a patch."""
        if monkeypatch is None:
            vars(opening)["Pace"] = partial(GatedPace, self)
        else:
            monkeypatch.setattr(opening, "Pace", partial(GatedPace, self))

    def close_at_time(self, until_us: int) -> None:
        """Hold back events that start later."""
        self._until_us = until_us

    def open(self) -> None:
        """Let all events pass."""
        self._until_us = None

    def passing_rows(self, batch: pa.RecordBatch, column: str) -> int:
        """The number of leading rows of ``batch`` that may pass."""
        until_us = self._until_us
        if until_us is None or batch.num_rows == 0:
            return int(batch.num_rows)
        late = np.flatnonzero(int64_column(batch, column) > until_us)
        return int(late[0]) if len(late) else int(batch.num_rows)


class GatedPace(Pace):
    """A pace at which a row is due only when both the clock and the gate let it pass."""

    def __init__(self, gate: SourceGate, *pace: Any, **began: Any) -> None:
        super().__init__(*pace, **began)
        self._gate = gate

    def ready_rows(self, batch: pa.RecordBatch, column: str) -> int:
        passing = self._gate.passing_rows(batch, column)
        return super().ready_rows(batch.slice(0, passing), column)

    def wait_s(self, batch: pa.RecordBatch, column: str) -> float | None:
        if self._gate.passing_rows(batch.slice(0, 1), column) == 0:
            return _LOOK_S
        return super().wait_s(batch, column)
