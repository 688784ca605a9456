"""Templates of Spark SQL: ``"lpad({0}, {width}, {fill})"``.

``{0}``, ``{1}`` are arguments, ``{args}`` is all of them, ``{type}`` the type of the result; other
names are options, as literals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.expressions.spark.types import text, type_name

if TYPE_CHECKING:
    from planner.expressions.nodes import Call


def filled_template(template: str, call: Call, *args: str) -> str:
    """Return the SQL of a call."""
    assert call.type is not None, call
    options = {name: _option(value) for name, value in call.options}
    return template.format(*args, args=", ".join(args), type=type_name(call.type), **options)


def _option(value: object) -> str:
    """Return an option as a literal; SQL is returned unchanged."""
    return text(value) if isinstance(value, str) else str(value)
