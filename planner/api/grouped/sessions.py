"""Session windows; with an expression as gap, each event has its own gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import pyarrow as pa

from planner.api import names as naming
from planner.api.choices import when
from planner.api.expressions import Expr
from planner.durations import Duration, positive_duration_us
from planner.errors import InvalidPlanError
from planner.logical import windows
from planner.logical.windows import RunningSession, SessionWindow

if TYPE_CHECKING:
    from planner.expressions.nodes import Node


@dataclass(frozen=True, slots=True)
class SessionBy:
    """A session window per key whose gap is an expression over each event."""

    gap: Expr
    max_us: int | None
    running: bool = False

    def gap_us(self, schema: pa.Schema) -> Node:
        """Return the gap of each event, us, at least 1."""
        kind = naming.resolved(self.gap, schema).type
        if pa.types.is_duration(kind):
            us = self.gap.cast(pa.duration("us")).cast("int64")
        elif pa.types.is_integer(kind):
            us = self.gap.cast("int64")
        else:
            raise InvalidPlanError(
                f"session(gap={self.gap}): it is {kind}; a gap must be a duration, or "
                "whole microseconds"
            )
        return naming.resolved(when(us > 1).then(us).otherwise(1), schema)

    @property
    def window(self) -> SessionWindow | RunningSession:
        """The session window with a gap of 1 us; events are first extended by their own gaps."""
        return (RunningSession if self.running else SessionWindow)(1, self.max_us)


@overload
def session(
    gap: Duration, max: Duration | None = None, *, running: bool = False
) -> SessionWindow | RunningSession: ...
@overload
def session(gap: Expr, max: Duration | None = None, *, running: bool = False) -> SessionBy: ...
def session(
    gap: Duration | Expr, max: Duration | None = None, *, running: bool = False
) -> SessionWindow | RunningSession | SessionBy:
    """Make a window from a key's first event until no event arrives for ``gap``.

    The last instant of a session is the latest one at which one of its events is valid. An event
    that starts ``gap`` or more after it begins another session, and so does an event that starts
    ``max`` or more after the session's start. The window ends ``gap`` after the last instant, at
    the latest ``max`` after its start.

    ``gap``: a duration, or an expression over the event, of durations or whole microseconds, that
    gives each event its own gap. An event whose gap is null or less than 1 us has no gap: it keeps
    the session open while it is valid.

    ``running``: emit the session's result so far at the start of each of its events. Each result is
    valid until the next, the last one until the session ends. A destination that stores rows by key
    gets it at once. Other destinations get it when the next event arrives, at the latest after the
    gap. Functions that need all events at once, such as ``quantile``, are an error.
    """
    if not isinstance(gap, Expr):
        return windows.session(gap, max, running=running)
    longest = None if max is None else positive_duration_us(max, what="session max")
    return SessionBy(gap, longest, running)
