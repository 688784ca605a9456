"""Finds the operator that holds back the watermark of a vertex, to show it to users. Pure.

An operator holds it back if the last row or CTI it emitted is earlier than the last row or CTI it
got. The first such operator of the chain is reported, because the operators after it wait for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rstream.types import INF_TIME, MIN_TIME, implements
from rvertex.messages import Hold
from rvertex.operators.cti_forwarding import ForwardCtis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rvertex.operators.protocol import Operator, OperatorSpec

_WINDOWS = "rvertex.operators.windows."
_VALUE_CHARACTERS_MAX = 60


@runtime_checkable
class HoldsRows(Protocol):
    """An operator that can name the row for whose end it waits."""

    def first_held(self) -> tuple[int, Mapping[str, Any]] | None:
        """Return start and key of the earliest row without a known end; None: there is none."""


def holding(
    specs: Sequence[OperatorSpec], operators: Sequence[Operator], reached: Sequence[int]
) -> tuple[Hold, ...]:
    """Return the operator that holds the watermark back; an empty tuple if there is none.

    ``reached`` has the last start or CTI, us, that the input side released, and then that each
    operator emitted.
    """
    for k, (spec, operator) in enumerate(zip(specs, operators, strict=True)):
        inside = spec.operator if isinstance(spec, ForwardCtis) else spec
        is_window = type(inside).__module__.startswith(_WINDOWS)
        if reached[k + 1] >= reached[k] or reached[k] == INF_TIME:
            continue
        if not (inside.holds_ctis or is_window):
            continue  # this operator only changes times
        since_us, what = reached[k + 1], ""
        row = operator.first_held() if implements(operator, HoldsRows) else None
        if row is not None:
            since_us, key = row
            what = ", ".join(f"{name}={_shown(value)}" for name, value in key.items())
        elif since_us == MIN_TIME and not is_window:
            continue  # this operator was just loaded, and has emitted no row yet
        name = words_of(_holder(inside))
        return (Hold(name, what, since_us, is_window and not inside.holds_ctis),)
    return ()


def _holder(spec: OperatorSpec) -> OperatorSpec:
    """Return the operator to name: of a vertex with several key ranges, one of its chain."""
    chain: tuple[OperatorSpec, ...] = getattr(spec, "chain", ())
    inside = [one.operator if isinstance(one, ForwardCtis) else one for one in chain]
    windows = [one for one in inside if type(one).__module__.startswith(_WINDOWS)]
    holders = [one for one in inside if one.holds_ctis]
    return next(iter([*holders, *windows, *inside]), spec)


def words_of(spec: object) -> str:
    """Return the name of an operator from the class of its spec: ``AntiJoin`` is "anti join"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(spec).__name__).lower()


def _shown(value: object) -> str:
    text = repr(value)
    cut = _VALUE_CHARACTERS_MAX
    return text if len(text) <= cut else text[: cut - 3] + "..."
