"""The lines of docs/output.md that read an output, each with its tool, on real outputs.

Not covered: other versions of these tools, and other readers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager.storage.output_claim import mark_success
from jobmanager.storage.query_file import load_query
from rstream import RStream, read_events
from rstream.format.table import TableForm
from rstream.items.batch import VE, VS, cti_batch
from rstream.store.part_files import part_uri
from rstream.types import INF_TIME
from rvertex.sources.formats.rstream import CLAIM
from tests.support.content import PAYLOAD, items, small_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
README, PAGE = ROOT / "README.md", ROOT / "docs" / "output.md"
BLOCK = r"^<!-- {}: {} -->\n```\w*\n(.*?)^```$"
TOOLS = ["pandas", "polars", "duckdb"]
OUTPUT = Path("jobs/rooms/output")
Row = dict[str, Any]


def block(mark: str, name: str, page: Path = PAGE) -> str:
    """Return the text of a marked block of a page."""
    found = re.search(BLOCK.format(mark, name), page.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page.name} has no block <!-- {mark}: {name} -->"
    return found[1]


def read(tool: str) -> Any:
    """Return the value of the last line of the page's block, as its tool returns it."""
    *setup, last = block("read", tool).rstrip().split("\n")
    scope: dict[str, Any] = {}
    exec("\n".join(setup), scope)
    return eval(last, scope)


def rows_of(frame: Any) -> list[Row]:
    """Convert times of any tool to microseconds."""
    if hasattr(frame, "toArrow"):
        frame = frame.toArrow().to_pandas()
    if not hasattr(frame, "to_dict") or hasattr(frame, "rows"):
        frame = frame.to_arrow().to_pandas()
    rows: list[Row] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return sorted(({k: plain(v) for k, v in row.items()} for row in rows), key=repr)


def plain(value: Any) -> Any:
    return value.value // 1_000 if hasattr(value, "value") else value


def expected(folder: Path, start: str, end: str) -> list[Row]:
    """Return the rows that our reader reads from the streams of a folder."""
    names = {path.name.rsplit("-", 2)[0] for path in folder.glob("*.parquet")}
    rows = []
    for name in names:
        for row in read_events(part_uri(str(folder), name)).to_pylist():
            times = {start: row.pop(VS), end: row.pop(VE)}
            rows.append({k: None if v == INF_TIME else v for k, v in (times | row).items()})
    return sorted(rows, key=repr)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the README's query has run, as with the command."""
    folder = tmp_path_factory.mktemp("rooms")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("rooms.csv", "rooms.py"):
            (folder / name).write_text(block("file", name, README))
        query = load_query("rooms.py")
        jobmanager.run(query, root="jobs/rooms", executor="local").wait()
    return folder


@pytest.fixture
def growing(tmp_path: Path) -> tuple[Path, Callable[[], None]]:
    """An unfinished output, and a function that lets it grow: two streams, one with CTIs only."""
    folder = tmp_path / OUTPUT
    folder.mkdir(parents=True)
    form = TableForm("start", "end")
    streams = [
        RStream.open(
            part_uri(str(folder), f"part-{k}"),
            PAYLOAD,
            form=form,
            limits=small_limits(),
            durability="sync",
        )
        for k in range(2)
    ]
    (folder / CLAIM).write_text("{}")
    (folder / ".part-0-1.parquet.1.1.tmp").write_bytes(b"half a file")

    def grow() -> None:
        first = streams[0].next_seq
        streams[0].write(first, items(first, first + 13))
        streams[1].append(cti_batch(first, streams[1].schema))

    grow()
    return folder, grow


@pytest.mark.parametrize("tool", TOOLS)
def test_a_finished_answer_is_readable(
    tool: str, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(tool)
    monkeypatch.chdir(finished)
    found = read(tool)
    assert list(found.columns) == ["window_start", "window_end", "room", "n", "mean"]
    assert rows_of(found) == expected(OUTPUT, "window_start", "window_end")
    if tool == "pandas":
        assert found.to_string(index=False).split() == block("answer", tool).split()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_growing_answer_is_readable(
    tool: str, growing: tuple[Path, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(tool)
    folder, grow = growing
    monkeypatch.chdir(folder.parent.parent.parent)
    before = rows_of(read(tool))
    assert before == expected(folder, "start", "end")
    grow()
    after = rows_of(read(tool))
    assert after == expected(folder, "start", "end")
    assert len(after) > len(before) > 10


@pytest.mark.spark
def test_an_answer_is_readable_with_spark(
    finished: Path,
    growing: tuple[Path, Callable[[], None]],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = block("read", "spark").strip()
    monkeypatch.chdir(finished)
    found = eval(line.replace("jobs", f"{finished}/jobs"), {"spark": spark})
    assert found.columns == ["window_start", "window_end", "room", "n", "mean"]
    assert rows_of(found) == expected(finished / OUTPUT, "window_start", "window_end")
    folder, grow = growing
    for _ in range(2):
        assert rows_of(spark.read.parquet(str(folder))) == expected(folder, "start", "end")
        grow()
    mark_success(str(folder), {}, [part_uri(str(folder), f"part-{k}") for k in range(2)])
    assert rows_of(spark.read.parquet(str(folder))) == expected(folder, "start", "end")
