"""Live jobs over a log of rows whose queries are files, for tests that change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

import jobmanager
from jobmanager import JobConfig
from jobmanager.storage.query_file import load_query, query_file
from rstream import Appender
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import Watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jobmanager import Job

SCHEMA = pa.schema([("t", pa.int64()), ("key", pa.int64()), ("x", pa.int64())])
QUICK = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.05, lease_s=0.5)
ROWS, DELAY_US, WINDOW_US = 200, 50_000, 700_000
_HEAD = 'import streamscope as ss\nrows = ss.Stream.from_rstream({log!r}, vs="t", delay="50ms", '
_FOLLOW = 'follow={follow}, idle_after="100ms")\nquery = '
_BY_KEY = 'rows.group_by("key")'
COUNTS = f'{_BY_KEY}.window(ss.tumbling("700ms")).agg(n=ss.agg.count(), m=ss.agg.max("x"))'
#: Queries over ``rows`` with every kind of state.
STATEFUL = {
    "hopping": f'{_BY_KEY}.window(ss.hopping("1s", "300ms")).agg(t=ss.agg.sum("x"))',
    "holistic": f'{_BY_KEY}.window(ss.tumbling("700ms")).agg(m=ss.agg.quantile("x", 0.5))',
    "sessions": 'rows.filter(ss.col("x") < 3).group_by("key").window(ss.session("150ms"))'
    '.agg(n=ss.agg.count(), last=ss.agg.last("x"))',
    "own_totals": f'rows.join({COUNTS}, on="key").select("key", "x", "n", "m")',
    "two_stages": f'{COUNTS}.group_by("n").window(ss.tumbling("2100ms")).agg(k=ss.agg.count())',
    "deduplicated": 'rows.deduplicate("x", within="400ms").select("key", "x")',
    "interval": 'rows.filter(ss.col("x") < 40).join(rows.filter(ss.col("x") > 60), on="key", '
    'within=("-200ms", "100ms")).select("key", "x", y=ss.col("x_right"))',
    "union": 'rows.filter(ss.col("x") < 40).union(rows.filter(ss.col("x") > 60)).group_by("key")'
    '.window(ss.tumbling("500ms")).agg(n=ss.agg.count())',
}

#: Pairs without the column that partitions the rows, and stages that get rows by two keys.
LOSING_KEYS = {
    "outer_interval": 'rows.filter(ss.col("x") < 40).join(rows.filter(ss.col("x") > 60), on="key", '
    'within=("-200ms", "100ms"), how="full").select("key", "x", y=ss.col("x_right"))',
    "two_keys": f'{COUNTS}.select("key", "n").union(rows.group_by("x").window('
    'ss.tumbling("900ms")).agg(n=ss.agg.count()).select("n", key=ss.col("x")))'
    '.filter(ss.col("n") > 0).group_by("key").window(ss.tumbling("1400ms")).agg(t=ss.agg.sum("n"))',
}
#: Frames of all and of few rows, row patterns; running aggregates, and snapshots of their changes.
BY_CODE = {
    "patterns": 'rows.group_by("key").rolling().with_columns(d=ss.agg.count_distinct("x"), '
    'b=ss.agg.lag("x")).match("A B+", partition_by="key", define={"A": ss.col("b") > 50, '
    '"B": ss.col("x") < 60}, rows="all")',
    "changes": 'rows.group_by("key").agg(m=ss.agg.max("x")).group_by("m").agg(n=ss.agg.count())',
}
#: A keyed process with dead letters.
ODD = """None
class Even(ss.KeyedProcess):
    output = {"x": "int64"}

    def on_event(self, event, ctx):
        if event.x % 10 == 3:
            raise ValueError("odd")
        ctx.emit(event.x)

