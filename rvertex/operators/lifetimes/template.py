"""Base classes of stateless operators that change lifetimes: only the specification differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rvertex.operators.protocol import SameColumns, Stateless

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rvertex.events.run import Run
    from rvertex.operators.horizon import Durations


class Changed(Protocol):
    """The method that a specification must implement."""

    def change(self, run: Run) -> Run:
        """Return the run with changed lifetimes."""


class ChangesLifetimes(SameColumns):
    """Base of specifications that keep all columns and do not hold back CTIs (watermarks)."""

    __slots__ = ()

    def horizon_us(self, durations: Durations) -> int | None:
        """Return 0: the operator keeps no state."""
        return 0

    def open(self: Changed, inputs: Sequence[pa.Schema]) -> LifetimeOperator:
        """Open the operator; it has no state."""
        return LifetimeOperator(self)


class LifetimeOperator(Stateless):
    """Applies the ``change`` of a specification to each run."""

    def __init__(self, spec: Changed) -> None:
        self._change = spec.change

    def process(self, ports: Sequence[Run]) -> Run:
        """Change the run."""
        (run,) = ports
        return self._change(run)
