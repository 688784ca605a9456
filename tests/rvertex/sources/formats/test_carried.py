"""Text stored as dictionaries in files: chosen by the files, with no effect on the output.

Not covered: dictionaries of writers other than Arrow.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import jobmanager
import rvertex.sources.formats.carried
from planner import Stream, agg, col, tumbling
from planner.physical.lower import lower
from rstream.items.batch import Items
from rstream.items.dictionaries import VALUES_MAX, Known, has_dictionaries, plain_schema
from rvertex.checkpoint.codec import decode_snapshot, encode_snapshot
from rvertex.sources.formats.carried import columns_that_repeat, with_carried
from rvertex.sources.formats.parquet import row_groups
from rvertex.sources.formats.shared_dictionaries import SharedDictionaries
from rvertex.sources.readers import open_reader
from rvertex.sources.spec import Parquet, SourcePartition, SourceSpec
from rvertex.vertex.rvertex import RVertex
from rvertex.vertex.spec import OutputEdge, VertexId, VertexSpec
from tests.support.budget import examples, one_in

if TYPE_CHECKING:
    from pathlib import Path

PAYLOAD = pa.schema([("word", pa.string()), ("n", pa.int64())])
COLUMNS = pa.schema([("t", pa.int64()), *PAYLOAD])


def spec_of(path: str, *, late: str = "drop") -> SourceSpec:
    return SourceSpec(Parquet(), path, PAYLOAD, COLUMNS, "t", delay_us=3, late=late, cti_every_us=5)  # type: ignore[arg-type]


def write(path: Path, words: list[str | None], group_rows: int, times: list[int]) -> str:
    columns = [pa.array(times), pa.array(words, pa.string()), pa.array(range(len(words)))]
    table = pa.table(columns, schema=COLUMNS)
    pq.write_table(table, path, row_group_size=group_rows)
    return str(path)


def vertex_of(spec: SourceSpec) -> tuple[RVertex, SourcePartition]:
    partition = SourcePartition(spec, tuple(row_groups(spec.path)), 0)
    edge = OutputEdge(("a", "b"), ("a", "b"), ("word",), "volatile")
    late = OutputEdge(
        ("l",), ("l",), (), "async", side="late/s", payload=_late(plain_schema(spec.schema))
    )
    made = VertexSpec(
        VertexId("v"), "s", 0, (), partition, (), (edge, late), spec.schema, "same state"
    )
    return RVertex(made, pending_rows_max=100), partition


def _late(payload: pa.Schema) -> pa.Schema:
    return pa.schema([*payload, ("_frontier", pa.int64())])


@examples(40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "bb", "", None, "a long text of some words"]), st.integers(0, 9)
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 20),
    st.lists(st.integers(1, 25), min_size=1, max_size=8),
    st.data(),
)
def test_outputs_equal_those_of_plain_text(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str | None, int]],
    group_rows: int,
    cuts: list[int],
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("t")
    times = [i + jitter for i, (_, jitter) in enumerate(rows)]
    path = write(folder / "f.parquet", [word for word, _ in rows], group_rows, times)
    found = []
    for spec in (spec_of(path), with_carried(spec_of(path), {"word"})):
        vertex, partition = vertex_of(spec)
        reader = open_reader(partition, 0)
        seq, k, outputs = 0, 0, []
        while (batch := reader.read_next(cuts[k % len(cuts)])) is not None:
            assert has_dictionaries(batch.schema) == has_dictionaries(spec.schema)
            vertex.offer(0, Items(seq, batch))
            seq, k = seq + batch.num_rows, k + 1
            outputs.append(vertex.execute())
            if data.draw(st.booleans(), label="restart"):
                blob = encode_snapshot(vertex.get_snapshot())
                vertex, _ = vertex_of(spec)
                vertex.load(decode_snapshot(blob, name="x", state_schema="same state"))
                reader.close()
                reader = open_reader(partition, seq)
        vertex.end_source()
        outputs.append(vertex.execute())
        reader.close()
        plain = [
            [
                row
                for step in outputs
                if step is not None and (items := step.outputs[i]) is not None
                for row in items.batch.to_pylist()
            ]
            for i in range(3)
        ]
        found.append((vertex.digests(), plain))
    assert found[0] == found[1]


def test_files_show_whether_dictionaries_save_space(tmp_path: Path) -> None:
    n = 3 * rvertex.sources.formats.carried.ROWS_MIN
    table = pa.table(
        {
            "t": pa.array(range(n)),
            "word": pa.array([f"word {i % 50}" for i in range(n)]),
            "unique": pa.array([f"word {i}" for i in range(n)]),
            "plain": pa.array(["same"] * n),
            "at": pa.array(["2020-01-01"] * n),
        }
    )
    path = str(tmp_path / "f.parquet")
    pq.write_table(table, path, use_dictionary=["word", "unique", "at"])
    columns = table.schema
    spec = SourceSpec(Parquet(), path, columns, columns, "at")
    assert columns_that_repeat(spec, row_groups(path)) == ("word",)
    pq.write_table(table.slice(0, 100), path)
    assert columns_that_repeat(spec, row_groups(path)) == ()
    units = row_groups(path)
    (tmp_path / "f.parquet").write_bytes(b"no file")
    assert columns_that_repeat(spec, units) == ()


def test_row_groups_share_a_dictionary(tmp_path: Path) -> None:
    words: list[str | None] = [f"{(i * 7) % 11}" for i in range(400)]
    path = write(tmp_path / "f.parquet", words, 100, list(range(400)))
    spec = with_carried(spec_of(path), {"word"})
    reader = open_reader(SourcePartition(spec, tuple(row_groups(path)), 0), 0)
    batches = []
    while (batch := reader.read_next(1000)) is not None:
        batches.append(batch)
    assert len({Known(b.column("word").dictionary) for b in batches}) == 1
    assert [w for b in batches for w in b.column("word").to_pylist()] == words


def test_shared_dictionaries_are_limited() -> None:
    shared = SharedDictionaries()
    schema = pa.schema([("word", pa.dictionary(pa.int32(), pa.string()))])
    for k in range(5):
        values = pa.array([f"{k} {i}" for i in range(VALUES_MAX // 2 - 1)])
        indices = pa.array([3, None, 0], pa.int32())
        column = pa.DictionaryArray.from_arrays(indices, values)
        got = shared.share(pa.RecordBatch.from_arrays([column], schema=schema)).column(0)
        assert got.to_pylist() == [f"{k} 3", None, f"{k} 0"]
        assert len(got.dictionary) <= VALUES_MAX


@pytest.mark.parametrize(
    "query", one_in(3, ["join", "filter", "left", "window", "anti", "union", "late"])
)
def test_results_equal_those_of_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    words: list[str | None] = [None if i % 9 == 0 else f"w {(i * 7) % 31}" for i in range(1200)]
    for k in range(2):
        times = [10 * i + (i * 13) % 60 for i in range(1200)]
        write(tmp_path / f"{k}.parquet", words[k:] + words[:k], 250, times)
    found = []
    for rows_min in (100, 1 << 60):
        monkeypatch.setattr(rvertex.sources.formats.carried, "ROWS_MIN", rows_min)
        stream = _queries(str(tmp_path), query)
        plan = lower(stream.to_parquet(), root="/nowhere", parallelism=2)
        is_carried = any(has_dictionaries(v.output_payload) for v in plan.vertices)
        assert is_carried == (rows_min == 100 and query not in ("window", "union"))
        assert not has_dictionaries(plan.schema)
        with pytest.warns(jobmanager.LateRowsWarning) if query == "late" else nullcontext():
            found.append(jobmanager.collect(stream, parallelism=2))
    assert found[0].schema.equals(found[1].schema)
    assert found[0].equals(found[1])
    assert found[0].num_rows > 20


def _queries(path: str, query: str) -> Stream:
    stream = Stream.from_parquet(path, vs="t", delay="20us" if query == "late" else "auto")
    long = stream.set_duration("30us")
    some = long.filter(col("n") % 3 == 0).select("word", other=col("word"), m=col("n"))
    match query:
        case "filter" | "late":
            return stream.filter(col("word") != "w 3").select("n", text=col("word"))
        case "join":
            return long.select("word", "n", copy=col("word")).join(some, on="word")
        case "left":
            return long.join(some.select("other", "m"), left_on="n", right_on="m", how="left")
        case "anti":
            return long.join(some, on="word", how="anti")
        case "window":
            return stream.group_by("word").window(tumbling("1ms")).agg(n=agg.count())
        case _:
            return stream.select("word", "n").union(stream.select("word", "n"))
