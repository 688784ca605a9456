"""Which operator of a vertex holds time back, for people who wait for rows. Pure.

An operator holds time back if what it has put out, rows and CTIs, is behind what it got. Of several
the first counts: those behind it wait for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rstream.types import INF_TIME, MIN_TIME
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
        """The start and the key of the earliest row whose end is not known; None: there is none."""


def holding(
    specs: Sequence[OperatorSpec], operators: Sequence[Operator], reached: Sequence[int]
) -> tuple[Hold, ...]:
    """What holds time back, or nothing.

    ``reached``: the last start or CTI that came in, then the last one of each operator.
    """
    for k, (spec, operator) in enumerate(zip(specs, operators, strict=True)):
        inside = spec.operator if isinstance(spec, ForwardCtis) else spec
        is_window = type(inside).__module__.startswith(_WINDOWS)
        if reached[k + 1] >= reached[k] or reached[k] == INF_TIME:
            continue
        if not (inside.holds_ctis or is_window):
            continue  # it only moves times
        since_us, what = reached[k + 1], ""
        row = operator.first_held() if isinstance(operator, HoldsRows) else None
        if row is not None:
            since_us, key = row
            what = ", ".join(f"{name}={_shown(value)}" for name, value in key.items())
        elif since_us == MIN_TIME and not is_window:
            continue  # as it was loaded, it has put out nothing yet
        return (Hold(words_of(inside), what, since_us, is_window and not inside.holds_ctis),)
    return ()


def words_of(spec: object) -> str:
    """What an operator is called: ``AntiJoin`` is an anti join."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(spec).__name__).lower()


def _shown(value: object) -> str:
    text = repr(value)
    cut = _VALUE_CHARACTERS_MAX
    return text if len(text) <= cut else text[: cut - 3] + "..."
