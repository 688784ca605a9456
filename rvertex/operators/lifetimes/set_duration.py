"""SET DURATION: every event lives for the same time from its start on.

``[vs, ve)`` becomes ``[vs, vs + d)``, ``d >= 1``; past the time axis that is ``[vs, INF_TIME)``.
CTIs pass, as no start changes.

    set_duration(4)   in             out
                      [1, 2) a       [1, 5) a
                      [3, INF) b     [3, 7) b
                      CTI(4)         CTI(4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rstream.items.batch import VS, int64_column
from rvertex.events.lifetime import lasting, with_times
from rvertex.events.run import Run
from rvertex.operators.protocol import Stateless

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rvertex.operators.horizon import Durations


@dataclass(frozen=True, slots=True)
class SetDuration:
    """Gives every event the length ``duration_us``, at least 1."""

    holds_ctis: ClassVar[bool] = False

    duration_us: int

    def __post_init__(self) -> None:
        assert self.duration_us >= 1, self.duration_us

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's schema."""
        (payload,) = inputs
        return payload

    def horizon_us(self, durations: Durations) -> int | None:
        """Nothing is kept."""
        return 0

    def output_duration(self, durations: Durations) -> int | None:
        """All live as long."""
        return self.duration_us

    def open(self, inputs: Sequence[pa.Schema]) -> SetDurationOperator:
        """The operator; it has no state."""
        return SetDurationOperator(self.duration_us)


class SetDurationOperator(Stateless):
    """See :class:`SetDuration`."""

    def __init__(self, duration_us: int) -> None:
        self._duration_us = duration_us

    def process(self, ports: Sequence[Run]) -> Run:
        """Replace every end."""
        (run,) = ports
        vs = int64_column(run.events, VS)
        return Run(with_times(run.events, ve=lasting(vs, self._duration_us)), run.ctis)
