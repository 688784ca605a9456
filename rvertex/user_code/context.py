"""Nondeterministic values for user code: wall time, random numbers, lookups; each is recorded.

A :class:`VertexContext` draws values from a :class:`ValueSource`, which numbers them from 0. A
value recorded before a restart is returned again; a new value is computed and recorded. User code
is called in sequence order, so after a restart it draws the same numbers and gets the same values,
regardless of batch boundaries.

Invariants: (1) each value source serves one operator of one vertex, so the order of drawing does
not depend on batch boundaries; (2) ``next_index`` is part of the operator's snapshot, and ``load``
returns to it; (3) the values that ``take_fresh`` returns must be durable before any later output is
visible; (4) it is an error to draw a recorded value with another kind or argument. Source:
MillWheel VLDB'13, "strong productions"; StreamScope NSDI'16 has no such values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

import msgpack

from rvertex.user_code.errors import NoLoggedValuesError, ReplayedValueError, UserResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.events.call_counts import CallCounts
    from rvertex.user_code.code import UserCode


@dataclass(frozen=True, slots=True)
class Drawn:
    """One recorded value. ``argument``: the lookup's key, or empty. ``value``: plain data."""

    kind: str
    argument: str
    value: Any

    @property
    def request(self) -> str:
        """The kind and argument of the request, for messages."""
        return f"{self.kind}({self.argument})"


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How a vertex calls an asynchronous function: concurrency, time-out and retries."""

    #: Most calls in progress at the same time.
    concurrency: int
    #: Most requests per call. None: the function takes a single request, not a list.
    batch: int | None
    timeout_us: int
    #: Most additional attempts after a transient failure.
    retries: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The last exception of a call, and the line of user code that raised it."""

    reason: str
    line: str


@dataclass(slots=True, eq=False)
class Request:
    """One request. ``answer`` and ``failure`` are undefined until ``is_done``."""

    argument: Any
    answer: Any = None
    failure: Failure | None = None
    is_done: bool = False


class Calls(Protocol):
    """Concurrent calls of one function."""

    def start(self, requests: Sequence[Request]) -> None:
        """Start calls for these requests, in any order and within the limits of the policy."""

    def wait(self) -> bool:
        """Wait until a request is done.

        Return False if that must not block: run the vertex later.
        """

    def counts(self) -> CallCounts:
        """Return the number of calls so far, by outcome."""


class ValueSource(Protocol):
    """Supplies a context with recorded or new values; in production it reads a side stream."""

    @property
    def next_index(self) -> int:
        """Number of the next value to draw."""

    @property
    def has_recorded(self) -> bool:
        """Whether the next value was recorded before."""

    def take_recorded(self) -> Drawn:
        """Draw the next value, of any kind. It must be a recorded value."""

    def draw(self, kind: str, argument: str, make: Callable[[], Any]) -> Any:
        """Return the next value: the recorded value, or ``make()``, which is then recorded.

        Raises:
            ReplayedValueError: the recorded value has another kind or argument.
        """

    def load(self, index: int) -> None:
        """Continue drawing at ``index``, which is the ``next_index`` of a snapshot."""


class ValueShell(Protocol):
    """The sources of new values: a clock, a random generator, and asynchronous calls."""

    def calls(self, code: UserCode, policy: CallPolicy) -> Calls:
        """Return the calls of an asynchronous function."""

    def unknown_calls(self) -> str:
        """Return the user's decision about calls without a response; "" if there is none."""

    def now_us(self) -> int:
        """Return the wall time, us UTC."""

    def random(self) -> float:
        """Return a number in [0, 1)."""


@runtime_checkable
class DrawsValues(Protocol):
    """An operator whose user code has a context.

    The vertex calls the method after ``open`` and before ``load``.
    """

    def use_values(self, source: ValueSource, shell: ValueShell) -> None:
        """Draw recorded values from ``source``, and new values from ``shell``, from now on."""


@runtime_checkable
class CallsOutside(Protocol):
    """An operator that makes asynchronous calls; a step has at most ``step_rows_max`` rows."""

    step_rows_max: int

    def call_counts(self) -> CallCounts:
        """Return the number of calls so far, by outcome."""


def calls_outside(operator: object) -> TypeGuard[CallsOutside]:
    """Return whether an operator makes asynchronous calls.

    ``implements`` cannot check attributes.
    """
    return hasattr(operator, "step_rows_max") and hasattr(operator, "call_counts")


