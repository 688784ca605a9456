"""What a resumed job reports about changes: input files, query file, release.

Not covered: changes that file systems do not show (tests/rvertex/sources/test_versions.py).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager import JobExistsError, JobFailedError
from jobmanager.cli.exits import EXIT_USAGE
from jobmanager.cli.main import app
from jobmanager.driver.notes import NoteWarning
from jobmanager.errors import InputsChangedError
from jobmanager.storage.query_file import load_query, query_file
from jobmanager.storage.root import JobRoot
from planner import Query, Stream, col
from planner.physical.lower import lower
from rvertex.errors import SourceSchemaError
from tests.support.jobs import WAIT_S, output_items

if TYPE_CHECKING:
    from typer.testing import Result

    from rvertex.sources.spec import Format

pytestmark = pytest.mark.filterwarnings("ignore::jobmanager.driver.notes.NoteWarning")
FORMATS: tuple[Format, ...] = ("parquet", "csv", "json")
READERS = {"parquet": Stream.from_parquet, "csv": Stream.from_csv, "json": Stream.from_json}
ROWS = 50


def write(path: Path, first: int, *, more: dict[str, list[Any]] | None = None) -> None:
    """Rows from ``first`` on, in the format that the path names."""
    times = list(range(first, first + ROWS))
    table = pa.table({"t": times, "x": [t % 7 for t in times], **(more or {})})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        pacsv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def query_of(path: object, format: Format) -> Query:
    """A query that fails at the row with the greatest time, as long as a marker file exists."""
    marker = f"{path}/_fails"

    def checked(batch: pa.RecordBatch) -> dict[str, Any]:
        assert ROWS * 2 - 1 not in batch.column("t").to_pylist() or not Path(marker).exists()
        return {"t": batch.column("t"), "x": batch.column("x")}

    stream = READERS[format](str(path), vs="t", delay=0, partitions=1)
    return stream.apply(checked, {"t": "int64", "x": "int64"}).to_parquet()


def failed_job(tmp_path: Path, format: Format, **options: Any) -> tuple[Path, str]:
    """A job over two files that has failed at its last row, and will not fail again."""
    data = tmp_path / "data"
    data.mkdir()
    write(data / f"a.{format}", 0)
    write(data / f"b.{format}", ROWS)
    (data / "_fails").touch()
    root = str(tmp_path / "job")
    job = jobmanager.run(query_of(data, format), root=root, executor="local", **options)
    with pytest.raises(JobFailedError, match="AssertionError"):
        job.wait(WAIT_S)
    (data / "_fails").unlink()
    return data, root


@pytest.mark.parametrize("format", FORMATS)
def test_a_replaced_file_is_rejected_until_it_is_put_back(tmp_path: Path, format: Format) -> None:
    data, root = failed_job(tmp_path, format)
    file = data / f"a.{format}"
    was, content = file.stat(), file.read_bytes()
    write(file, 1)
    with pytest.raises(InputsChangedError, match=rf"/a\.{format} \([\d,]+ bytes, written 2"):
        jobmanager.resume(root)
    assert f"a.{format} (" in JobRoot(root).read_status()["error"]
    file.write_bytes(content)
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
    job = jobmanager.resume(root)
    assert job.wait(WAIT_S)["notes"] == []
    clean = jobmanager.run(query_of(data, format), root=str(tmp_path / "clean"), executor="local")
    clean.wait(WAIT_S)
    assert output_items(job.output) == output_items(clean.output)


def test_accepted_changes_become_part_of_the_plan(tmp_path: Path) -> None:
    data, root = failed_job(tmp_path, "csv")
    write(data / "b.csv", ROWS, more={"y": [0] * ROWS})
    (data / "_fails").touch()
    job = jobmanager.resume(root, accept_changed_inputs=True)
    assert "b.csv" in job.status()["notes"][0]
    with pytest.raises(JobFailedError, match="AssertionError"):
        job.wait(WAIT_S)
    (data / "_fails").unlink()
    status = jobmanager.resume(root).wait(WAIT_S)
    assert (status["state"], status["events_in"], status["notes"]) == ("finished", 2 * ROWS, [])


@pytest.mark.slow
def test_added_and_deleted_files_are_named(tmp_path: Path) -> None:
    data, root = failed_job(tmp_path, "parquet")
    for name in "cdefg":
        write(data / f"{name}.parquet", 0)
    pq.write_table(pa.table({"t": [1], "x": [1]}).slice(0, 0), data / "empty.parquet")
    (data / "a.parquet").rename(data / "_away")
    job = jobmanager.resume(root)
    gone, come = job.status()["notes"]
    assert gone.startswith(f"gone since the job was planned: {data}/a.parquet; the job fails if")
    assert come.startswith(
        f"source {data}: 5 files arrived after the job was planned and will not be"
    )
    assert f"{data}/c.parquet, {data}/d.parquet, {data}/e.parquet and 2 more files;" in come
    with pytest.raises(JobFailedError, match=r"a\.parquet: the file cannot be read any more"):
        job.wait(WAIT_S)
    (data / "_away").rename(data / "a.parquet")
    status = jobmanager.resume(root).wait(WAIT_S)
    assert (status["state"], status["events_in"]) == ("finished", 2 * ROWS)


def test_relative_paths_belong_to_the_folder_where_the_query_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of a cluster, and the user who resumes the job, have other working directories."""
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "data" / "a.csv", 0)
    monkeypatch.chdir(tmp_path)
    query = Stream.from_csv("data/a.csv", vs="t").filter(col("x") > 0).to_parquet("out")
    monkeypatch.chdir(tmp_path / "elsewhere")
    job = jobmanager.run(query, root="job", executor="local")
    assert job.wait(WAIT_S)["events_in"] == ROWS
    assert job.output == str(tmp_path / "out")
    assert [p.name for p in Path.cwd().iterdir()] == ["job"]


