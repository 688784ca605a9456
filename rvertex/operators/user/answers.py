"""Arguments and responses of functions that call outside systems, and a cache of responses.

A response is recorded as the bytes of one row of the declared columns. So a replay gets the same
value bit by bit, for any type.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rvertex.user_code.errors import UserResultError, reason_of, shown
from rvertex.user_code.plain_values import arrow_column, plain_list

if TYPE_CHECKING:
    from rvertex.user_code.context import Request

#: Most responses in a cache; the oldest are evicted first.
CACHE_ROWS_MAX = 1_000_000
_TEXT_CHARACTERS_MAX = 120
_DIGEST_BYTES = 16


def arguments_of(events: pa.RecordBatch, on: Sequence[str]) -> list[Any]:
    """Return the function's argument for each row: the values of ``on``, or the row as a dict.

    It is None if a value of ``on`` is null, so that the row needs no call.
    """
    names = on or events.schema.names[2:]
    columns = [plain_list(events.column(name)) for name in names]
    if not on:
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if len(on) == 1:
        return columns[0]
    rows = zip(*columns, strict=True)
    return [None if any(value is None for value in row) else row for row in rows]


def key_of(argument: Any) -> str:
    """Return a text of bounded length for an argument; equal arguments have equal texts."""
    text = f"{type(argument).__name__} {argument!r}"
    if len(text) <= _TEXT_CHARACTERS_MAX:
        return text
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES)
    return f"{text[: _TEXT_CHARACTERS_MAX // 2]}... {digest.hexdigest()}"


class Answers:
    """Converts the return values of a function to rows of the declared columns."""

    def __init__(self, function: str, schema: pa.Schema) -> None:
        self._function, self._schema = function, schema
        self.null = self._row([None] * len(schema))

    def of(self, request: Request) -> bytes:
        """Return the response of a request, as a row.

        Raises:
            UserResultError: the value does not fit the declared columns.
        """
        answer = request.answer
        if answer is None:
            return self.null
        names = self._schema.names
        is_value = len(names) == 1 and pa.types.is_nested(self._schema.types[0])
        if isinstance(answer, Mapping) and not (is_value and set(answer) != set(names)):
            missing = next((name for name in names if name not in answer), None)
            if missing is not None:
                raise self._error(f"returned {shown(answer)} without {missing!r}; None is null")
            return self._row([answer[name] for name in names])
        if len(names) == 1:
            return self._row([answer])
        if not isinstance(answer, tuple | list) or len(answer) != len(names):
            wanted = f"a dict or a tuple of {', '.join(names)}"
            raise self._error(f"returned {shown(answer)}; it returns {wanted}, or None")
        return self._row(list(answer))

    def table(self, answers: Sequence[bytes]) -> pa.RecordBatch:
        """Return the rows as one batch."""
        rows = [pa.ipc.read_record_batch(pa.py_buffer(row), self._schema) for row in answers]
        return pa.concat_batches(rows) if rows else pa.RecordBatch.from_pylist([], self._schema)

    def _row(self, values: list[Any]) -> bytes:
        """Serialize the values of one row."""
        arrays = []
        for field, value in zip(self._schema, values, strict=True):
            try:
                arrays.append(arrow_column([value], field.type))
            except MemoryError:
                raise
            except (ValueError, TypeError, OverflowError, AttributeError, pa.ArrowException) as e:
                what = f"returned {shown(value)} for {field.name!r}, which is {field.type}"
                raise self._error(f"{what} ({reason_of(e)})") from None
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return batch.serialize().to_pybytes()  # type: ignore[no-any-return]

    def _error(self, reason: str) -> UserResultError:
        return UserResultError(self._function, reason)


class AnswerCache:
    """Responses by argument, valid for ``ttl_us`` of event time.

    The time counts from the start of the row that caused the call. Entries are in order of event
    time, so the first entries expire first.
    """

    def __init__(self, ttl_us: int, *, rows_max: int | None = CACHE_ROWS_MAX) -> None:
        self._ttl_us, self._rows_max = ttl_us, rows_max
        self._known: dict[str, tuple[int, bytes]] = {}
        self._order: deque[str] = deque()
        #: The entries as a table. It lacks the newest entries, and may begin with expired ones.
        self._table = _entries([], [], [])
        self._expired = 0
        self._fresh: deque[str] = deque()

    def find(self, key: str, at: int) -> bytes | None:
        """Return the response to ``key`` that is valid at time ``at``; None: there is none."""
        known = self._known.get(key)
        return known[1] if known is not None and at - known[0] < self._ttl_us else None

    def add(self, key: str, at: int, answer: bytes) -> None:
        """Store the response to the call that a row of time ``at`` caused."""
        self.expire(at)
        assert key not in self._known, key
        self._known[key] = (at, answer)
        self._order.append(key)
        self._fresh.append(key)
        if self._rows_max is not None and len(self._order) > self._rows_max:
            self._drop()

    def expire(self, at: int) -> None:
        """Drop the entries that are not valid at time ``at`` any more."""
        while self._order and at - self._known[self._order[0]][0] >= self._ttl_us:
            self._drop()

    def table(self) -> pa.Table:
        """Return the entries; takes time in the entries added since the last call."""
        added = [(key, *self._known[key]) for key in self._fresh]
        kept = self._table.slice(self._expired)
        new = _entries(*(list(column) for column in zip(*added, strict=True))) if added else None
        self._table = kept if new is None else pa.concat_tables([kept, new])
        self._expired = 0
        self._fresh.clear()
        return self._table

    def load(self, table: pa.Table) -> None:
        """Restore these entries."""
        keys, times, answers = (column.to_pylist() for column in table.columns)
        self._known = dict(zip(keys, zip(times, answers, strict=True), strict=True))
        self._order, self._fresh = deque(keys), deque()
        self._table, self._expired = table, 0

    def _drop(self) -> None:
        del self._known[self._order.popleft()]
        if self._expired < self._table.num_rows:
            self._expired += 1
        else:
            self._fresh.popleft()


def _entries(keys: list[str], times: list[int], answers: list[bytes]) -> pa.Table:
    return pa.table(
        {
            "argument": pa.array(keys, pa.string()),
            "at_us": pa.array(times, pa.int64()),
            "answer": pa.array(answers, pa.binary()),
        }
    )
