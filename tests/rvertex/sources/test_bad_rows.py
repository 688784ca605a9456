"""Bad rows are the same at the same positions, for any pieces and start of reading.

Not covered: a bad row that every reader accepts.
"""

from __future__ import annotations

import gzip
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, strategies as st

import jobmanager
from planner import Stream, col
from rstream.items.batch import Items
from rvertex.errors import SourceRowError
from rvertex.events.frontier import KnownFrontier
from rvertex.sources.discover import discover, infer_schema
from rvertex.sources.formats import delimited, json_lines, ranges
from rvertex.sources.formats.rows import csv_rows
from rvertex.sources.formats.rows.bad_rows import DEAD, bad_of, without_bad
from rvertex.sources.readers import open_reader
from rvertex.sources.spec import Csv, Json, SourcePartition
from rvertex.vertex.dead_letters import dead_letter_payload
from rvertex.vertex.reorder import late_payload
from rvertex.vertex.source_input import SourceInput, source_sides
from tests.rvertex.sources.conftest import COLUMNS, make_spec, only_partition
from tests.support.budget import examples
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from rvertex.sources.spec import SourceSpec

#: CSV: dict[bytes, tuple[Any, ...] | str|Per kind of file: good rows with their values, and bad
#: ones with the column at fault.
CSV: dict[bytes, tuple[Any, ...] | str | None] = {
    b"1,a,0.5": (1, "a", 0.5),
    b"2,,": (2, None, None),
    b'3,"b,\nc",1': (3, "b,\nc", 1.0),
    b"noon,a,1": "time",
    b",a,1": "time",
    b"4,a,many": "x",
    b"5,a": None,
    b"6,a,1,2": None,
    b"7,\xff,1": "k",
    b'8,"a\nb",q': "x",
}
JSON: dict[bytes, tuple[Any, ...] | str | None] = {
    b'{"time": 1, "k": "a", "x": 0.5}': (1, "a", 0.5),
    b' {"time": 2, "more": [1]} ': (2, None, None),
    b'{"time": 3, "k": "}\\n{"}\r': (3, "}\n{", None),
    b'{"k": "a"}': "time",
    b'{"time": "noon"}': "time",
    b'{"time": 4, "x": "1"}': "x",
    b'{"time": 5': None,
    b'{"time": 6} {"time": 7}': None,
    b"null": None,
    b"[1]": None,
    b'{"time": 8, "k": "\xff"}': None,
    b'"time": 9}': None,
}
SPEC = {"schema": COLUMNS, "columns": COLUMNS, "vs": "time"}


def spec_of(format: str, path: Path, policy: str) -> SourceSpec:
    return make_spec(format, path, on_bad_row=policy)  # type: ignore[arg-type]


def write(format: str, path: Path, rows: list[bytes]) -> None:
    head = b"time,k,x\n" if format == "csv" else b""
    path.write_bytes(head + b"\n".join(rows) + b"\n")


def read(partition: SourcePartition, first_row: int = 0, rows_max: int = 1 << 20) -> pa.Table:
    """All rows in order: good ones with values, bad ones with the stored text."""
    reader = open_reader(partition, first_row)
    found = []
    width = len(COLUMNS) + 2
    while (batch := reader.read_next(rows_max)) is not None:
        bad = bad_of(batch, width)
        for k, row in enumerate(batch.select(range(width)).to_pylist()):
            wrong = None if bad is None else bad[k].as_py()
            found.append((row["time"], row["k"], row["x"]) if wrong is None else wrong)
        assert without_bad(batch, width).column(0).null_count == 0
    reader.close()
    return found


@pytest.mark.parametrize(("format", "kinds"), [("csv", CSV), ("json", JSON)])
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bad_rows_have_their_positions_for_any_block_size(
    format: str,
    kinds: dict[bytes, Any],
    data: st.DataObject,
    tmp_path: Path,
) -> None:
    rows = data.draw(st.lists(st.sampled_from(list(kinds)), min_size=1, max_size=12))
    path = tmp_path / f"a.{format}"
    write(format, path, rows)
    partition = only_partition(spec_of(format, path, "dead_letter"), is_watched=False)
    with pytest.MonkeyPatch.context() as patch:
        size = data.draw(st.sampled_from([1, 7, 30, 1 << 20]), label="bytes of a piece")
        patch.setattr(delimited, "BLOCK_BYTES", size)
        patch.setattr(json_lines, "CHUNK_BYTES", size)
        found = read(partition, rows_max=data.draw(st.integers(1, 5)))
        first = data.draw(st.integers(0, len(rows)), label="first row")
        rest = read(partition, first)
    assert rest == found[first:]
    line = 1 if format == "json" else 2
    for k, (raw, got) in enumerate(zip(rows, found, strict=True)):
        if isinstance(kinds[raw], tuple):
            assert got == kinds[raw]
        else:
            said = got["position"], got["line"], got["column"], got["raw"], got["source"]
            kept = raw.rstrip(b"\r")
            assert said == (k + 1, line, kinds[raw], kept, str(path))
            assert got["reason"]
        line += 1 + raw.count(b"\n")


