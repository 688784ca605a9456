"""The rows of a batch on which an expression, or an operand of it, is evaluated.

``and``, ``or``, ``coalesce`` and ``when`` need an operand only on some rows. As long as no operand
fails, all are computed on all rows at once: this is fast and gives the same values. If an operand
fails, the operands are computed one after the other, each on the rows that need it. If it fails
there too, the query fails. Users' functions are called only for the rows that need them.

Invariants: (1) the values equal those of computing operand by operand and row by row; (2) a call
that several expressions share is computed at most once for all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: An Arrow array or scalar.
Value: TypeAlias = Any
#: Given the operands' values so far, returns the rows that need the next operand; None: all.
Needed: TypeAlias = "Callable[[Sequence[Value]], Value | None]"


class Operand(Protocol):
    """A resolved node, as this module uses it."""

    @property
    def type(self) -> pa.DataType | None: ...

    def value(self, batch: Any) -> Value:
        """Return the value per row, or a scalar if all rows have the same."""


class SharedCall(Protocol):
    """A resolved call: hashable, with operands."""

    @property
    def args(self) -> Sequence[Operand]: ...

    def computed(self, batch: Any) -> Value:
        """Compute the value per row, without a cache."""

    def __hash__(self) -> int: ...


class Failing(Protocol):
    """Collects the rows for which calls fail."""

    def subset(self, mask: pa.BooleanArray) -> Failing:
        """Return the rows for which ``mask`` is true."""

    def failed(self, call: Any, values: Sequence[Value], error: Exception) -> Value:
        """Collect the rows for which a call fails; return its values for the others."""


class Rows:
    """A batch on which each of the calls ``shared`` is computed once."""

    def __init__(
        self,
        batch: Any,
        shared: frozenset[Any],
        known: dict[SharedCall, Value] | None = None,
        *,
        is_trial: bool = False,
    ) -> None:
        self.num_rows: int = batch.num_rows
        self.batch = batch
        #: Whether failures need no explanation, as in a first try on all rows.
        self.is_trial = is_trial
        self.shared = shared
        self.known: dict[SharedCall, Value] = {} if known is None else known
        #: Collects the rows that fail; None: the first failure is an error.
        self.failing: Failing | None = None

    def column(self, name: str) -> pa.Array:
        """Return the values of a column."""
        return self.batch.column(name)

    def value_of(self, call: SharedCall) -> Value:
        """Return the value of a call; shared calls are computed once."""
        if not self.shared or call not in self.shared:  # hashing a call walks its whole tree
            return call.computed(self)
        if call not in self.known:
            self.known[call] = call.computed(self)
        return self.known[call]


class Subset(Rows):
    """The rows of ``whole`` for which ``mask``, without nulls, is true."""

    def __init__(self, whole: Any, mask: pa.BooleanArray) -> None:
        super().__init__(whole, getattr(whole, "shared", frozenset()))
        self.num_rows = mask.true_count
        self._mask = mask
        self._columns: dict[str, pa.Array] = {}
        failing: Failing | None = getattr(whole, "failing", None)
        self.failing = None if failing is None else failing.subset(mask)

    def column(self, name: str) -> pa.Array:
        """Return the values of a column on these rows."""
        if name not in self._columns:
            self._columns[name] = self.batch.column(name).filter(self._mask)
        return self._columns[name]

    def value_of(self, call: SharedCall) -> Value:
        """Take the result of a shared expression from all rows instead of computing it again."""
        if self.shared and call not in self.known and call in getattr(self.batch, "known", ()):
            value = self.batch.known[call]
            is_constant = isinstance(value, pa.Scalar)
            self.known[call] = value if is_constant else value.filter(self._mask)
        return super().value_of(call)


def operands(call: SharedCall, needed: Needed, batch: Any, *, calls_user: bool) -> list[Value]:
    """Return the operands' values; undefined on rows where an operand is not needed."""
    if not calls_user:
        known = getattr(batch, "known", None)
        rows = Rows(batch, getattr(batch, "shared", frozenset()), known, is_trial=True)
        try:
            return [arg.value(rows) for arg in call.args]
        except EvaluationError:
            pass
    values: list[Value] = []
    for arg in call.args:
        values.append(_where(needed(values), arg, batch))
    return values


def _where(mask: Value | None, arg: Operand, batch: Any) -> Value:
    if isinstance(mask, pa.Scalar):
        return arg.value(batch) if mask.as_py() else pa.scalar(None, arg.type)
    if mask is None or mask.true_count == batch.num_rows:
        return arg.value(batch)
    if mask.true_count == 0:
        return pa.scalar(None, arg.type)
    value = arg.value(Subset(batch, mask))
    if isinstance(value, pa.Scalar):
        return value
    is_needed = mask.to_numpy(zero_copy_only=False)
    at = np.cumsum(is_needed) - 1
    return value.take(pa.array(at, mask=~is_needed))


def until_false(values: Sequence[Value]) -> Value | None:
    """Return the rows on which no earlier operand is false."""
    return _none_of(values, lambda value: pc.fill_null(pc.invert(value), False))


def until_true(values: Sequence[Value]) -> Value | None:
    """Return the rows on which no earlier operand is true."""
    return _none_of(values, lambda value: pc.fill_null(value, False))


def until_valid(values: Sequence[Value]) -> Value | None:
    """Return the rows on which all earlier operands are null."""
    return _none_of(values, pc.is_valid)


def chosen(values: Sequence[Value]) -> Value | None:
    """Return the rows that need the next operand of ``when``: condition, value, ..., otherwise."""
    at = len(values)
    still = until_true(values[: at - at % 2 : 2])
    if at % 2 == 0:
        return still
    holds = pc.fill_null(values[-1], False)
    return holds if still is None else pc.and_(still, holds)


def _none_of(values: Sequence[Value], decides: Callable[[Value], Value]) -> Value | None:
    still: Value | None = None
    for value in values:
        open_ = pc.invert(decides(value))
        still = open_ if still is None else pc.and_(still, open_)
    return still
