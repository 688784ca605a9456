"""Bad input fails a job with a message that names the place; after a repair ``resume`` goes on.

Every case is two files of which the second is bad. The answer after the repair is the answer of a
job that never met the trouble, item for item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager import JobConfig, JobFailedError
from planner import Query, Stream, agg, tumbling

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 500
WAIT_S = 60.0
#: A file that vanished might come back, so its vertex is restarted this often before the job fails.
IMPATIENT = JobConfig(vertex_failures_max=1)


def rows(start: int) -> list[tuple[int, str]]:
    """One event per ms."""
    return [((start + i) * 1_000, f"k{(start + i) % 3}") for i in range(ROWS)]


def csv(start: int) -> str:
    return "time,k\n" + "".join(f"{time},{k}\n" for time, k in rows(start))


def json_lines(start: int) -> str:
    return "".join(f'{{"time": {time}, "k": "{k}"}}\n' for time, k in rows(start))


def parquet(start: int, path: Path) -> bytes:
    times, keys = zip(*rows(start), strict=True)
    pq.write_table(pa.table({"time": times, "k": keys}), path, compression="zstd")
    return path.read_bytes()


def counts(format: str, folder: Path) -> Query:
    """Events by key and 100 ms, from one partition, so that both files are read in order."""
    source = {
        "csv": Stream.from_csv,
        "json": Stream.from_json,
        "parquet": Stream.from_parquet,
    }[format](str(folder), vs="time", partitions=1)
    return source.group_by("k").window(tumbling("100ms")).agg(n=agg.count()).to_parquet()


@dataclass(frozen=True)
class Case:
    """The bytes of both files, the bad bytes of the second (None: it vanishes), and the message."""

    format: str
    good: tuple[bytes, bytes]
    bad: bytes | None
    message: str


def case(name: str, folder: Path) -> Case:
    if name == "vanished":
        good = (csv(0).encode(), csv(ROWS).encode())
        return Case("csv", good, None, r"b\.csv: the file cannot be read any more: No such file")
    if name == "corrupt":
        folder.mkdir()
        good = (parquet(0, folder / "a"), parquet(ROWS, folder / "b"))
        at = pq.ParquetFile(folder / "b").metadata.row_group(0).column(0).data_page_offset
        bad = good[1][:at] + b"\xff" * 40 + good[1][at + 40 :]
        return Case("parquet", good, bad, r"b\.parquet, row group 0: corrupt")
    if name == "json":
        good = (json_lines(0).encode(), json_lines(ROWS).encode())
        bad = good[1].replace(b'"time": 700000', b'"time": null')
        return Case(
            "json", good, bad, r"b\.json: data row 201 \(line 201\).*'time': the time is null"
        )
    good = (csv(0).encode(), csv(ROWS).encode())
    if name == "column":
        bad = good[1].replace(b"time,k", b"time,key")
        return Case("csv", good, bad, r"b\.csv: column 'k': not in the file, which has time, key")
    bad = good[1].replace(b"\n700000,", b"\nnoon,")
    return Case(
        "csv", good, bad, r"b\.csv: data row 201 \(line 202\).*'time': not of type .*'noon'"
    )


@pytest.mark.parametrize("name", ["vanished", "corrupt", "json", "column", "value"])
def test_failed_then_repaired_then_resumed(tmp_path: Path, name: str) -> None:
    this = case(name, tmp_path / "scratch")
    data = tmp_path / "data"
    data.mkdir()
    first, second = (data / f"{n}.{this.format}" for n in "ab")
    first.write_bytes(this.good[0])
    second.write_bytes(this.good[1])
    untroubled = jobmanager.run(
        counts(this.format, data), root=str(tmp_path / "untroubled"), executor="local"
    ).wait(WAIT_S)
    root = str(tmp_path / "job")
    # At this pace the second file is opened half a second after the start.
    job = jobmanager.run(
        counts(this.format, data), root=root, executor="local", paced=1.0, config=IMPATIENT
    )
    if this.bad is None:
        second.unlink()
    else:
        second.write_bytes(this.bad)
    with pytest.raises(JobFailedError, match=this.message):
        job.wait(WAIT_S)
    assert job.status()["state"] == "failed"
    second.write_bytes(this.good[1])
    resumed = jobmanager.resume(root).wait(WAIT_S)
    assert resumed["state"] == "finished"
    assert resumed["output_digest"] == untroubled["output_digest"] != ""
