"""Roots that releases have left behind: how one is made, and how it is resumed.

``python -m tests.support.stored_roots`` writes the root of this release's format. Run it when
``jobmanager.storage.root.FORMAT`` is raised, before the release; roots of former formats stay as
they are. A root is a job that has read its first day and stopped, with the state of many operators
and the files of that day. It lies in fsspec's memory, so its place is the same on every machine.
"""

from __future__ import annotations

import io
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

import streamscope as ss
from jobmanager.storage.root import FORMAT
from rstream import open_store

if TYPE_CHECKING:
    import jobmanager

PLACE = "memory://stored-roots"
JOB, DAYS = f"{PLACE}/job", f"{PLACE}/days"
FOLDER = Path(__file__).parent.parent / "golden/roots"
ROWS = 60


class Sums(ss.KeyedProcess):
    """A running sum by key, emitted by a timer; it draws a value that nothing else depends on.

    It may not change: stored roots refuse code that is not what it was.
    """

    output = {"total": "int64"}  # noqa: RUF012
    total: int = 0

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.total += event.x + int(ctx.random())
        ctx.set_timer(event.vs + 7_000_000)

    def on_timer(self, timer: Any, ctx: ss.KeyedContext) -> None:
        ctx.emit(self.total)


def events() -> ss.Stream:
    """The days that are there."""
    return ss.Stream.from_parquet(DAYS, vs="t", delay="1s", partitions=1)


def query(*, strong: bool) -> ss.Query:
    """Windows, sessions, joins, first rows, running results and user code over the same days."""
    rows = events()
    keyed = rows.group_by("key")
    windows = keyed.window(ss.hopping("20s", "5s")).agg(
        n=ss.agg.count(), most=ss.agg.max("x"), mean=ss.agg.mean("y"), last=ss.agg.last("x")
    )
    sessions = keyed.window(ss.session("4s")).agg(total=ss.agg.sum("x"))
    joined = rows.join(windows, on="key").select("key", total=ss.col("x") + ss.col("n"))
    near = rows.join(rows.select("key", z=ss.col("x")), on="key", within=("-2s", "0s"))
    first = rows.select("key", "x").deduplicate("key").select("key", total=ss.col("x"))
    summed = keyed.process(Sums)
    if strong:
        summed = summed.recover_with("strong")
    parts = (
        sessions.select("key", "total"),
        joined,
        near.select("key", total=ss.col("x") * ss.col("z")),
        first,
        summed,
    )
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole.to_parquet()


def put_day(number: int) -> None:
    """Store the events of a day."""
    times = [(number * ROWS + i) * 1_000_000 for i in range(ROWS)]
    table = pa.table(
        {
            "t": pa.array(times, pa.int64()),
            "key": [i % 3 for i in range(ROWS)],
            "x": [(i * 7) % 11 + number for i in range(ROWS)],
            "y": [i / 3 for i in range(ROWS)],
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    _put(f"days/{number}.parquet", sink.getvalue())


def _put(path: str, data: bytes) -> None:
    """Store a file that is as old on every machine: a job knows its files by their times."""
    open_store(PLACE).put(path, data)
    name = f"{PLACE.removeprefix('memory:/')}/{path}"
    fsspec.filesystem("memory").store[name].created = datetime(2026, 1, 1, tzinfo=UTC)


def clear() -> None:
    """Delete everything in the place."""
    store = open_store(PLACE)
    for path in store.list():
        store.delete(path)


def begin(*, strong: bool) -> None:
    """Run the first day; the job stops with its state kept."""
    clear()
    put_day(0)
    ss.run(query(strong=strong), root=JOB, executor="local", parallelism=2, continue_=True).wait(60)


def end() -> jobmanager.Job:
    """Run the second day, the last one."""
    put_day(1)
    job = ss.run(root=JOB, executor="local", continue_=True, finish=True)
    job.wait(60)
    return job


def rows_of(job: jobmanager.Job) -> list[tuple[Any, ...]]:
    """The answer, in an order of its own."""
    table = job.to_arrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def packed() -> bytes:
    """All files in the place as one archive."""
    store, sink = open_store(PLACE), io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:xz") as archive:
        for path in sorted(store.list()):
            data = store.get(path)
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return sink.getvalue()


def unpack(archive: Path) -> None:
    """Put the files of an archive into the place."""
    clear()
    with tarfile.open(archive) as files:
        for info in files:
            found = files.extractfile(info)
            assert found is not None
            _put(info.name, found.read())


if __name__ == "__main__":
    import sys

    from tests.support import stored_roots

    FOLDER.mkdir(exist_ok=True)
    for strategy in sys.argv[1:] or ["checkpoint", "strong"]:
        stored_roots.begin(strong=strategy == "strong")
        (FOLDER / f"format-{FORMAT}-{strategy}.tar.xz").write_bytes(packed())
