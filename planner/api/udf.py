"""``udf``: a user's function in expressions, and in SQL as one of ``functions``."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

from planner.api.expressions import Expr, ExprLike, call
from planner.errors import InvalidPlanError
from planner.expressions.nodes import USER
from planner.expressions.types import TypeLike, data_type
from planner.user_code import user_code

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pyarrow as pa

    from rvertex.user_code.code import UserCode

Nulls = Literal["skip", "pass"]


@dataclass(frozen=True, slots=True)
class Udf:
    """A function over expressions: ``f(col("a"), 3)`` is an expression of type ``returns``."""

    code: UserCode
    returns: pa.DataType
    vectorised: bool
    nulls: Nulls

    def __call__(self, *args: ExprLike) -> Expr:
        """Return the expression that calls the function with these values, per row."""
        try:
            inspect.signature(self.code.target).bind(*args)
        except ValueError:  # a function in C without a signature: it cannot be checked
            pass
        except TypeError:
            raise InvalidPlanError(
                f"{self.code.name}() does not take {len(args)} arguments"
            ) from None
        return call(
            USER,
            *args,
            code=self.code,
            returns=self.returns,
            vectorised=self.vectorised,
            nulls=self.nulls,
        )


@overload
def udf(
    function: Callable[..., Any],
    returns: TypeLike,
    *,
    vectorised: bool = ...,
    nulls: Nulls = ...,
    deterministic: bool | None = ...,
) -> Udf: ...


@overload
def udf(
    function: None = ...,
    *,
    returns: TypeLike,
    vectorised: bool = ...,
    nulls: Nulls = ...,
    deterministic: bool | None = ...,
) -> Callable[[Callable[..., Any]], Udf]: ...


def udf(
    function: Callable[..., Any] | None = None,
    returns: TypeLike | None = None,
    *,
    vectorised: bool = False,
    nulls: Nulls = "skip",
    deterministic: bool | None = None,
) -> Udf | Callable[[Callable[..., Any]], Udf]:
    """Make ``function`` usable in expressions; without ``function``, return a decorator.

    It is called per row with plain values. If an argument is null, the result is null without a
    call, unless ``nulls="pass"``. A ``vectorised`` function is called per batch with Arrow arrays,
    nulls included, and returns an array of the same length. The result must depend only on the
    arguments; ``deterministic`` overrides the check of that.

    Raises:
        InvalidPlanError: it cannot be pickled, or reads a clock, a random number or the like.
    """
    if returns is None:
        raise InvalidPlanError(
            "udf() needs the type that the function returns: write udf(lambda x: x + 1, "
            'returns="int64"), or @udf(returns="int64") above it'
        )
    if function is None:
        return lambda f: udf(
            f, returns=returns, vectorised=vectorised, nulls=nulls, deterministic=deterministic
        )
    if not callable(function):
        raise InvalidPlanError(f"udf() takes a function, not {function!r}")
    if nulls not in ("skip", "pass"):
        raise InvalidPlanError(f'udf(nulls={nulls!r}): choose "skip" or "pass"')
    code = user_code(function, "udf", deterministic)
    return Udf(code, data_type(returns), vectorised, nulls)
