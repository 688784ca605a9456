"""Two small streams and SQL windows over them, for tests of the results."""

from __future__ import annotations

from planner import Stream, event

SECOND = 1_000_000
ROWS = {
    "a": [(0, 1), (1, 2), (2, 1), (3, 1), (6, 1), (7, 2), (8, 1), (12, 2)],
    "b": [(1, 1), (3, 2), (4, 1), (6, 1), (9, 2), (11, 2), (13, 1)],
}


def streams() -> dict[str, Stream]:
    return {
        name: Stream.from_items({"k": "int64"}, [event(at * SECOND, k=k) for at, k in rows])
        for name, rows in ROWS.items()
    }


def of(name: str, size: int, every: int | None = None) -> str:
    kind = "TUMBLE" if every is None else "HOP"
    lengths = ", ".join(f"INTERVAL '{one}' SECOND" for one in (every, size) if one is not None)
    return f"TABLE({kind}(TABLE {name}, DESCRIPTOR(vs()), {lengths}))"


def counted(name: str, size: int) -> str:
    listed = "SELECT k, window_start, window_end, COUNT(*) AS c"
    return f"({listed} FROM {of(name, size)} GROUP BY k, window_start, window_end)"


def windows(at: int, size: int, every: int) -> list[int]:
    return [start for start in range(-size, 20, every) if start <= at < start + size]


ROWS_OF_A = f"(SELECT * FROM {of('a', 5)})"
SESSIONS = "TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(vs()), INTERVAL '2' SECOND))"
BOTH = "window_start, window_end"
SIDES = "FROM {} AS a {} JOIN {} AS b ON a.k = b.k"
HOPS = SIDES.format(of("a", 10, 5), "", of("b", 10, 5))
