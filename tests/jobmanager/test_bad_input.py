"""Bad input fails a job with a message that names the place; after a repair ``resume`` continues.

Each case has two files, of which the second is bad. The durable rows before the error are a prefix
of the right result. After the repair, the result equals that of a job with good files, item by
item.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager import JobConfig, JobFailedError
from jobmanager.errors import InputsChangedError
from jobmanager.storage.root import JobRoot
from planner import Query, Stream, agg, tumbling
from rstream.errors import IntegrityError
from rvertex.errors import CorruptSourceError
from tests.support.budget import one_in
from tests.support.jobs import items_by_partition, outcome, output_items, until, with_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.trouble import Gate

ROWS = 400
WAIT_S = 120.0
#: A missing file might come back, so its vertex is restarted this often before the job fails.
IMPATIENT = with_limits(JobConfig(vertex_failures_max=1), checkpoint_interval_s=0.0)
PACE = 2.0
#: Later rows of the first file, and so the whole second file, wait for the test.
HELD_US = ROWS // 2 * 1_000


def csv(start: int) -> bytes:
    """One event per ms, each 10 ms long."""
    rows = ((i * 1_000, i * 1_000 + 10_000, f"k{i % 3}") for i in range(start, start + ROWS))
    return ("time,end,k\n" + "".join(f"{t},{e},{k}\n" for t, e, k in rows)).encode()


def json_lines(start: int) -> bytes:
    lines = (
        f'{{"time": {i * 1_000}, "end": {i * 1_000 + 10_000}, "k": "k{i % 3}"}}\n'
        for i in range(start, start + ROWS)
    )
    return "".join(lines).encode()


def parquet(start: int, *, null_row: int | None = None) -> bytes:
    """The same in row groups of 100 rows."""
    times = [i * 1_000 if i - start != null_row else None for i in range(start, start + ROWS)]
    ends = [i * 1_000 + 10_000 for i in range(start, start + ROWS)]
    keys = [f"k{i % 3}" for i in range(start, start + ROWS)]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"time": times, "end": ends, "k": keys}),
        sink,
        compression="zstd",
        row_group_size=100,
    )
    return bytes(sink.getvalue())


@dataclass(frozen=True)
class Case:
    """The files of a format, the change to the second (None: it is deleted), and the message."""

    make: Callable[[int], bytes]
    spoil: Callable[[bytes], bytes | None]
    message: str
    #: Whether the file is bad from the start, or only once the job has been planned.
    is_early: bool = True

    @property
    def format(self) -> str:
        return {"csv": "csv", "json_lines": "json", "parquet": "parquet"}[self.make.__name__]

    def query(self, folder: Path) -> Query:
        """Events by key and 50 ms, from one partition, so that both files are read in order.

        The delay is given, so the planner does not read the times.
        """
        source = {
            "csv": Stream.from_csv,
            "json": Stream.from_json,
            "parquet": Stream.from_parquet,
        }[self.format](str(folder), vs="time", ve="end", delay=0, partitions=1)
        return source.group_by("k").window(tumbling("50ms")).agg(n=agg.count()).to_parquet()


def swap(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def spoil(data: bytes) -> bytes:
        assert data.count(old) == 1, (old, data.count(old))
        return data.replace(old, new)

    return spoil


def with_broken_page(data: bytes) -> bytes:
    """The data with the third row group's first page overwritten."""
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(2)
    at = group.column(0).dictionary_page_offset or group.column(0).data_page_offset
    return data[:at] + b"\xff" * 40 + data[at + 40 :]


def with_broken_footer(data: bytes) -> bytes:
    return data[:-60] + b"\xff" * 52 + data[-8:]


