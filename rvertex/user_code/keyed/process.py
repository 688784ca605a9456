"""Base class of keyed processes and context of their calls (MillWheel: per-key computation).

A subclass of :class:`KeyedProcess` declares its state as typed fields and its output as a schema.
There is one object per key. ``on_event`` is called for the key's events in sequence order, and
``on_timer`` for its timers. All changes, timers and output of one call are one atomic step.

**Order.** A timer at ``t`` is called after every event of its key with ``vs < t`` and before every
event with ``vs >= t``, for any CTIs (watermarks) in the stream. Timers of one key are called by
(time, name). A timer fires at the first CTI at or after ``t``, where timers of all keys are called
by (time, key ascending, name), or before the next event of its key. Events of other keys never fire
it, so the results of a key do not depend on the other keys of its vertex. A timer that ``on_event``
sets for now or earlier is called before the key's next event. **The end.** When the stream ends
(``CTI(INF)``), all remaining timers fire in order, with ``ctx.at_end`` true, and so do the timers
that they set. Source: MillWheel VLDB'13, "Timers", "Persistent state".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rstream.types import INF_TIME
from rvertex.user_code.context import VertexContext
from rvertex.user_code.emitted_rows import Rows
from rvertex.user_code.errors import UserResultError
from rvertex.user_code.times import moment_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from rvertex.user_code.keyed.timers import TimerQueue


@dataclass(slots=True)
class Timer:
    """A timer that has fired. ``at``: its time, int microseconds UTC."""

    at: int
    name: str

    def __iter__(self) -> Iterator[Any]:
        """Return time and name, for ``at, name = timer``."""
        return iter((self.at, self.name))


class KeyedProcess:
    """Base of keyed processes; see docs/USERCODE.md.

    ``output`` declares the columns of ``ctx.emit``, without the keys, and their types. Fields:
    ``count: int = 0``, of types int, float, str, bytes, bool, these ``| None``, or ``list[T]``.
    """

    __slots__ = ()

    #: The columns of ``ctx.emit`` and their types, as for ``Stream.from_items``.
    output: ClassVar[Mapping[str, Any]] = {}

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        """Process an event of this key: columns by name, lifetime ``event.vs, event.ve``."""
        raise NotImplementedError

    def on_end(self, event: Any, ctx: KeyedContext) -> None:
        """Process the end of an event of this key, at ``event.ve``, which equals ``ctx.time``.

        A process with this method gets each event twice: when it starts, with an ``event.ve`` of
        INF_TIME, and when it ends. At equal times, ends precede starts. A row it emits is a point
        event at ``ctx.time``, unless ``vs`` or ``ve`` is passed.
        """

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        """Process a timer of this key that has fired."""


class ContextCalls(Protocol):
    """The compiled functions that a context offers to user code."""

    @property
    def at_hand(self) -> Callable[[], tuple[Any, int, int]]: ...

    @property
    def emit(self) -> Callable[..., None]: ...

    @property
    def set_timer(self) -> Callable[..., None]: ...


class KeyedContext(VertexContext):
    """The calls of a keyed process: emit rows, set timers, and draw recorded values.

    ``now``, ``random`` and ``lookup`` are not deterministic, so their results are recorded;
    everything else is computed from the events.
    """

    #: ``emit(value, ..., vs=None, ve=None)`` emits a row: the values of ``output`` in order or by
    #: name. The row has the lifetime of the event, or the instant of the timer, unless ``vs`` or
    #: ``ve`` is passed. ``vs`` must not be before ``ctx.time``; rows that start later are buffered.
    emit: Callable[..., None]

    #: ``set_timer(at, name="")`` schedules ``on_timer`` at event time ``at``: int microseconds, a
    #: ``datetime``, or a duration after ``ctx.time`` such as ``"10m"`` or a ``timedelta``. It moves
    #: an existing timer of that name. ``on_timer`` itself must set later times.
    set_timer: Callable[..., None]

    def __init__(
        self,
        process: str,
        output: pa.Schema,
        timers: TimerQueue,
        key_view: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self._process = process
        self._timers = timers
        #: Converts a stored key to the form that users see. None: both are the same.
        self._key_view = key_view
        self.output = output
        #: Rows emitted so far.
        self.rows = Rows(len(output))
        self.in_timer = False
        #: Whether the stream has ended, so that only timers follow.
        self.at_end = False
        #: Returns slot, time and number (-1: timer) of the current event.
        self._at_hand: Callable[[], tuple[Any, int, int]]
        #: Returns the end of the event with that number.
        self._end_of: Callable[[int], int]

    def use(self, calls: ContextCalls, end_of: Callable[[int], int]) -> None:
        """Install the calls that were compiled for the process.

        They become methods of the class, which Python calls faster than attributes.
        """
        self._at_hand, self._end_of = calls.at_hand, end_of
        own = {"__slots__": (), "emit": calls.emit, "set_timer": calls.set_timer}
        self.__class__ = type(KeyedContext.__name__, (KeyedContext,), own)

    @property
    def key(self) -> Any:
        """The key: a value, or a tuple for several columns. Times are int microseconds UTC."""
        key = self._at_hand()[0]._key
        return key if self._key_view is None else self._key_view(key)

    @property
    def time(self) -> int:
        """Time of the current event or timer, int microseconds UTC."""
        return self._at_hand()[1]

    def delete_timer(self, name: str = "") -> None:
        """Delete the timer of that name, if there is one."""
        self._timers.delete(self._at_hand()[0], name)

    def timer_time(self, at: Any) -> int:
        """Return the event time, us, of a timer that is set for ``at``.

        Raises:
            UserResultError: ``at`` is not a time, or not later than the current timer.
        """
        now = self.time
        try:
            moment = moment_us(at, now)
        except TypeError as error:
            raise UserResultError(self._process, f"set_timer({at!r}): {error}") from None
        if moment >= INF_TIME:
            raise UserResultError(
                self._process, f"set_timer({at!r}): that is after the last possible time"
            )
        if moment <= now and self.in_timer:
            raise UserResultError(
                self._process,
                f"set_timer({moment}) in on_timer at {now}: on_timer can only set timers "
                "for later times",
            )
        return max(moment, now)

    def lifetime(self, vs: Any, ve: Any) -> tuple[int, int]:
        """Return the lifetime of a row that is emitted with these times."""
        _, now, number = self._at_hand()
        try:
            start = now if vs is None else moment_us(vs, now)
            ve = None if ve is None else moment_us(ve, now)
        except TypeError as error:
            raise UserResultError(self._process, f"emit(vs={vs!r}, ve={ve!r}): {error}") from None
        if ve is None:
            ve = start + 1 if self.in_timer or vs is not None else self._end_of(number)
        if start < now:
            raise UserResultError(
                self._process,
                f"emit(vs={start}) at {now}: rows cannot start in the past",
            )
        if not start < ve <= INF_TIME:
            raise UserResultError(
                self._process, f"emit(vs={start}, ve={ve}): an event needs vs < ve"
            )
        return start, ve
