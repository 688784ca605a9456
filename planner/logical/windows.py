"""Windows: ``hopping``, ``tumbling``, ``cumulating``, ``snapshot``, ``session``, ``count_window``.

``hopping``, ``tumbling`` and ``cumulating`` lie on the clock, the same for every key; the others
are made by the events of a key. Exact rules, with a worked table each, are in docs/ALGEBRA.md and
in the operators: ``rvertex/operators/{snapshot_window,session,count_window}.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.durations import Duration, duration_us, format_us, positive_duration_us
from planner.errors import InvalidPlanError

_EVENTS_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Window:
    """Windows ``[k * every + offset, k * every + offset + size)`` for all integers k, in us."""

    size_us: int
    every_us: int
    #: At least 0, less than ``every_us``.
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class CumulatingWindow:
    """Windows ``[k * size + offset, k * size + offset + j * step)`` for ``0 < j <= size / step``.

    The result of each lives in its last step.
    """

    size_us: int
    step_us: int
    #: At least 0, less than ``size_us``.
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotWindow:
    """A window between every two neighbouring lifetime endpoints of a key."""

    def __str__(self) -> str:
        return "snapshot"


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """A window per period of activity of a key, at most ``max_us`` long."""

    gap_us: int
    max_us: int | None

    def __str__(self) -> str:
        longest = "" if self.max_us is None else f" max {format_us(self.max_us)}"
        gap = "of what overlaps" if self.gap_us == 1 else format_us(self.gap_us)
        return f"session {gap}{longest}"


@dataclass(frozen=True, slots=True)
class RunningSession:
    """The windows of :class:`SessionWindow` so far, from each start of their events to the next."""

    gap_us: int
    max_us: int | None

    def __str__(self) -> str:
        return f"running {SessionWindow(self.gap_us, self.max_us)}"


@dataclass(frozen=True, slots=True)
class CountWindow:
    """A window for every ``count`` events of a key."""

    count: int

    def __str__(self) -> str:
        return f"every {self.count} events"


#: Windows that the events of a key make.
DataWindow = SnapshotWindow | SessionWindow | RunningSession | CountWindow
AnyWindow = Window | CumulatingWindow | DataWindow


def hopping(size: Duration, every: Duration, offset: Duration = 0) -> Window:
    """Windows of length ``size`` that begin every ``every``, one of them at 1970 + ``offset``."""
    size_us = positive_duration_us(size, what="window size")
    every_us = positive_duration_us(every, what="window every")
    return Window(size_us, every_us, duration_us(offset, what="window offset") % every_us)


def tumbling(size: Duration, offset: Duration = 0) -> Window:
    """Windows of length ``size``, one after the other; ``offset`` as in :func:`hopping`."""
    return hopping(size, size, offset)


def cumulating(size: Duration, step: Duration, offset: Duration = 0) -> CumulatingWindow:
    """What has come since the start of a tumbling window of ``size``, told every ``step``.

    The result of a step holds the events from the window's start to the step's end, and lives in
    that step. ``size`` is a multiple of ``step``; ``offset`` as in :func:`hopping`.
    """
    size_us = positive_duration_us(size, what="window size")
    step_us = positive_duration_us(step, what="window step")
    if size_us % step_us:
        raise InvalidPlanError(
            f"cumulating(size={format_us(size_us)}, step={format_us(step_us)}): the size is a "
            "multiple of the step"
        )
    return CumulatingWindow(size_us, step_us, duration_us(offset, what="window offset") % size_us)


def snapshot() -> SnapshotWindow:
    """A window between every two neighbouring starts or ends of a key's events.

    It holds the events that are alive in it; where none is, there is no window.
    """
    return SnapshotWindow()


def session(
    gap: Duration, max: Duration | None = None, *, running: bool = False
) -> SessionWindow | RunningSession:
    """See :func:`planner.api.grouped.sessions.session`."""
    longest = None if max is None else positive_duration_us(max, what="session max")
    kind = RunningSession if running else SessionWindow
    return kind(positive_duration_us(gap, what="session gap"), longest)


def count_window(n: int) -> CountWindow:
    """A window for every ``n`` events of a key, from the first one's start to the last one's.

    Events count in sequence order. The last events of a key, if fewer than ``n``, are in none.
    """
    if not isinstance(n, int) or isinstance(n, bool) or not 0 < n <= _EVENTS_MAX:
        raise InvalidPlanError(f"count_window({n!r}): n is a number of events, at least 1")
    return CountWindow(n)