kept = rows.group_by("key").process(Even, on_error="dead_letter").name("even")
query = kept.group_by("x").window(ss.tumbling("700ms")).agg(n=ss.agg.count())"""
OTHERS = {
    "process": ODD,
    "snapshots": 'rows.set_duration("300ms").group_by("key").window(ss.snapshot())'
    '.agg(n=ss.agg.count(), m=ss.agg.max("x"))',
    "left": 'rows.filter(ss.col("x") < 40).set_duration("200ms").join(rows.filter(ss.col("x") > 60)'
    '.select("key", y=ss.col("x")).set_duration("90ms"), on="key", how="left")'
    '.select("key", "x", "y")',
    "anti": 'rows.filter(ss.col("x") < 40).set_duration("200ms").join(rows.filter(ss.col("x") > 60)'
    '.set_duration("90ms"), on="key", how="anti").select("key", "x")',
    "totals": 'rows.group_by("key").agg(n=ss.agg.count(), d=ss.agg.count_distinct("x"))',
}
#: For random changes: a query, and the one that it is exchanged with.
PAIRS = {
    "tumbling": (COUNTS, COUNTS.replace("ss.agg.count()", 'ss.agg.count(), total=ss.agg.sum("x")')),
    **{name: (text, text) for name, text in (STATEFUL | LOSING_KEYS | BY_CODE | OTHERS).items()},
}


def batch(number: int, rows: int = ROWS) -> pa.RecordBatch:
    """Rows in second ``number``."""
    times = [number * 1_000_000 + k * (999_999 // rows) for k in range(rows)]
    columns = {"t": times, "key": [t % 5 for t in times], "x": [t % 101 for t in times]}
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


class ChangedJob:
    """A job over a log, both below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.watch = folder, Watch()
        self.log_uri, self.root = str(folder / "log"), str(folder / "job")
        self._log = Appender(self.log_uri, SCHEMA)
        self.appended = 0
        self.job: Job | None = None

    def query(self, name: str, text: str, *, follow: bool = True) -> str:
        """Write the file of a query; ``text``: an expression over ``rows``."""
        path = self.folder / f"{name}.py"
        head = (_HEAD + _FOLLOW).format(log=self.log_uri, follow=follow)
        path.write_text(f"{head}{text}\n")
        return str(path)

    def append(self, count: int = 1) -> None:
        """Append rows of the next seconds."""
        for _ in range(count):
            self._log.append(batch(self.appended))
            self.appended += 1

    def run(self, path: str, **options: Any) -> Job:
        """Start the job."""
        asked: dict[str, Any] = {"executor": "local", "config": QUICK, "on_status": self.watch}
        query = load_query(path)
        self.job = jobmanager.run(
            query, root=self.root, query_file=query_file(path), **{**asked, **options}
        )
        return self.job

    def run_and_stop(self, seconds: int, name: str, text: str) -> Job:
        """Run a query over rows of these seconds, and stop it once it has read them."""
        self.append(seconds)
        job = self.run(self.query(name, text))
        self.has_read_all()
        job.stop()
        job.wait(WAIT_S)
        return job

    def resume(self, root: str | None = None, **options: Any) -> Job:
        """Resume the job, or the one at ``root``."""
        self.watch.forget()
        root = root or self.root
        asked: dict[str, Any] = {"config": QUICK, "on_status": self.watch, **options}
        self.job = jobmanager.resume(root, **asked)
        return self.job

    def has_read_all(self) -> None:
        """Wait until all rows are read; their results may still be missing."""
        self.watch.until(_reads(self.appended * ROWS))

    def has_emitted_all(self) -> None:
        """Wait until each window that can close is emitted. The query must be like ``COUNTS``."""
        passed_us = batch(self.appended - 1).column("t")[-1].as_py() - DELAY_US
        over_us = passed_us // WINDOW_US * WINDOW_US  # no gap in the times skips a window
        self.watch.until(lambda status: has_passed(status, over_us))

    def finish(self) -> list[dict[str, Any]]:
        """End the job. Return its rows, sorted."""
        assert self.job is not None
        self.job.stop(finish=True)
        assert self.job.wait(WAIT_S)["state"] == "finished"
        self.close()
        return rows_of(self.job)

    def close(self) -> None:
        """Close the log."""
        self._log.close()


def rows_of(job: Job) -> list[dict[str, Any]]:
    """The rows of a result, sorted."""
    rows = job.to_arrow().to_pylist()
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def whole_answer(changed: ChangedJob, text: str) -> list[dict[str, Any]]:
    """Return the output of a job that ran this query over all rows from the start."""
    return rows_of(whole_job(changed, text))


def whole_job(changed: ChangedJob, text: str) -> Job:
    """Run a job with this query over all rows from the start."""
    root = str(changed.folder / "whole")
    query = load_query(changed.query("whole", text, follow=False))
    job = jobmanager.run(query, root=root, executor="local", config=QUICK)
    job.wait(WAIT_S)
    return job


def _reads(position: int) -> Callable[[dict[str, Any]], bool]:
    def has_read(status: dict[str, Any]) -> bool:
        logs = [log for vertex in status.get("vertices", ()) for log in vertex["logs"]]
        return bool(logs) and all(log["position"] >= position for log in logs)

    return has_read


def has_passed(status: dict[str, Any], time_us: int) -> bool:
    """Return whether the watermark of each vertex has passed a time."""
    times = [vertex["cti_us"] for vertex in status.get("vertices", ())]
    return bool(times) and min(times) >= time_us