CASES = {
    "null time in csv": Case(
        csv, swap(b"\n600000,", b"\n,"), r"b\.csv: data row 201 \(line 202\).*'time'.*null"
    ),
    "unparsable time in csv": Case(
        csv,
        swap(b"\n600000,", b"\nnoon,"),
        r"b\.csv: data row 201 \(line 202\).*'time': not of type .*'noon'",
    ),
    "end before start": Case(
        csv,
        swap(b"\n600000,610000", b"\n600000,600000"),
        r"b\.csv: data row 201 \(line 202\).*'end'",
    ),
    "missing column in csv": Case(
        csv,
        swap(b"time,end,k\n", b"time,end,key\n"),
        r"b\.csv: column 'k': not in the file, which has time, end, key",
    ),
    "row too short": Case(csv, swap(b"\n600000,610000,k0\n", b"\n600000\n"), r"b\.csv.*202"),
    "null time in json": Case(
        json_lines,
        swap(b'"time": 600000', b'"time": null'),
        r"b\.json: data row 201 \(line 201\).*'time': the time is null",
    ),
    "null time in parquet": Case(
        parquet,
        lambda _: parquet(ROWS, null_row=200),
        r"b\.parquet: data row 201.*'time': the time is null",
    ),
    "corrupt page": Case(parquet, with_broken_page, r"b\.parquet, row group 2: corrupt"),
    "rewritten": Case(
        parquet, with_broken_footer, r"b\.parquet: changed since the job was", is_early=False
    ),
    "truncated": Case(
        parquet, lambda data: data[: len(data) // 2], r"b\.parquet: changed since", is_early=False
    ),
    "vanished csv": Case(
        csv, lambda _: None, r"b\.csv: the file cannot be read any more: No such", is_early=False
    ),
    "vanished parquet": Case(
        parquet,
        lambda _: None,
        r"b\.parquet: the file cannot be read any more: No such",
        is_early=False,
    ),
}


def wait_for_output(folder: Path) -> None:
    """Wait until something is durable."""
    until(lambda: any(folder.rglob("*.parquet")), "nothing became durable")


@pytest.mark.filterwarnings("ignore::jobmanager.driver.notes.NoteWarning")
@pytest.mark.parametrize("name", one_in(4, CASES))
@pytest.mark.slow
def test_a_job_fails_is_repaired_and_resumed(tmp_path: Path, gate: Gate, name: str) -> None:
    case = CASES[name]
    data = tmp_path / "data"
    data.mkdir()
    first, second = (data / f"{n}.{case.format}" for n in "ab")
    good = case.make(ROWS)
    first.write_bytes(case.make(0))
    second.write_bytes(good)
    clean = jobmanager.run(case.query(data), root=str(tmp_path / "clean"), executor="local")
    clean.wait(WAIT_S)

    def spoil() -> None:
        bad = case.spoil(good)
        second.unlink() if bad is None else second.write_bytes(bad)

    if case.is_early:
        spoil()
    root = str(tmp_path / "job")
    gate.close_at_time(HELD_US)
    job = jobmanager.run(
        case.query(data), root=root, executor="local", hosts=2, paced=PACE, config=IMPATIENT
    )
    if not case.is_early:
        spoil()
    wait_for_output(Path(job.output))
    gate.open()
    with pytest.raises(JobFailedError, match=case.message) as caught:
        job.wait(WAIT_S)
    assert "\n" not in str(caught.value)
    assert job.status()["state"] == JobRoot(root).read_status()["state"] == "failed"

    whole, durable = items_by_partition(clean.output), items_by_partition(job.output)
    for name, part in durable.items():
        assert part == whole[name][: len(part)]
    assert any(durable.values()), "nothing was durable, so this test shows too little"

    second.write_bytes(good)
    with pytest.raises(InputsChangedError, match=rf"b\.{case.format} \("):
        jobmanager.resume(root)
    status = jobmanager.resume(root, accept_changed_inputs=True).wait(WAIT_S)
    assert outcome(status) == outcome(clean.status())
    assert output_items(job.output) == output_items(clean.output)


@pytest.mark.parametrize(
    "name",
    [
        *("null time in csv", "unparsable time in csv", "row too short"),
        *("null time in json", "null time in parquet", "corrupt page"),
    ],
)
def test_a_check_of_all_times_finds_the_error_before_anything_runs(
    name: str, tmp_path: Path
) -> None:
    """With ``delay="auto"`` planning finds the bad input, so the job leaves no files."""
    case = CASES[name]
    data = tmp_path / "data"
    data.mkdir()
    (data / f"a.{case.format}").write_bytes(case.make(0))
    bad = case.spoil(case.make(ROWS))
    assert bad is not None
    (data / f"b.{case.format}").write_bytes(bad)
    read = {"csv": Stream.from_csv, "json": Stream.from_json, "parquet": Stream.from_parquet}
    events = read[case.format](str(data), vs="time").select("k")
    with pytest.raises(IntegrityError, match=case.message):
        jobmanager.run(events, root=str(tmp_path / "job"), executor="local")
    assert not (tmp_path / "job").exists()


def test_a_file_that_is_corrupt_from_its_start(tmp_path: Path) -> None:
    """Planning reads the Parquet footer, so the job leaves no files."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.parquet").write_bytes(parquet(0))
    (data / "b.parquet").write_bytes(with_broken_footer(parquet(ROWS)))
    query = CASES["rewritten"].query(data)
    root = str(tmp_path / "job")
    with pytest.raises(CorruptSourceError, match=r"b\.parquet"):
        jobmanager.run(query, root=root, executor="local")
    assert not (tmp_path / "job").exists()
    (data / "b.parquet").write_bytes(parquet(ROWS))
    mended = jobmanager.run(query, root=root, executor="local").wait(WAIT_S)
    clean = jobmanager.run(query, root=str(tmp_path / "clean"), executor="local").wait(WAIT_S)
    assert outcome(mended) == outcome(clean)
