"""A user's aggregate that can be merged: a state per group, folded as rows come.

States rest in an :class:`~rvertex.group_arrays.ArrowStore` as values of the type that the user
declares, and become plain Python values when rows of their group come. So panes can be shared and
partial results exchanged. The user owes: ``add(add(s, a), b) == add(s, a + b)``, and the same of
``merge``, in any order; then the result does not depend on the cutting.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rvertex.arrays import numbers, whole
from rvertex.group_arrays import ArrowStore
from rvertex.plain_values import arrow_column, plain_list
from rvertex.user_errors import UserResultError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.accumulators import Rows, Saved
    from rvertex.gathered import Custom


class UserFold:
    """Folds values, or (``merges``) states of partial rows, in sequence order."""

    def __init__(self, column: str, custom: Custom, *, merges: bool) -> None:
        self._column = column
        self._name = custom.identity.partition("#")[0]
        self._target = custom.target
        self._merges = merges
        self._kind: pa.DataType = custom.state_type
        self._store = ArrowStore(self._kind)

    def update(self, rows: Rows) -> None:
        self._store.grow(rows.groups)
        if len(rows.codes) == 0:
            return
        order = np.argsort(rows.codes, kind="stable")
        codes, values = rows.codes[order], rows.column(self._column).take(pa.array(order))
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        touched = codes[starts]
        carried = plain_list(self._store.values(touched))
        bounds = itertools.pairwise([*starts.tolist(), len(codes)])
        folded = [
            self._folded(state, values.slice(lo, hi - lo))
            for state, (lo, hi) in zip(carried, bounds, strict=True)
        ]
        try:
            self._store.put(touched, arrow_column(folded, self._kind))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            reason = f"its state is not {self._kind}, as state_type says: {error}"
            raise UserResultError(self._name, reason) from None

    def columns(self) -> list[pa.Array]:
        return [self._store.values()]

    def save(self) -> list[Saved]:
        return self._store.save()

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        self._store.restore(state[0], numbers(whole(state[1])))

    def _folded(self, state: Any, values: pa.Array) -> Any:
        if not self._merges:
            return self._target.add(self._target.init() if state is None else state, values)
        for other in plain_list(values):
            if other is not None:
                state = other if state is None else self._target.merge(state, other)  # type: ignore[attr-defined]
        return state


def user_results(custom: Custom, states: pa.Array) -> pa.Array:
    """What the states of windows come to."""
    target = custom.target
    found = [
        target.result(target.init() if state is None else state) for state in plain_list(states)
    ]
    return result_column(custom, found)


def result_column(custom: Custom, found: list[Any]) -> pa.Array:
    """What ``result`` gave, as the aggregate's type says.

    Raises:
        UserResultError: a value does not fit.
    """
    try:
        return arrow_column(found, custom.target.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        name = custom.identity.partition("#")[0]
        raise UserResultError(name, f"its result is not {custom.target.type}: {error}") from None
