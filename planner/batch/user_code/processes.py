"""A keyed process in a batch: a plain loop over the events of one key, with timers in a dict.

It implements :mod:`rvertex.user_code.keyed.process` a second time, as simply as possible. It shares
with the stream's operator only the classes of events and timers, and the Python values of columns.

The plan decides the last CTI of the stream (:mod:`planner.batch.temporal.final_cti`). The limits of
timers are the stream's.

Differences: reading outside values is an error, since only the stream has recorded them. The limit
on timers that are due at once counts those up to the next event of the key, because a batch has no
CTIs between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from planner.expressions.spark.errors import UnsupportedInBatchError
from rstream.items.batch import event_schema
from rstream.types import INF_TIME
from rvertex.events.lifetime import with_times
from rvertex.operators.user import keyed_process
from rvertex.user_code.code import NOT_POISON
from rvertex.user_code.emitted_rows import misfit
from rvertex.user_code.errors import (
    RAISED,
    CrowdedTimersError,
    EndlessTimersError,
    UserResultError,
    line_of,
    reason_of,
    shown,
)
from rvertex.user_code.keyed.process import Timer
from rvertex.user_code.plain_values import (
    arrow_column,
    event_class,
    key_view,
    plain_keys,
    plain_list,
    raw_column,
)
from rvertex.user_code.times import moment_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rvertex.operators.user.keyed_process import KeyedProcessing
    from rvertex.user_code.keyed.state_fields import StateField

_TYPES = {"int": int, "float": float, "str": str, "bytes": bytes, "bool": bool}


def process_rows(spec: KeyedProcessing, events: pa.RecordBatch, reached: int) -> pa.RecordBatch:
    """Return the rows that the process emits for ``events``, all of one key, in order.

    ``reached``: the last finite CTI of the stream, MIN_TIME if it has none.
    """
    schema = event_schema(spec.output_schema([pa.schema(list(events.schema)[2:])]))
    if events.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema)
    keys = [plain_keys(events.column(key))[0] for key in spec.keys]
    key = keys[0] if len(keys) == 1 else tuple(keys)
    view = key_view([events.column(key).type for key in spec.keys])
    loop = _Loop(spec, key if view is None else view(key))
    loop.run(_with_ends(events) if spec.has_ends else _whole(events), reached)
    given = [[row[k] for row in loop.context.rows] for k in range(2 + len(spec.output))]
    rows = len(loop.context.rows)
    columns = [*given[:2], *([key] * rows for key in keys), *given[2:]]
    made = [raw_column] * (2 + len(keys)) + [arrow_column] * len(spec.output)
    triples = zip(made, columns, schema, strict=True)
    arrays = [make(values, f.type) for make, values, f in triples]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _whole(events: pa.RecordBatch) -> list[_Given]:
    """Return events with their lifetimes."""
    starts, ends = (plain_list(column) for column in events.columns[:2])
    triples = zip(_python_events(events), starts, ends, strict=True)
    return [_Given(event, vs, ve) for event, vs, ve in triples]


def _with_ends(events: pa.RecordBatch) -> list[_Given]:
    """Return two points per event, for its begin and its end; ends are first at equal times."""
    starts, ends = (plain_list(column) for column in events.columns[:2])
    begun = with_times(events, ve=np.full(events.num_rows, INF_TIME))
    begins = [
        _Given(event, vs, vs + 1) for event, vs in zip(_python_events(begun), starts, strict=True)
    ]
    ended = zip(_python_events(events), ends, strict=True)
    finite = [_Given(event, ve, ve + 1, is_end=True) for event, ve in ended if ve != INF_TIME]
    return sorted([*finite, *begins], key=lambda given: (given.vs, not given.is_end))


def _python_events(events: pa.RecordBatch) -> list[Any]:
    columns = [plain_list(column) for column in events.columns]
    return list(map(event_class(events.schema.names[2:]), zip(*columns, strict=True)))


@dataclass(frozen=True, slots=True)
class _Given:
    """An event, and the lifetime of the rows that are emitted for it."""

    event: Any
    vs: int
    ve: int
    is_end: bool = False


class _Context:
    """The context of the process of one key."""

    def __init__(self, name: str, key: Any, output: pa.Schema) -> None:
        self._name, self._output = name, output
        self.key = key
        self.timers: dict[str, int] = {}
        #: The emitted rows, each ``(vs, ve, values ...)``.
        self.rows: list[tuple[Any, ...]] = []
        self.vs, self.ve, self.in_timer = 0, 1, False
        #: Whether the stream has ended: the remaining timers are later than all its CTIs and
        #: events.
        self.at_end = False

    @property
    def time(self) -> int:
        """The time of the current event or timer."""
        return self.vs

    def now(self) -> Any:
        """Raise an error: a batch has no recorded clock, randomness or lookups."""
        raise UnsupportedInBatchError(
            self._name,
            "ctx.now, ctx.random and ctx.lookup would return other values than the job recorded",
        )

    random = now

    def lookup(self, function: Any, key: Any) -> Any:
        """Raise an error: a batch has no recorded clock, randomness or lookups."""
        return self.now()

    def _moment(self, time: Any) -> int:
        try:
            return moment_us(time, self.vs)
        except TypeError as error:
            raise UserResultError(self._name, str(error)) from None

    def set_timer(self, at: Any, name: str = "") -> None:
        """Implement :meth:`rvertex.user_code.keyed.process.KeyedContext.set_timer`."""
        at = self._moment(at)
        if at >= INF_TIME:
            raise UserResultError(self._name, f"set_timer({at!r}): no time")
        if at <= self.vs and self.in_timer:
            raise UserResultError(self._name, f"set_timer({at}): timers set timers for later times")
        self.timers[name] = max(at, self.vs)

    def delete_timer(self, name: str = "") -> None:
        """Implement :meth:`rvertex.user_code.keyed.process.KeyedContext.delete_timer`."""
        self.timers.pop(name, None)

    def emit(self, *values: Any, vs: Any = None, ve: Any = None, **named: Any) -> None:
        """Implement :attr:`rvertex.user_code.keyed.process.KeyedContext.emit`."""
        start = self.vs if vs is None else self._moment(vs)
        end = start + 1 if self.in_timer or vs is not None else self.ve
        end = end if ve is None else self._moment(ve)
        if not self.vs <= start < end <= INF_TIME:
            raise UserResultError(self._name, f"emit(vs={start}, ve={end}) at {self.vs}")
        left = list(self._output.names[len(values) :])
        if len(values) > len(self._output) or sorted(named) != sorted(left):
            raise TypeError(f"emit() takes values for {', '.join(self._output.names)}")
        row = (*values, *(named[name] for name in left))
        for value, f in zip(row, self._output, strict=True):
            try:
                arrow_column([value], f.type)
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                raise UserResultError("emit(...)", misfit(f, value, error)) from None
        self.rows.append((start, end, *row))


class _Loop:
    """Runs the process of one key."""

    def __init__(self, spec: KeyedProcessing, key: Any) -> None:
        self._spec = spec
        self._process = spec.process.target()
        for f in spec.fields:
            setattr(self._process, f.name, [] if f.is_list else f.default)
        self.context = _Context(spec.process.name, key, spec.output)

    def run(self, events: Iterable[_Given], reached: int) -> None:
        """Process all events, each after the timers that are due by its start; then all timers.

        Timers later than ``reached`` get ``ctx.at_end``.
        """
        for given in events:
            self._fire(given.vs)
            call = self._process.on_end if given.is_end else self._process.on_event
            self._call(call, given.event, given.vs, given.ve, is_timer=False)
        self._fire(reached)
        self.context.at_end = True
        self._fire(INF_TIME)

    def _fire(self, until: int) -> None:
        timers = self.context.timers
        fired = 0
        first_at = min(timers.values(), default=INF_TIME)
        # terminates: ``_count`` raises if too many timers fire
        while timers and min(timers.values()) <= until:
            at, name = min((at, name) for name, at in timers.items())
            del timers[name]
            fired += 1
            if self._count(fired, at - first_at):
                fired, first_at = 1, at
            self._call(self._process.on_timer, Timer(at, name), at, at + 1, is_timer=True)

    def _count(self, fired: int, span_us: int) -> bool:
        """Return whether the count of simultaneous timers restarts with the ``fired``-th.

        Raises:
            EndlessTimersError, CrowdedTimersError: too many timers fire, as in the stream.
        """
        name, key = self._spec.process.name, repr(self.context.key)
        if self.context.at_end and fired > keyed_process.FINAL_TIMERS_MAX:
            raise EndlessTimersError(name, key, keyed_process.FINAL_TIMERS_MAX)
        if fired <= keyed_process.TIMERS_MAX:
            return False
        if span_us < (fired - 1) * keyed_process.TIMER_SPACING_MIN_US:
            raise CrowdedTimersError(name, key, keyed_process.TIMERS_MAX, span_us)
        return True

    def _call(
        self, call: Callable[..., None], given: Any, vs: int, ve: int, *, is_timer: bool
    ) -> None:
        """Make one call; if it raises and the event is skipped, undo all its effects."""
        ctx, process = self.context, self._process
        ctx.vs, ctx.ve, ctx.in_timer = vs, ve, is_timer
        names = [f.name for f in self._spec.fields]
        before = {name: _copied(getattr(process, name)) for name in names}
        timers, rows = dict(ctx.timers), len(ctx.rows)
        try:
            call(given, ctx)
            self._check_fields()
        except (*NOT_POISON, UnsupportedInBatchError):
            raise
        except RAISED as error:
            if self._spec.on_error == "fail":
                raise UserResultError(
                    self._spec.process.name, _failure_text(error, given, ctx)
                ) from error
            for name, value in before.items():
                setattr(process, name, value)
            ctx.timers.clear()
            ctx.timers.update(timers)
            del ctx.rows[rows:]

    def _check_fields(self) -> None:
        for f in self._spec.fields:
            value = getattr(self._process, f.name)
            if not _fits(f, value):
                reason = f"state field {f.name!r} is {f.shown}, not {value!r}"
                raise UserResultError(self._spec.process.name, reason)


def _copied(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value


def _fits(field: StateField, value: Any) -> bool:
    if field.is_list:
        return type(value) is list and all(_is_of(field, v) for v in value[-1:])
    return _is_of(field, value) or (value is None and field.is_optional)


def _is_of(field: StateField, value: Any) -> bool:
    is_kind = type(value) is _TYPES[field.kind]
    return is_kind and (field.kind != "int" or -(2**63) <= value < 2**63)


def _failure_text(error: BaseException, given: Any, ctx: _Context) -> str:
    """Return the text of a fatal error, with the event and its key."""
    if isinstance(error, UserResultError):
        return error.reason
    what = f"timer {given.name!r}" if ctx.in_timer else f"event {shown(given)}"
    return f"raised {reason_of(error)} at {line_of(error)}, key {ctx.key!r}, time {ctx.vs}, {what}"