@pytest.mark.parametrize(("format", "kinds"), [("csv", CSV), ("json", JSON)])
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_divided_file_has_the_same_rows_and_positions(
    format: str, kinds: dict[bytes, Any], data: st.DataObject, tmp_path: Path
) -> None:
    """A file that is split among readers has the same rows and row numbers."""
    rows = data.draw(st.lists(st.sampled_from(list(kinds)), min_size=1, max_size=20))
    path = tmp_path / f"a.{format}"
    write(format, path, rows)
    if data.draw(st.booleans(), label="byte order mark"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    spec = spec_of(format, path, "dead_letter")
    whole = read(only_partition(spec, is_watched=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "UNIT_BYTES", data.draw(st.integers(1, 60), label="bytes of a unit"))
        size = data.draw(st.sampled_from([5, 30, 1 << 20]), label="bytes of a piece")
        patch.setattr(delimited, "BLOCK_BYTES", size)
        patch.setattr(json_lines, "CHUNK_BYTES", size)
        units = discover(spec)
        assert read(SourcePartition(spec, units, 0)) == whole
        assert [row for unit in units for row in read(SourcePartition(spec, (unit,), 0))] == whole
        first = data.draw(st.integers(0, len(rows)))
        assert read(SourcePartition(spec, units, 0), first) == whole[first:]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_large_file_is_divided(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "UNIT_BYTES", 1_000)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 100)
    kinds = CSV if format == "csv" else JSON
    path = tmp_path / f"a.{format}"
    write(format, path, list(kinds) * 40)
    size = path.stat().st_size
    units = discover(spec_of(format, path, "skip"))
    assert size // 1_300 <= len(units) <= size // 1_000
    assert [unit.lo for unit in units[1:]] == [unit.hi for unit in units[:-1]]
    packed = tmp_path / f"b.{format}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), 0))
    assert len(discover(spec_of(format, packed, "skip"))) == 1


@pytest.mark.parametrize(("format", "kinds"), [("csv", CSV), ("json", JSON)])
def test_each_kind_of_bad_row_is_an_error_with_a_remedy(
    format: str, kinds: dict[bytes, Any], tmp_path: Path
) -> None:
    good = next(iter(kinds))
    for raw, what in kinds.items():
        if isinstance(what, tuple):
            continue
        path = tmp_path / f"a.{format}"
        write(format, path, [good, raw, good])
        with pytest.raises(SourceRowError, match=r'data row 2 .*set on_bad_row="dead_letter"'):
            read(only_partition(spec_of(format, path, "fail")))


@pytest.mark.parametrize("rows_max", [1, 2, 9])
@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_null_in_a_not_null_column_is_bad(format: str, rows_max: int, tmp_path: Path) -> None:
    rows = {"csv": [b"1,a,1", b"2,,2", b"3,c,"], "json": [b'{"time": 1, "k": "a", "x": 1}']}
    rows["json"] += [b'{"time": 2, "x": 2}', b'{"time": 3, "k": "c"}']
    path = tmp_path / f"a.{format}"
    write(format, path, rows[format])
    nulls: dict[str, Any] = {"null_values": ("",)} if format == "csv" else {}
    spec = make_spec(format, path, on_bad_row="skip", not_null=("k",), **nulls)  # type: ignore[arg-type]
    found = read(only_partition(spec, is_watched=False), rows_max=rows_max)
    assert [found[0], found[2]] == [(1, "a", 1.0), (3, "c", None)]
    assert (found[1]["column"], found[1]["line"]) == ("k", 3 if format == "csv" else 2)
    assert found[1]["reason"] == "null, and the column is NOT NULL"


def test_parquet_values_that_do_not_have_the_declared_type(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    xs = ["1", "z", "0.5", "q", None]
    table = pa.table({"time": [1, 2, None, 4, 5], "k": ["a"] * 5, "x": xs})
    pq.write_table(table, path, row_group_size=2)
    spec = make_spec("parquet", path, on_bad_row="skip", casts=("x",))
    found = read(only_partition(spec))
    assert [row for row in found if isinstance(row, tuple)] == [(1, "a", 1.0), (5, "a", None)]
    bad = [row for row in found if not isinstance(row, tuple)]
    assert [(row["position"], row["column"], row["value"]) for row in bad] == [
        (2, "x", "z"),
        (3, "time", None),
        (4, "x", "q"),
    ]


def test_bad_lines_do_not_affect_the_types(tmp_path: Path) -> None:
    lines = [b'{"t": 1, "x": 1}', b"{", b'{"t": 2, "x": "a"}', b'{"t": 3, "y": 0.5}']
    (tmp_path / "a.json").write_bytes(b"\n".join(lines) + b"\n")
    found = infer_schema(Json(), str(tmp_path / "a.json"))
    assert found == pa.schema([("t", pa.int64()), ("x", pa.int64()), ("y", pa.float64())])
    (tmp_path / "a.csv").write_bytes(b"t,x\n1,1\n2\n3,0.5,7\n4,0.5\n")
    found = infer_schema(Csv(), str(tmp_path / "a.csv"))
    assert found == pa.schema([("t", pa.int64()), ("x", pa.float64())])


def test_a_last_line_without_a_line_end_counts_for_types(tmp_path: Path) -> None:
    """A file with one row has no second row."""
    cases = {
        b"t,x\n1,2": [pa.int64(), pa.int64()],
        b"t,x\n1,2\n3,0.5": [pa.int64(), pa.float64()],
        b't,x\n1,2\n3,"open': [pa.int64(), pa.int64()],
    }
    for data, types in cases.items():
        (tmp_path / "a.csv").write_bytes(data)
        assert infer_schema(Csv(), str(tmp_path / "a.csv")).types == types
    (tmp_path / "a.json").write_bytes(b'{"t": 1, "x": 1}\n{"t": 2, "x": 0.5, "y": 1}')
    found = infer_schema(Json(), str(tmp_path / "a.json"))
    assert found == pa.schema([("t", pa.int64()), ("x", pa.float64()), ("y", pa.int64())])


@pytest.mark.parametrize(
    ("format", "row", "cut"),
    [("csv", b"noon,a,1", csv_rows.cut_rows), ("json", b"null", json_lines._line_places)],
)
def test_a_block_is_divided_into_rows_once_for_any_number_of_bad_ones(
    format: str, row: bytes, cut: Callable[..., Any], tmp_path: Path
) -> None:
    path, calls = tmp_path / "a", []
    write(format, path, [row] * 40)
    partition = only_partition(spec_of(format, path, "dead_letter"), is_watched=False)

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is cut.__code__:
            calls.append(event)

    sys.setprofile(count)
    try:
        found = read(partition)
    finally:
        sys.setprofile(None)
    assert len(found) == 40
    assert len(calls) <= 3, len(calls)


@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_batches_and_restores_do_not_change_a_source(data: st.DataObject, tmp_path: Path) -> None:
    rows = data.draw(st.lists(st.sampled_from(list(JSON)), min_size=1, max_size=12))
    path = tmp_path / "a.json"
    write("json", path, rows)
    spec = make_spec("json", path, on_bad_row="dead_letter", delay_us=1, cti_every_us=2)
    partition = only_partition(spec, is_watched=False)
    whole = run(partition, [len(rows)], restores=False)
    cuts = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
    assert run(partition, cuts, restores=data.draw(st.booleans())) == whole
    good = sum(isinstance(JSON[raw], tuple) for raw in rows)
    assert len(whole[1]) + len(whole[2]) == good
    assert whole[4] == len(whole[3]) == len(rows) - good


def test_a_replayed_source_has_already_counted_earlier_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    good, bad = b'{"time": 1, "k": "a", "x": 0.5}', b"null"
    write("json", path, [bad, good, bad, good])
    spec = make_spec("json", path, on_bad_row="dead_letter")
    partition = only_partition(spec, is_watched=False)
    source, again = SourceInput(partition, sides=[]), SourceInput(partition, sides=[])
    batch = open_reader(partition, 0).read_next(3)
    assert batch is not None
    source.offer(0, Items(0, batch))
    again.replay(source.scalars(), source.consumed, source.consumed)
    assert again.dead_rows == source.dead_rows == 2


@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_batches_and_restores_do_not_change_a_source_with_known_times(
    data: st.DataObject, tmp_path: Path
) -> None:
    """The frontier that a dead letter records may differ between two bad rows."""
    good = [b'{"time": %d, "k": "a", "x": 0.5}' % t for t in (9, 2, 3, 4, 5)]
    bad = st.lists(st.sampled_from([b"null", b'{"time": "noon"}']), max_size=4)
    rows = [row for one in good for row in (one, *data.draw(bad))]
    path = tmp_path / "a.json"
    write("json", path, rows)
    spec = make_spec("json", path, on_bad_row="dead_letter", delay_us=7, cti_every_us=2)
    places = data.draw(st.sets(st.integers(1, len(rows)), min_size=1, max_size=4))
    later = {p: [good.index(row) for row in rows[p:] if row in good] for p in places}
    least = {min([(9, 2, 3, 4, 5)[k] for k in ks], default=10): p for p, ks in later.items()}
    known = sorted(least.items())
    partition = replace(
        only_partition(spec, is_watched=False),
        known=KnownFrontier.of(
            np.array([place for _, place in known]), np.array([time for time, _ in known])
        ),
    )
    whole = run(partition, [len(rows)], restores=False)
    assert run(partition, [1], restores=False) == whole
    cuts = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
    assert run(partition, cuts, restores=True) == whole


def run(
    partition: SourcePartition, cuts: list[int], *, restores: bool
) -> tuple[list[int], list[Any], list[Any], list[Any], int]:
    """CTIs, events, late rows, dead letters and the number of bad rows."""
    sides = [side.name for side in source_sides(partition.spec, "s")]
    assert sides == ["late/s", "dead_letters/s"]
    ctis: list[int] = []
    found: tuple[list[Any], list[Any], list[Any]] = [], [], []
    source = SourceInput(partition, sides=sides)
    reader, turn = open_reader(partition, 0), 0
    while True:
        batch = reader.read_next(cuts[turn % len(cuts)])
        turn += 1
        if batch is None:
            source.end()
        else:
            source.offer(0, Items(source.consumed[0], batch))
        if restores:  # while late rows and dead letters are pending
            source = restored(source, partition, sides)
        for rows, to in zip(source.drain_side_outputs(), found[1:], strict=True):
            to += rows.to_pylist()
        ports = source.release()
        if ports is not None:
            ctis += ports[0].ctis.tolist()
            found[0].extend(ports[0].events.to_pylist())
        if batch is None:
            return ctis, *found, source.dead_rows
        if restores:
            source = restored(source, partition, sides)
            reader.close()
            reader = open_reader(partition, source.consumed[0])


def restored(source: SourceInput, partition: SourcePartition, sides: list[str]) -> SourceInput:
    again = SourceInput(partition, sides=sides)
    again.load(source.snapshot(), source.consumed)
    return again


def test_dead_letters_have_one_schema() -> None:
    assert dead_letter_payload().names == [*DEAD.names, "_frontier"]
    assert late_payload(COLUMNS).names[-1] == "_frontier"


ZONES = {
    b"2026-01-01 10:00:00": 10,
    b"2026-01-01T10:00": 10,
    b" 2026-01-01T10:00:00Z ": 10,
    b"2026-01-01T10:00:00+02:00": 8,
    b"2026-01-01": 0,
    b"n/a": None,
    b"soon": "bad",
}


@pytest.mark.parametrize("zone", ["UTC", None])
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_times_in_a_column_may_have_a_zone_or_not(
    zone: str | None, data: st.DataObject, tmp_path: Path
) -> None:
    rows = data.draw(st.lists(st.sampled_from(list(ZONES)), min_size=1, max_size=8))
    path = tmp_path / "a.csv"
    path.write_bytes(b"time,at\n" + b"".join(b"1,%b\n" % at for at in rows))
    columns = pa.schema([("time", pa.int64()), ("at", pa.timestamp("us", zone))])
    options: dict[str, Any] = {"null_values": ("n/a",), "on_bad_row": "dead_letter"}
    spec = make_spec("csv", path, schema=columns, columns=columns, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "BLOCK_BYTES", data.draw(st.sampled_from([1, 30, 1 << 20])))
        reader = open_reader(only_partition(spec, is_watched=False), 0)
        found: list[Any] = []
        while (batch := reader.read_next(1 << 20)) is not None:
            bad = bad_of(batch, 4)
            for k, at in enumerate(batch.column("at").to_pylist()):
                assert bad is None or not bad[k].is_valid or bad[k]["column"].as_py() == "at"
                is_bad = bad is not None and bad[k].is_valid
                found.append("bad" if is_bad else None if at is None else at.hour)
    assert found == [ZONES[raw] for raw in rows]


def test_a_row_without_a_computed_time_is_bad(tmp_path: Path) -> None:
    """Such a row does not end the job if ``on_bad_row`` allows it, as it did before."""
    (tmp_path / "x.csv").write_text("t,k\n01.02.2026,a\nx.y,b\n03.02.2026,c\n")
    time_of = col("t").str.to_timestamp("%d.%m.%Y")
    rows = Stream.from_csv(tmp_path, vs=time_of, on_bad_row="dead_letter")
    job = jobmanager.run(rows.to_parquet(), root=str(tmp_path / "_job"), executor="local")
    job.wait(WAIT_S)
    assert job.to_arrow()["k"].to_pylist() == ["a", "c"]
    (dead,) = jobmanager.read_dead_letters(str(tmp_path / "_job")).to_pylist()
    assert (dead["line"], dead["column"], dead["value"]) == (3, "t", "x.y")
    with pytest.raises(SourceRowError, match=r"data row 2 \(line 3\).*column 't'.*: 'x\.y'; set"):
        jobmanager.collect(Stream.from_csv(tmp_path, vs=time_of), executor="local")
