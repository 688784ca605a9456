"""What user code may ask of the world: the time, a random number, a lookup; all of it recorded.

A :class:`VertexContext` draws from a :class:`ValueSource`. Values are numbered from 0 in the order
in which they are drawn; a number that was recorded before is given back as it was, a new one comes
from the outside and is recorded. A user's code is called in sequence order, so it draws the same
numbers after a restart, however its input is cut, and sees the same values.

Invariants: (1) one source belongs to one operator of one vertex, so that the order of drawing does
not depend on the cutting; (2) ``next_index`` is part of the operator's snapshot, and ``load`` goes
back to it; (3) what ``take_fresh`` returns must be durable before any output that follows is
visible; (4) a recorded value that is asked for in another way is an error. Source: MillWheel
VLDB'13, "strong productions"; StreamScope NSDI'16 leaves this out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgpack

from rvertex.user_code.errors import NoLoggedValuesError, ReplayedValueError, UserResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.events.call_counts import CallCounts
    from rvertex.user_code.code import UserCode


@dataclass(frozen=True, slots=True)
class Drawn:
    """One recorded value. ``argument`` is what was looked up, or empty; ``value`` is plain."""

    kind: str
    argument: str
    value: Any

    @property
    def asked(self) -> str:
        """How it was asked for."""
        return f"{self.kind}({self.argument})"


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How a vertex calls a function that waits: limits, time-out and retries."""

    #: Calls in progress at a time.
    concurrency: int
    #: Requests per call; None: the function takes one request, not a list.
    batch: int | None
    timeout_us: int
    #: Further attempts after a failure that may pass.
    retries: int


@dataclass(frozen=True, slots=True)
class Failure:
    """What a call raised at last, and where."""

    reason: str
    line: str


@dataclass(slots=True, eq=False)
class Request:
    """One request. ``answer`` or ``failure`` counts once ``is_done``."""

    argument: Any
    answer: Any = None
    failure: Failure | None = None
    is_done: bool = False


class Calls(Protocol):
    """Calls of one function, made at the same time."""

    def start(self, requests: Sequence[Request]) -> None:
        """Call the function for these requests, in any order, as the policy allows."""

    def wait(self) -> bool:
        """Wait until a request is done; False: not here, the vertex is executed again then."""

    def counts(self) -> CallCounts:
        """What was called so far."""


class ValueSource(Protocol):
    """Where a context gets its values; in production backed by a side stream."""

    @property
    def next_index(self) -> int:
        """Number of the next value to be drawn."""

    @property
    def has_recorded(self) -> bool:
        """Whether the next value is recorded."""

    def take_recorded(self) -> Drawn:
        """Draw the next value, which is recorded, of any kind."""

    def draw(self, kind: str, argument: str, make: Callable[[], Any]) -> Any:
        """The next value: the recorded one, or what ``make()`` gives, which is recorded.

        Raises:
            ReplayedValueError: what is recorded there was asked for in another way.
        """

    def load(self, index: int) -> None:
        """Go on drawing at ``index``, which was ``next_index`` when a snapshot was taken."""


class ValueShell(Protocol):
    """The outside: a clock, a source of randomness, and calls that wait."""

    def calls(self, code: UserCode, policy: CallPolicy) -> Calls:
        """Calls of a function that waits."""

    def unknown_calls(self) -> str:
        """What a person has decided about calls without an answer; "" for nothing."""

    def now_us(self) -> int:
        """Wall time, microseconds UTC."""

    def random(self) -> float:
        """A number in [0, 1)."""


@runtime_checkable
class DrawsValues(Protocol):
    """An operator whose user code has a context; a vertex wires it between open and load."""

    def use_values(self, source: ValueSource, shell: ValueShell) -> None:
        """Draw from ``source`` from now on."""


@runtime_checkable
class CallsOutside(Protocol):
    """An operator that waits for answers from outside, and takes few rows at a time."""

    step_rows_max: int

    def call_counts(self) -> CallCounts:
        """What it has called."""


