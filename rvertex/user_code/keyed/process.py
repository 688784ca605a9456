"""What users write for a keyed process, and what it is given: MillWheel's computation per key.

A subclass of :class:`KeyedProcess` declares its state as typed fields, its output as a schema. For
every key there is one object of it; ``on_event`` is called for the events of the key in sequence
order, ``on_timer`` for its timers. Everything a call changes, sets and emits is one atomic step.

**Order.** A timer at ``t`` comes after every event of its key with ``vs < t`` and before every one
with ``vs >= t``, whatever CTIs the stream has; timers of one key by (time, name). It fires at the
first CTI at or after ``t``, together with those of other keys, by (time, key ascending, name), or
before the next event of its key; never on account of another key's event, so that what a key does
is the same whichever keys share its vertex. A timer that ``on_event`` sets for now or earlier comes
before the key's next event.
**The end.** When the stream ends (``CTI(INF)``), all timers come due in order, with
``ctx.at_end`` true, and so do those that they set: those that no CTI and no event of the key has
reached.
Source: MillWheel VLDB'13, "Timers", "Persistent state".
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
    """A timer that has come due. ``at``: its time, int microseconds UTC."""

    at: int
    name: str

    def __iter__(self) -> Iterator[Any]:
        """Time and name, for ``at, name = timer``."""
        return iter((self.at, self.name))


class KeyedProcess:
    """Base of keyed processes; see docs/USERCODE.md.

    ``output`` names the columns that ``ctx.emit`` gives, without the keys, and their types. Fields:
    ``count: int = 0``, of types int, float, str, bytes, bool, these ``| None``, or ``list[T]``.
    """

    __slots__ = ()

    #: Column -> type, as for ``Stream.from_items``.
    output: ClassVar[Mapping[str, Any]] = {}

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        """An event of this key: its columns by name, and its lifetime ``event.vs, event.ve``."""
        raise NotImplementedError

    def on_end(self, event: Any, ctx: KeyedContext) -> None:
        """An event of this key ends at ``event.ve``, which is ``ctx.time``.

        A process that has this method gets each event when it begins, with an ``event.ve`` of
        INF_TIME, and again when it ends. At one instant ends come first. What it emits is a point
        at ``ctx.time``, unless ``vs`` or ``ve`` are given.
        """

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        """A timer of this key has come due."""


class ContextCalls(Protocol):
    """The compiled calls that a context hands to user code."""

    @property
    def at_hand(self) -> Callable[[], tuple[Any, int, int]]: ...

    @property
    def emit(self) -> Callable[..., None]: ...

    @property
    def set_timer(self) -> Callable[..., None]: ...


class KeyedContext(VertexContext):
    """What a keyed process may do besides changing its fields.

    ``now``, ``random`` and ``lookup`` reach outside and are recorded; everything else follows from
    the events.
    """

    #: ``emit(value, ..., vs=None, ve=None)`` puts out a row: the values of ``output`` in order or
    #: by name. It lives as long as the event, or at the instant of the timer, unless ``vs`` or
    #: ``ve`` are given; ``vs`` may not be before ``ctx.time``. Later starts are held back.
    emit: Callable[..., None]

    #: ``set_timer(at, name="")`` has ``on_timer`` called at event time ``at``, int microseconds or
    #: a ``datetime``; ``"10m"`` or a ``timedelta`` count from ``ctx.time``. A timer of that name
    #: moves there. ``on_timer`` itself sets timers for later times only.
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
        #: Makes of a key, as it is kept, what users see; None: that is the same.
        self._key_view = key_view
        self.output = output
        #: Rows emitted so far.
        self.rows = Rows(len(output))
        self.in_timer = False
        #: The stream has ended: only timers follow.
        self.at_end = False
        #: The slot, time and number of the event (-1: timer) at hand.
        self._at_hand: Callable[[], tuple[Any, int, int]]
        #: The end of the event of that number.
        self._end_of: Callable[[int], int]

    def use(self, calls: ContextCalls, end_of: Callable[[int], int]) -> None:
        """Take over the calls that were compiled for the process.

        They become methods, which Python calls faster than functions in attributes.
        """
        self._at_hand, self._end_of = calls.at_hand, end_of
        own = {"__slots__": (), "emit": calls.emit, "set_timer": calls.set_timer}
        self.__class__ = type(KeyedContext.__name__, (KeyedContext,), own)

    @property
    def key(self) -> Any:
        """The key: a value, or a tuple of several; times are int microseconds as everywhere."""
        key = self._at_hand()[0]._key
        return key if self._key_view is None else self._key_view(key)

    @property
    def time(self) -> int:
        """The time of the event or timer at hand, int microseconds UTC."""
        return self._at_hand()[1]

    def delete_timer(self, name: str = "") -> None:
        """Forget the timer of that name, if there is one."""
        self._timers.delete(self._at_hand()[0], name)

    def timer_time(self, at: Any) -> int:
        """When a timer comes due that is set for ``at``.

        Raises:
            UserResultError: it is no time, or not later than the timer at hand.
        """
        now = self.time
        try:
            moment = moment_us(at, now)
        except TypeError as error:
            raise UserResultError(self._process, f"set_timer({at!r}): {error}") from None
        if moment >= INF_TIME:
            raise UserResultError(self._process, f"set_timer({at!r}): that is beyond all time")
        if moment <= now and self.in_timer:
            raise UserResultError(
                self._process,
                f"set_timer({moment}) in on_timer at {now}: a timer sets timers for later times",
            )
        return max(moment, now)

    def lifetime(self, vs: Any, ve: Any) -> tuple[int, int]:
        """The lifetime of a row that is emitted with these times."""
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
