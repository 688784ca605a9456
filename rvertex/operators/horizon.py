"""The horizon of operators: how old input may be that still influences their state and output.

Recovery uses it to rebuild state from input rows instead of reading a checkpoint.

The *horizon* of an operator is the smallest known H with this property. Once it has consumed
``CTI(T)`` (a watermark), its later output depends on no input event that starts before ``T - H``.
Nor does the CTI that it emits for T, and CTIs before ``T - H`` are ignored. *Durations* are the
greatest lifetimes of the events of each port. None means no bound, for durations and horizons.

Theory. Let the first operator of a chain emit ``CTI(T2)`` for ``CTI(T)``. The second operator needs
the first one's output from ``T2 - H2`` on. If the first emits ``T2 >= T - L``, and computes an
event with start v from inputs that start at ``v - B`` or later, then its horizon is ``H >= L + B``.
So the horizons of a chain add up; a shift moves both sides alike. While the first operator's state
is incomplete, its output has wrong values but is in normal form, and it is older than the second
operator's horizon. ``tests/support/operator_harness.py`` checks this for every operator that claims
a horizon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rstream.types import implements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.protocol import OperatorSpec

#: Greatest lifetime of the events of each port, in microseconds; None: no bound.
Durations = tuple[int | None, ...]


@runtime_checkable
class Reaching(Protocol):
    """The methods of an operator specification that declares its horizon."""

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the horizon in microseconds, None if it has no bound."""

    def output_duration(self, durations: Durations) -> int | None:
        """Return the greatest lifetime of output events, in us; None if it has no bound."""


def horizon_of(operator: OperatorSpec, durations: Durations) -> int | None:
    """Return the horizon of one operator; None if it has no bound or is not declared."""
    return operator.horizon_us(durations) if implements(operator, Reaching) else None


def output_duration_of(operator: OperatorSpec, durations: Durations) -> int | None:
    """Return the greatest lifetime of its output events, us; None if unbounded or not declared."""
    return operator.output_duration(durations) if implements(operator, Reaching) else None


def chain_horizon(operators: Sequence[OperatorSpec], durations: Durations) -> int | None:
    """Return the sum of the horizons of a chain; ``durations``: of the first operator's ports."""
    total = 0
    for operator in operators:
        horizon = horizon_of(operator, durations)
        if horizon is None:
            return None
        total += horizon
        durations = (output_duration_of(operator, durations),)
    return total


def chain_output_duration(operators: Sequence[OperatorSpec], durations: Durations) -> int | None:
    """Return the greatest lifetime of the events that a chain of operators emits."""
    for operator in operators:
        durations = (output_duration_of(operator, durations),)
    return durations[0]


def sum_us(*durations: int | None) -> int | None:
    """Return the sum, None if any term is None."""
    known = [d for d in durations if d is not None]
    return sum(known) if len(known) == len(durations) else None


def greatest_us(durations: Durations) -> int | None:
    """Return the maximum, None if any term is None."""
    known = [d for d in durations if d is not None]
    return max(known) if len(known) == len(durations) else None


def least_us(durations: Durations) -> int | None:
    """Return the minimum of the terms that are not None."""
    return min((d for d in durations if d is not None), default=None)


class Unbounded:
    """Base of operator specifications whose state may depend on any earlier row."""

    __slots__ = ()

    def horizon_us(self, durations: Durations) -> int | None:
        """Return None: lifetimes have no bound, or the number of all earlier rows matters."""
        return None


class SameLifetimes(Unbounded):
    """Base of specifications whose output lives no longer than the rows of the first port."""

    __slots__ = ()

    def output_duration(self, durations: Durations) -> int | None:
        """Return the greatest lifetime of the first port's rows, an upper bound of the output's."""
        return durations[0]


class RowByRow(SameLifetimes):
    """Base of specifications of stateless operators that do not change lifetimes."""

    __slots__ = ()

    def horizon_us(self, durations: Durations) -> int | None:
        """Return 0: the operator keeps no state."""
        return 0
