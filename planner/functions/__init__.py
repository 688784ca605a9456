"""The functions that expressions may call, by name; plans hold the names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.functions import arithmetic, casting, logic, ranked, temporal, text, trying

if TYPE_CHECKING:
    from planner.functions.signature import Function

FUNCTIONS: dict[str, Function] = {
    **arithmetic.FUNCTIONS,
    **logic.FUNCTIONS,
    **text.FUNCTIONS,
    **temporal.FUNCTIONS,
    **casting.FUNCTIONS,
    **trying.FUNCTIONS,
    **ranked.FUNCTIONS,
}

__all__ = ["FUNCTIONS"]