def test_a_folder_with_mixed_files_is_reported_or_rejected(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write(data / "a.parquet", 0)
    write(data / "b.parquet", ROWS, more={"y": [1] * ROWS})
    job = jobmanager.run(query_of(data, "parquet"), root=str(tmp_path / "job"), executor="local")
    (note,) = job.wait(WAIT_S)["notes"]
    assert note == (
        f"source {data}: not read: y that the first file does not have, in 1 of 2 files "
        f"({data}/b.parquet)"
    )
    with pytest.warns(NoteWarning, match=r"y that the first file does not have"):
        jobmanager.collect(Stream.from_parquet(str(data), vs="t"))
    pq.write_table(pa.table({"t": [1], "x": ["7"]}), data / "c.parquet")
    with pytest.raises(SourceSchemaError, match=r"c\.parquet: column 'x': it is string here"):
        jobmanager.run(query_of(data, "parquet"), root=str(tmp_path / "other"), executor="local")
    given = Stream.from_parquet(str(data), vs="t", schema={"x": "int64"})
    assert jobmanager.collect(given)["x"].to_pylist()[:1] == [0]


QUERY = """
from pathlib import Path
from planner import Stream
from tests.jobmanager.test_changed_inputs import query_of
query = query_of(Path(__file__).parent / "data", "csv")
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_an_edited_query_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "query.py"
    file.write_text(QUERY)
    _, root = failed_job(tmp_path, "csv", query_file=query_file(f"{file}:query"))
    file.write_text(QUERY.replace("query =", "\nquery ="))

    again = call("run", file, "--root", root, "--executor", "local")
    assert again.exit_code == EXIT_USAGE
    assert "already holds a job" in again.stderr
    assert f"{file} has changed since" in again.stderr

    result = call("resume", root, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr.count(f"note: {file} has changed since the job began") == 1
    told = json.loads(result.stdout.splitlines()[-1])
    assert (told["state"], told["query_changed"]) == ("finished", True)
    assert told["notes"][0].startswith(f"{file} has changed since the job began")


def test_an_edited_module_of_a_query_is_reported_or_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan contains a value of the module, but only the name of a function."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "a.csv", 0)
    (tmp_path / "my_steps.py").write_text("LEAST = 3\n\ndef same(batch):\n    return batch\n")
    for name, function in (("value", "lambda batch: batch"), ("function", "my_steps.same")):
        file = tmp_path / f"{name}.py"
        file.write_text(
            f"import my_steps\nfrom planner import Stream, col\n"
            f"rows = Stream.from_csv('{tmp_path}/data', vs='t').filter(col('x') > my_steps.LEAST)\n"
            f"query = rows.apply({function}, {{'t': 'int64', 'x': 'int64'}}).to_parquet()\n"
        )
        query = load_query(str(file))
        root = JobRoot(str(tmp_path / name))
        settings = {"id": name, "parallelism": 1, "executor": "local", "paced": None}
        settings |= {"master": None, "query_file": query_file(str(file)).to_json()}
        root.create(query, settings, now_us=0)
        root.write_plan(lower(query, root=root.uri, parallelism=1))
    (tmp_path / "my_steps.py").write_text("LEAST = 4\n\ndef same(batch):\n    return batch\n")
    said = call("resume", tmp_path / "value")
    assert said.exit_code == 0, said.output
    assert f"note: {tmp_path}/my_steps.py has changed since the job began" in said.stderr
    refused = call("resume", tmp_path / "function")
    assert refused.exit_code == EXIT_USAGE
    assert f"same has changed since the job was planned ({tmp_path}/my" in refused.stderr


def test_resuming_a_finished_job_says_that_it_is_finished(tmp_path: Path) -> None:
    """An unchanged query file is not reported, and a missing one does not matter."""
    file = tmp_path / "query.py"
    file.write_text(QUERY)
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "a.csv", 0)
    root = tmp_path / "job"
    first = call("run", file, "--root", root, "--executor", "local", "--json")
    assert first.exit_code == 0, first.output
    told = json.loads(first.stdout.splitlines()[-1])
    assert (told["notes"], told["query_changed"]) == ([], None)
    write(tmp_path / "data" / "a.csv", 5)
    again = call("resume", root, "--json")
    assert again.exit_code == 0, again.output
    assert "note: the job has already finished" in again.stderr
    found = json.loads(again.stdout.splitlines()[-1])
    assert found == {**told, "notes": found["notes"], "query_changed": False}
    file.unlink()
    plain = call("resume", root)
    assert plain.exit_code == 0, plain.output
    assert f"output: {told['output']}\ndigest: {told['output_digest']}" in plain.stdout
    with pytest.raises(JobExistsError):
        jobmanager.run(query_of(tmp_path / "data", "csv"), root=str(root), executor="local")
