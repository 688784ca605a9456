"""A running total per key: the expected totals, and a watcher of when they can be read.

``python -m live.changes kafka SERVERS TOPIC`` and ``... postgres DSN TABLE`` read the newest row of
each key, and keep when each row was first there. They read one command per line: ``count`` prints
the sum of the newest counts, which is the number of events that the rows include; ``save PATH``
writes int64[rows, 4]: when a row was read, in microseconds, key, count and total.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import adbc_driver_postgresql.dbapi as adbc
import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from live.reading import consumer_of, next_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from live.events import Step

#: Pause between two reads of a table, s.
_LOOK_S = 0.01
_CONSUME_S = 0.02
_COLUMNS = ("key", "n", "total")
#: All counts of one key are below this number.
_COUNTS = 1 << 40


def totals(steps: Sequence[Step]) -> np.ndarray:
    """Return per event its time, key, and the key's count and total so far: int64[events, 4]."""
    columns = [np.concatenate(c) for c in zip(*(s.events() for s in steps), strict=True)]
    at, key, amount = columns
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    lengths = np.diff(starts, append=len(key))
    n = np.arange(len(key)) - np.repeat(starts, lengths) + 1
    sums = np.cumsum(amount[order])
    before = np.concatenate([[0], sums])[starts]
    found = np.stack([at[order], key[order], n, sums - np.repeat(before, lengths)], axis=1)
    return found[np.argsort(found[:, 0], kind="stable")]


@dataclass(frozen=True)
class Answered:
    """The time at which the result of each event, or a newer one of its key, could be read."""

    #: Microseconds; 0: never.
    read_us: np.ndarray
    #: Rows whose total is not that of their count.
    wrong: int


def answered(found: np.ndarray, right: np.ndarray) -> Answered:
    """Compare the rows that a watcher saved with :func:`totals`."""
    if not len(found):
        return Answered(np.zeros(len(right), np.int64), 0)
    total_of = dict(zip(_codes(right[:, 1], right[:, 2]), right[:, 3].tolist(), strict=True))
    codes = _codes(found[:, 1], found[:, 2])
    pairs = zip(codes, found[:, 3].tolist(), strict=True)
    wrong = sum(total_of.get(code) != total for code, total in pairs)
    order = np.argsort(codes, kind="stable")
    sorted_codes, read = np.array(codes)[order], found[order, 0]
    wanted = np.array(_codes(right[:, 1], right[:, 2]))
    place = np.minimum(np.searchsorted(sorted_codes, wanted), len(found) - 1)
    same_key = (sorted_codes[place] >= wanted) & (found[order, 1][place] == right[:, 1])
    return Answered(np.where(same_key, read[place], 0), wrong)


def _codes(key: np.ndarray, n: np.ndarray) -> list[int]:
    return (key * _COUNTS + n).tolist()


class Watched:
    """The rows that were read, each with the time of its first read."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._newest: dict[int, int] = {}
        self._rows: list[tuple[int, int, int, int]] = []
        self.events = 0

    def add(self, table: pa.Table) -> None:
        """Add rows that can be read now."""
        now_us = time.time_ns() // 1000
        columns = (table[name].cast(pa.int64()).to_pylist() for name in _COLUMNS)
        with self.lock:
            for key, n, total in zip(*columns, strict=True):
                if n > (before := self._newest.get(key, 0)):
                    self._newest[key] = n
                    self.events += n - before
                    self._rows.append((now_us, key, n, total))

    def save(self, path: str) -> None:
        with self.lock:
            np.save(path, np.array(self._rows, np.int64).reshape(-1, 4))


def of_topic(servers: str, topic: str) -> Callable[[], pa.Table | None]:
    """Return a function that reads the rows that arrived since its last call."""
    consumer = consumer_of(servers, topic)

    def look() -> pa.Table | None:
        messages = next_messages(consumer, _CONSUME_S)
        values = [m.value() for m in messages if m.error() is None and m.value()]
        if not values:
            return None
        table = pj.read_json(
            pa.BufferReader(b"\n".join(values)), pj.ReadOptions(block_size=1 << 24)
        )
        if "diff" in table.column_names:  # a retracted row does not count
            table = table.filter(pa.array(table["diff"].to_numpy() == 1))
        return table

    return look


def of_table(dsn: str, table: str) -> Callable[[], pa.Table | None]:
    """Return a function that reads all rows of the table, which may not exist yet."""
    connection = adbc.connect(dsn, autocommit=True)

    def look() -> pa.Table | None:
        time.sleep(_LOOK_S)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT to_regclass('{table}') IS NOT NULL")
            if cursor.fetchone() != (True,):
                return None
            cursor.execute(f"SELECT key, n, total FROM {table}")
            return cursor.fetch_arrow_table()

    return look


PLACES = {"kafka": of_topic, "postgres": of_table}


def main(place: str, where: str, name: str) -> None:
    """Watch until the input ends."""
    watched, ended, look = Watched(), threading.Event(), PLACES[place](where, name)

    def watch() -> None:
        while not ended.is_set():  # ends with the input
            if (table := look()) is not None:
                watched.add(table)

    thread = threading.Thread(target=watch)
    thread.start()
    for line in sys.stdin:
        word, _, path = line.strip().partition(" ")
        if word == "save":
            watched.save(path)
        print(watched.events, flush=True)
    ended.set()
    thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