class ValueJournal:
    """A source in memory: ``recorded`` are the values from ``first_index`` on."""

    def __init__(self, recorded: Sequence[Drawn] = (), *, first_index: int = 0) -> None:
        self._values = list(recorded)
        self._first = first_index
        self._next = first_index
        #: Everything before this has been handed out by ``take_fresh``, or came recorded.
        self._told = first_index + len(self._values)

    @property
    def next_index(self) -> int:
        """Number of the next value to be drawn."""
        return self._next

    @property
    def has_recorded(self) -> bool:
        """See :class:`ValueSource`."""
        return self._next - self._first < len(self._values)

    def take_recorded(self) -> Drawn:
        """See :class:`ValueSource`."""
        self._next += 1
        return self._values[self._next - 1 - self._first]

    def draw(self, kind: str, argument: str, make: Callable[[], Any]) -> Any:
        """See :class:`ValueSource`."""
        at = self._next - self._first
        if at < len(self._values):
            drawn = self._values[at]
            if (drawn.kind, drawn.argument) != (kind, argument):
                asked = Drawn(kind, argument, None).asked
                raise ReplayedValueError(self._next, drawn.asked, asked)
        else:
            drawn = Drawn(kind, argument, make())
            self._values.append(drawn)
        self._next += 1
        return drawn.value

    def load(self, index: int) -> None:
        """See :class:`ValueSource`."""
        assert self._first <= index <= self._first + len(self._values), (index, self._first)
        self._next = index

    def take_fresh(self) -> tuple[int, tuple[Drawn, ...]]:
        """The values recorded since the last call, and the number of the first of them."""
        first = self._told
        fresh = tuple(self._values[first - self._first :])
        self._told = first + len(fresh)
        return first, fresh

    def forget(self, index: int) -> None:
        """No snapshot before ``index`` will be loaded any more."""
        assert index <= self._next, (index, self._next)
        dropped = max(0, index - self._first)
        del self._values[:dropped]
        self._first += dropped
        self._told = max(self._told, self._first)


class VertexContext:
    """The part of a context that reaches outside; times are int microseconds UTC."""

    def __init__(self) -> None:
        self._source: ValueSource | None = None
        self._shell: ValueShell | None = None

    def use_values(self, source: ValueSource, shell: ValueShell) -> None:
        """Draw from ``source``, and what is not there from ``shell``."""
        self._source, self._shell = source, shell

    @property
    def next_index(self) -> int:
        """How many values were drawn; 0 without a source."""
        return 0 if self._source is None else self._source.next_index

    def load(self, index: int) -> None:
        """Continue a snapshot that had drawn ``index`` values."""
        if self._source is not None:
            self._source.load(index)
        elif index:
            raise NoLoggedValuesError("now")

    def now(self) -> int:
        """The wall time when this was first computed."""
        source, shell = self._outside("now")
        return source.draw("now", "", shell.now_us)  # type: ignore[no-any-return]

    def random(self) -> float:
        """A number in [0, 1), the same whenever this is computed again."""
        source, shell = self._outside("random")
        return source.draw("random", "", shell.random)  # type: ignore[no-any-return]

    def lookup(self, function: Callable[[Any], Any], key: Any) -> Any:
        """``function(key)`` as it was when this was first computed; its result must be plain data.

        Plain data: None, bool, int, float, str, bytes, and lists and dictionaries of these.
        """
        source, _ = self._outside("lookup")
        name = getattr(function, "__qualname__", type(function).__qualname__)

        def make() -> Any:
            found = function(key)
            try:
                return msgpack.unpackb(msgpack.packb(found), strict_map_key=False)
            except (TypeError, ValueError, OverflowError) as error:
                reason = f"lookup({name}): the result cannot be recorded: {error}"
                raise UserResultError(name, reason) from None

        return source.draw("lookup", f"{name}, {key!r}", make)

    def _outside(self, kind: str) -> tuple[ValueSource, ValueShell]:
        if self._source is None or self._shell is None:
            raise NoLoggedValuesError(kind)
        return self._source, self._shell


class Values(Protocol):
    """Where the values come from that user code draws."""

    def wire(self, index: int, operator: DrawsValues) -> None:
        """Let the operator of that number draw."""