class ValueJournal:
    """A value source in memory. ``recorded``: the recorded values from ``first_index`` on."""

    def __init__(self, recorded: Sequence[Drawn] = (), *, first_index: int = 0) -> None:
        self._values = list(recorded)
        self._first = first_index
        self._next = first_index
        #: Values before this number were returned by ``take_fresh``, or were passed in as recorded.
        self._taken = first_index + len(self._values)

    @property
    def next_index(self) -> int:
        """Number of the next value to draw."""
        return self._next

    @property
    def has_recorded(self) -> bool:
        """Implement :class:`ValueSource`."""
        return self._next - self._first < len(self._values)

    def take_recorded(self) -> Drawn:
        """Implement :class:`ValueSource`."""
        self._next += 1
        return self._values[self._next - 1 - self._first]

    def draw(self, kind: str, argument: str, make: Callable[[], Any]) -> Any:
        """Implement :class:`ValueSource`."""
        at = self._next - self._first
        if at < len(self._values):
            drawn = self._values[at]
            if (drawn.kind, drawn.argument) != (kind, argument):
                request = Drawn(kind, argument, None).request
                raise ReplayedValueError(self._next, drawn.request, request)
        else:
            drawn = Drawn(kind, argument, make())
            self._values.append(drawn)
        self._next += 1
        return drawn.value

    def load(self, index: int) -> None:
        """Implement :class:`ValueSource`."""
        assert self._first <= index <= self._first + len(self._values), (index, self._first)
        self._next = index

    def take_fresh(self) -> tuple[int, tuple[Drawn, ...]]:
        """Return the values recorded since the last call, and the number of the first."""
        first = self._taken
        fresh = tuple(self._values[first - self._first :])
        self._taken = first + len(fresh)
        return first, fresh

    def forget(self, index: int) -> None:
        """Drop the values before ``index``. No earlier snapshot will be loaded."""
        assert index <= self._next, (index, self._next)
        dropped = max(0, index - self._first)
        del self._values[:dropped]
        self._first += dropped
        self._taken = max(self._taken, self._first)


class VertexContext:
    """The part of a context with nondeterministic values. Times are int microseconds UTC."""

    def __init__(self) -> None:
        self._source: ValueSource | None = None
        self._shell: ValueShell | None = None

    def use_values(self, source: ValueSource, shell: ValueShell) -> None:
        """Draw recorded values from ``source``, and new values from ``shell``."""
        self._source, self._shell = source, shell

    @property
    def next_index(self) -> int:
        """Number of values drawn so far; 0 without a source."""
        return 0 if self._source is None else self._source.next_index

    def load(self, index: int) -> None:
        """Continue from a snapshot after ``index`` drawn values."""
        if self._source is not None:
            self._source.load(index)
        elif index:
            raise NoLoggedValuesError("now")

    def now(self) -> int:
        """Return the wall time of the first execution of this call, us UTC."""
        source, shell = self._outside("now")
        return source.draw("now", "", shell.now_us)  # type: ignore[no-any-return]

    def random(self) -> float:
        """Return a number in [0, 1). A recomputation returns the same number."""
        source, shell = self._outside("random")
        return source.draw("random", "", shell.random)  # type: ignore[no-any-return]

    def lookup(self, function: Callable[[Any], Any], key: Any) -> Any:
        """Return ``function(key)``, which must be plain data.

        A recomputation returns the first result.

        Plain data: None, bool, int, float, str, bytes, and lists and dictionaries of these.
        """
        source, _ = self._outside("lookup")
        name = getattr(function, "__qualname__", type(function).__qualname__)

        def make() -> Any:
            result = function(key)
            try:
                return msgpack.unpackb(msgpack.packb(result), strict_map_key=False)
            except (TypeError, ValueError, OverflowError) as error:
                reason = f"lookup({name}): the result cannot be recorded: {error}"
                raise UserResultError(name, reason) from None

        return source.draw("lookup", f"{name}, {key!r}", make)

    def _outside(self, kind: str) -> tuple[ValueSource, ValueShell]:
        if self._source is None or self._shell is None:
            raise NoLoggedValuesError(kind)
        return self._source, self._shell


class Values(Protocol):
    """Gives the operators of a vertex their sources of times, random numbers and responses."""

    def wire(self, index: int, operator: DrawsValues) -> None:
        """Connect operator number ``index`` to its value source."""
