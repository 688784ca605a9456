"""Converts the events of a step to Python values for a keyed process, a piece at a time.

If the code of ``on_event`` only reads attributes of its event, only the columns it names are
converted. Any other attribute is fetched when it is read. So every event has all its values; the
analysis of the code only affects speed.

Invariants: (1) the event is one object, refilled for every call; (2) ``number`` is the number of
the current event, or of the next event between two calls.
"""

from __future__ import annotations

from operator import length_hint
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.items.edges import is_end
from rvertex.events.lifetime import with_times
from rvertex.user_code.keyed.method_uses import names_read
from rvertex.user_code.plain_values import event_class, plain_keys, plain_list, raw_list
from rvertex.user_code.times import holds_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Number of events that are converted together, small enough for the processor's cache.
PIECE_ROWS = 1 << 12


class KeyedEvents:
    """The events of the current run. ``columns``: columns of the payload, including ``keys``."""

    def __init__(
        self, columns: Sequence[str], keys: Sequence[str], process: Any, *, has_ends: bool = False
    ) -> None:
        """Prepare the event object; ``has_ends``: the run has start edges and end edges.

        Each edge has the time at which it happens.
        """
        self.has_ends = has_ends
        self._columns = [VS, VE, *columns]
        self._keys = list(keys)
        made = event_class(columns)
        slots: tuple[str, ...] = made.__slots__  # type: ignore[attr-defined]
        getters = [made.__dict__[slot] for slot in slots]
        indices = {n: getters.index(g) for n, g in vars(made).items() if g in getters}
        made.__getattr__ = _fetch(self, indices)  # type: ignore[attr-defined]
        #: The event object that is passed to every call.
        self.event: Any = made((None,) * len(slots))
        names = names_read(process.on_event)
        if has_ends:
            more = names_read(process.on_end)
            names = None if names is None or more is None else names | more
        is_known = names is not None and names <= set(indices)
        read = {indices[name] for name in names or ()} if is_known else set(range(len(slots)))
        #: The slots of the event that are filled before each call, and their columns.
        self.filled = [slots[i] for i in sorted(read)]
        self._read = [self._columns[i] for i in sorted(read)]
        for slot in sorted(set(slots) - set(self.filled)):
            delattr(self.event, slot)
        #: Number of the run's first event in its stream.
        self.seq = 0
        self._events: pa.RecordBatch | None = None
        self._until = 0
        self._left: Iterator[int] | None = None

    def pieces(self, events: pa.RecordBatch) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number, in the run, of a piece's first event, and its values as lists.

        The lists are times, the columns of ``filled``, keys and numbers; with ends, also whether
        each event is an end edge.
        """
        times, ended = events, None
        if self.has_ends:
            vs, ve = int64_column(events, VS), int64_column(events, VE)
            ended = is_end(vs, ve).tolist()
            events = with_times(events, vs=np.minimum(vs, ve), ve=np.maximum(vs, ve))
        self._events = events
        for lo in range(0, events.num_rows, PIECE_ROWS):
            piece = events.slice(lo, PIECE_ROWS)
            lists = {
                name: plain_list(piece.column(name)) for name in dict.fromkeys((VS, *self._read))
            }
            starts = lists[VS]
            self._until = lo + piece.num_rows
            self._left = iter(range(lo, self._until))
            read = [lists[name] for name in self._read]
            lists_of_piece = [starts, *read, self._key_list(piece, lists), self._left]
            if ended is not None:
                lists_of_piece[0] = plain_list(times.column(VS).slice(lo, PIECE_ROWS))
                lists_of_piece.append(ended[lo : lo + PIECE_ROWS])
            yield lo, lists_of_piece
            self._left = None

    def end(self) -> None:
        """Release the run. Its events can no longer be read."""
        if self._events is not None:
            self.seq += self._events.num_rows
        self._events = None

    @property
    def number(self) -> int:
        """Number of the current event; between two calls, of the next event."""
        if self._left is not None:
            return self.seq + self._until - 1 - length_hint(self._left)
        return self.seq + (self._events.num_rows if self._events is not None else 0)

    def value(self, index: int, row: int) -> Any:
        """Return a value of an event of the run: index 0 is its start, 1 its end, then columns."""
        assert self._events is not None
        (value,) = plain_list(self._events.column(self._columns[index]).slice(row, 1))
        return value

    def end_of(self, row: int) -> int:
        """Return the end of the lifetime of an event of the run, us."""
        return int(self.value(1, row))

    def payload(self, row: int) -> tuple[Any, ...] | None:
        """Return the columns of an event of the run; None if ``row`` is not in the run."""
        if self._events is None or not 0 <= row < self._events.num_rows:
            return None
        columns = [self._events.column(name).slice(row, 1) for name in self._columns[2:]]
        return tuple(raw_list(column)[0] for column in columns)

    def _key_list(self, piece: pa.RecordBatch, lists: dict[str, list[Any]]) -> list[Any]:
        keys = [
            lists[key]
            if key in lists and _is_its_own_key(piece.column(key).type)
            else plain_keys(piece.column(key))
            for key in self._keys
        ]
        return keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))


def _is_its_own_key(kind: pa.DataType) -> bool:
    """Return whether values of this type need no conversion to be keys as users see them."""
    return not pa.types.is_floating(kind) and not holds_times(kind)


def _fetch(events: KeyedEvents, indices: dict[str, int]) -> Any:
    def fetch(event: Any, name: str) -> Any:
        """Return an attribute that was not filled before the call."""
        if name not in indices:
            raise AttributeError(f"'Event' object has no attribute {name!r}", name=name, obj=event)
        return events.value(indices[name], events.number - events.seq)

    return fetch
