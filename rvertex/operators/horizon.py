"""How far back the state of operators reaches, so that it can be rebuilt from its inputs.

The *horizon* of an operator is the least known H such that, once ``CTI(T)`` was consumed, what it
will put out depends on no input event that starts before ``T - H``; nor does the CTI that it owes
for T, and a CTI before ``T - H`` is of no matter. *Durations* are the greatest lifetimes of the
events of each port, None where there is no bound; so is a horizon of None.

Theory. In a chain the second operator needs what the first one puts out from ``T2 - H2`` on, where
T2 is the CTI that the first one made of T. An operator that owes ``T2 >= T - L`` and makes an event
of start v from inputs that start at ``v - B`` or later has ``H >= L + B``; so horizons add up (a
shift moves both sides alike). What the first one puts out before that, while its own state is not
whole yet, is wrong in content but not in form, and lies before the second one's horizon.
``tests/support/operator_harness.py`` asks it of every operator that claims a horizon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.protocol import OperatorSpec

#: Greatest lifetime of the events of each port, us; None: no bound.
Durations = tuple[int | None, ...]


@runtime_checkable
class Reaching(Protocol):
    """What a specification has beyond OperatorSpec if it knows how far back it reaches."""

    def horizon_us(self, durations: Durations) -> int | None:
        """The horizon, None if there is none."""

    def output_duration(self, durations: Durations) -> int | None:
        """The greatest lifetime of its output events, None if there is no bound."""


def horizon_of(operator: OperatorSpec, durations: Durations) -> int | None:
    """The horizon of one operator; None if it does not say."""
    return operator.horizon_us(durations) if isinstance(operator, Reaching) else None


def output_duration_of(operator: OperatorSpec, durations: Durations) -> int | None:
    """The greatest lifetime of its output events; None if it does not say."""
    return operator.output_duration(durations) if isinstance(operator, Reaching) else None


def chain_horizon(operators: Sequence[OperatorSpec], durations: Durations) -> int | None:
    """The horizon of operators in a row; ``durations`` are those of the first one's ports."""
    total = 0
    for operator in operators:
        horizon = horizon_of(operator, durations)
        if horizon is None:
            return None
        total += horizon
        durations = (output_duration_of(operator, durations),)
    return total


def chain_output_duration(operators: Sequence[OperatorSpec], durations: Durations) -> int | None:
    """The greatest lifetime of what operators in a row put out."""
    for operator in operators:
        durations = (output_duration_of(operator, durations),)
    return durations[0]


def sum_us(*durations: int | None) -> int | None:
    """The sum, None if one has no bound."""
    known = [d for d in durations if d is not None]
    return sum(known) if len(known) == len(durations) else None


def greatest_us(durations: Durations) -> int | None:
    """The greatest, None if one has no bound."""
    known = [d for d in durations if d is not None]
    return max(known) if len(known) == len(durations) else None


def least_us(durations: Durations) -> int | None:
    """The least of those that have a bound."""
    return min((d for d in durations if d is not None), default=None)


class RowByRow:
    """Base of specifications of operators without a state that leave lifetimes as they are."""

    __slots__ = ()

    def horizon_us(self, durations: Durations) -> int | None:
        """Nothing is kept."""
        return 0

    def output_duration(self, durations: Durations) -> int | None:
        """Lifetimes pass."""
        return durations[0]
