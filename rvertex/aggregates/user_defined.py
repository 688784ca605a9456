"""A user's aggregate that can be merged: one state per group, updated as rows arrive.

States are stored in an :class:`~rvertex.events.group_arrays.ArrowStore`, as values of the type that
the user declares. They become plain Python values when rows of their group arrive. So windows can
share panes, and partial results can be exchanged. The user must guarantee ``add(add(s, a), b) ==
add(s, a + b)``, and the same for ``merge`` in any order. Then the result does not depend on batch
boundaries.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import ArrowStore
from rvertex.state.doing import calling
from rvertex.user_code.errors import UserResultError
from rvertex.user_code.plain_values import arrow_column, plain_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.accumulators import Rows, Saved


class UserFold:
    """Adds values in row order; with ``merges``, merges the states of partial rows instead."""

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
        with calling(self._target.add):
            folded = [
                self._folded(state, values.slice(lo, hi - lo))
                for state, (lo, hi) in zip(carried, bounds, strict=True)
            ]
        try:
            self._store.put(touched, arrow_column(folded, self._kind))
        except MemoryError:
            raise
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            reason = f"its state is not {self._kind}, the declared state_type: {error}"
            raise UserResultError(self._name, reason) from None

    def columns(self) -> list[pa.Array]:
        return [self._store.values()]

    def save(self) -> list[Saved]:
        return self._store.save()

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        self._store.restore(state[0], numbers(as_one_array(state[1])))

    def _folded(self, state: Any, values: pa.Array) -> Any:
        """Add ``values`` to a Python state, or merge the states ``values`` into it."""
        if not self._merges:
            return self._target.add(self._target.init() if state is None else state, values)
        for other in plain_list(values):
            if other is not None:
                state = other if state is None else self._target.merge(state, other)  # type: ignore[attr-defined]
        return state


def user_results(custom: Custom, states: pa.Array) -> pa.Array:
    """Compute the results of windows from their states."""
    target = custom.target
    with calling(target.result):
        results = [
            target.result(target.init() if state is None else state) for state in plain_list(states)
        ]
    return result_column(custom, results)


def result_column(custom: Custom, results: list[Any]) -> pa.Array:
    """Return the results of ``result`` as an array of the aggregate's type.

    Raises:
        UserResultError: a value does not fit the type.
    """
    try:
        return arrow_column(results, custom.target.type)
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        name = custom.identity.partition("#")[0]
        raise UserResultError(name, f"its result is not {custom.target.type}: {error}") from None


@dataclass(frozen=True, slots=True)
class Custom:
    """A user aggregate in a plan. Plans compare it by ``identity``."""

    identity: str
    target: UserAggregate = field(compare=False, metadata={"fingerprint": False})
    #: False: the user declared that it is not deterministic.
    is_deterministic: bool = True

    @property
    def merges(self) -> bool:
        """Whether partial states can be merged."""
        return hasattr(self.target, "merge")

    @property
    def state_type(self) -> pa.DataType:
        """The type of states, if they can be merged."""
        return self.target.state_type  # type: ignore[attr-defined]

    def __str__(self) -> str:
        return self.identity


class UserAggregate(Protocol):
    """The interface of a user aggregate: a picklable object that its calls never change.

    For each group and window the result is ``result(add(init(), values))``, where ``values`` has
    all values in row order, nulls included. An aggregate may also have ``merge(state, other)`` and
    ``state_type``, the Arrow type of its states, which must be plain values. Then ``add`` is called
    with some of the values at a time, windows share panes, and partial states are exchanged instead
    of rows: see :mod:`rvertex.aggregates.user_defined`.
    """

    #: Type of the result.
    type: pa.DataType

    def init(self) -> Any:
        """Return the state of a group without values."""

    def add(self, state: Any, values: pa.Array) -> Any:
        """Return ``state`` with ``values`` added."""

    def result(self, state: Any) -> Any:
        """Return the result of ``state``: a Python value of ``type``, or None."""
