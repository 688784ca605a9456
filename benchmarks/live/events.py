"""The events of a run, the expected answer of each query, and the comparison with it.

A run is a few steps of load, each at its own rate. Event ``i`` of a step is due ``i / rate``
seconds after the step's start; its field ``at`` has this time in microseconds. Keys and amounts are
computed from the step's number, so that the generator and the comparison use the same events.

Queries: ``filter`` keeps even amounts, ``scarce`` those below 100 of 10,000; ``window`` counts and
sums by key over 10 ms; ``join`` has for each event every side of its key that is at most a second
older.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC, SIDE_TOPIC, OUT_TOPIC = "events", "sides", "out"
PARTITIONS, KEYS, AMOUNTS = 2, 100, 10_000
SEED = 20_261_122
WINDOW_US = 10_000
SIDE_LIFE_US = 1_000_000
SIDES_PER_S = 200
SCARCE_BELOW = 100
ALWAYS = 1 << 62
QUERIES = ("filter", "window", "join", "scarce")
#: The compared fields of each query's rows; the first is the time at which the row was due.
FIELDS = {
    "filter": ("at", "key", "amount"),
    "scarce": ("at", "key", "amount"),
    "window": ("window_end", "key", "n", "total"),
    "join": ("at", "key", "amount", "side"),
}
#: The fields of an event that a query reads, and all of its fields as an Avro schema.
EVENT = pa.schema(
    [pa.field("at", pa.int64()), pa.field("key", pa.int64()), pa.field("amount", pa.int64())]
)
AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        *({"name": name, "type": "long"} for name in EVENT.names),
        {"name": "pad", "type": "string"},
    ],
}
#: Fills a value up to 90 bytes.
PAD = "x" * 39
_SIDES = 1 << 16


@dataclass(frozen=True)
class Step:
    """One rate for some time; ``rows`` were sent."""

    number: int
    started_us: int
    rate: int
    rows: int
    #: Number of sides per second to join with; none in other queries.
    sides_per_s: int = 0
    keys: int = KEYS
    #: Whether all events of a key are in one partition.
    by_key: bool = False

    @property
    def last_us(self) -> int:
        """Return the due time of its last event."""
        return self.started_us + (self.rows - 1) * 1_000_000 // self.rate

    def told(self) -> dict[str, int]:
        """Return the step in a form for JSON."""
        return asdict(self)

    def events(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return time, key and amount of each event, in the order in which they are sent."""
        return self._drawn(self.number, self.rate, self.rows)

    def sides(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the same for each side; none is later than the last event."""
        if not self.sides_per_s:
            return (np.empty(0, np.int64),) * 3
        rows = (self.last_us - self.started_us) * self.sides_per_s // 1_000_000 + 1
        return self._drawn(self.number + _SIDES, self.sides_per_s, rows)

    def _drawn(
        self, number: int, rate: int, rows: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # One generator per column, so the values of a column do not depend on the number of
        # columns.
        keys, amounts = (np.random.default_rng([SEED, number, k]) for k in range(2))
        at = self.started_us + np.arange(rows, dtype=np.int64) * 1_000_000 // rate
        return at, keys.integers(0, self.keys, rows), amounts.integers(0, AMOUNTS, rows)


def value_of(at_us: int, key: int, amount: int) -> bytes:
    """Return one message: about 90 bytes of JSON."""
    return b'{"at":%d,"key":%d,"amount":%d,"pad":"%s"}' % (at_us, key, amount, PAD.encode())


def expected(query: str, steps: Sequence[Step]) -> np.ndarray:
    """Return all expected rows of the query, int64[n, fields], in any order."""
    at, key, amount = _joined([step.events() for step in steps])
    if query == "window":
        return _windows(at, key, amount)
    if query == "join":
        return _pairs(at, key, amount, *_joined([step.sides() for step in steps]))
    kept = amount % 2 == 0 if query == "filter" else amount < SCARCE_BELOW
    return np.stack([at[kept], key[kept], amount[kept]], axis=1)


def _joined(parts: Sequence[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _windows(at: np.ndarray, key: np.ndarray, amount: np.ndarray) -> np.ndarray:
    group = at // WINDOW_US * KEYS + key
    found, inverse = np.unique(group, return_inverse=True)
    n = np.bincount(inverse)
    total = np.bincount(inverse, amount).astype(np.int64)
    return np.stack([(found // KEYS + 1) * WINDOW_US, found % KEYS, n, total], axis=1)


def _pairs(
    at: np.ndarray,
    key: np.ndarray,
    amount: np.ndarray,
    side_at: np.ndarray,
    side_key: np.ndarray,
    side: np.ndarray,
) -> np.ndarray:
    parts = [np.empty((0, 4), np.int64)]
    for k in range(KEYS):
        mine, other = key == k, side_key == k
        times = side_at[other]
        lo = np.searchsorted(times, at[mine] - SIDE_LIFE_US, side="right")
        hi = np.searchsorted(times, at[mine], side="right")
        count = hi - lo
        left = np.repeat(np.arange(len(count)), count)
        right = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + lo[left]
        rows = at[mine][left], np.full(len(left), k), amount[mine][left], side[other][right]
        parts.append(np.stack(rows, axis=1))
    return np.concatenate(parts)


def rows_of(query: str, values: Sequence[bytes]) -> np.ndarray:
    """Return the rows in messages, int64[n, fields], in their order; times are microseconds."""
    if not values:
        return np.empty((0, len(FIELDS[query])), np.int64)
    text = pa.BufferReader(b"\n".join(values))
    table = pj.read_json(text, pj.ReadOptions(block_size=1 << 24))
    rows = np.stack([_integers(table[name]) for name in FIELDS[query]], axis=1)
    if "diff" in table.column_names:  # a retracted row does not count
        rows[table["diff"].to_numpy() != 1, 1:] = -1
    return rows


def _integers(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_string(column.type):
        column = column.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.to_numpy().astype(np.int64)


@dataclass(frozen=True)
class Verdict:
    """The differences of an answer from the expected one."""

    rows: int
    #: Rows that are expected and missing.
    missing: int
    #: Rows that are wrong or occur too often.
    wrong: int

    @property
    def right(self) -> bool:
        return self.missing == self.wrong == 0


def judged(
    query: str, found: np.ndarray, steps: Sequence[Step], since_us: int, settled_us: int
) -> Verdict:
    """Compare the rows of an answer that are due after ``since_us``.

    Rows that are due after ``settled_us`` may be missing.
    """
    right = expected(query, steps)
    found, right = (rows[rows[:, 0] > since_us] for rows in (found, right))
    names = FIELDS[query]
    columns = dict(zip(names, np.concatenate([found, right]).T, strict=True))
    surplus = np.repeat([1, -1], [len(found), len(right)])
    counted = (
        pa.table({**columns, "surplus": surplus})
        .group_by(list(names))
        .aggregate([("surplus", "sum")])
    )
    over, due = counted["surplus_sum"].to_numpy(), counted[names[0]].to_numpy()
    missing = -over[(over < 0) & (due <= settled_us)].sum()
    return Verdict(len(found), int(missing), int(over[over > 0].sum()))
