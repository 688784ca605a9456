"""The functions that expressions may call, by name; plans store only the names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.expressions.entries import varying
from planner.expressions.functions import (
    arithmetic,
    calendar,
    casting,
    containers,
    logic,
    numbers,
    temporal,
    trying,
    user,
    zones,
)
from planner.expressions.functions.of_rows import (
    frames,
    lambdas,
    list_calls,
    list_makers,
    ranked,
    row_patterns,
)
from planner.expressions.functions.texts import (
    as_engine,
    codes,
    encodings,
    json_parts,
    json_paths,
    likeness,
    number_texts,
    parsing,
    places,
    regexp_lists,
    text,
    urls,
    words,
)
from planner.expressions.nodes import REGISTRY, USER

if TYPE_CHECKING:
    from planner.expressions.nodes import Function

FUNCTIONS: dict[str, Function] = {
    **arithmetic.FUNCTIONS,
    **logic.FUNCTIONS,
    **text.FUNCTIONS,
    **temporal.FUNCTIONS,
    **casting.FUNCTIONS,
    **trying.FUNCTIONS,
    **ranked.FUNCTIONS,
    **numbers.FUNCTIONS,
    **words.FUNCTIONS,
    **codes.FUNCTIONS,
    **as_engine.FUNCTIONS,
    **encodings.FUNCTIONS,
    **number_texts.FUNCTIONS,
    **calendar.FUNCTIONS,
    **containers.FUNCTIONS,
    **lambdas.FUNCTIONS,
    **list_calls.FUNCTIONS,
    **list_makers.FUNCTIONS,
    **frames.FUNCTIONS,
    **likeness.FUNCTIONS,
    **parsing.FUNCTIONS,
    **urls.FUNCTIONS,
    **places.FUNCTIONS,
    **json_paths.FUNCTIONS,
    **json_parts.FUNCTIONS,
    **regexp_lists.FUNCTIONS,
    **varying.FUNCTIONS,
    **row_patterns.FUNCTIONS,
    **zones.FUNCTIONS,
}
REGISTRY.update(FUNCTIONS, **{USER: user.FUNCTION})

__all__ = ["FUNCTIONS"]
