"""Notes on values that are read differently from how they are written.

Not covered: a loss after the first rows of the first file, since only these are checked.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner import Stream
from planner.cost.statistics import Discovery
from rvertex.sources.formats.first_rows.value_notes import value_notes
from rvertex.sources.logs.opening import discover_units
from rvertex.sources.mixed import look

if TYPE_CHECKING:
    from pathlib import Path

FAR = 12_345_678_901_234_567_891


def notes(stream: Stream, path: Path) -> list[str]:
    return value_notes(stream.plan.spec, str(path))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("00501", "501"),
        ("-07", "-7"),
        ("0x1F", "31"),
        ("+491701234567", "491701234567.0"),
        ("12E5", "1200000.0"),
        (str(FAR), str(int(float(FAR)))),
        ("0.1234567890123456789", "0.12345678901234568"),
    ],
)
def test_a_field_read_as_another_number_is_named(written: str, read: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"t,zip\n1,5\n2,{written}\n")
    (note,) = notes(Stream.from_csv(path, vs="t"), path)
    assert "column 'zip' is" in note
    assert f"so {written} of {path} is read as {read}; set" in note
    assert 'schema={"zip": "string"}' in note
    assert not notes(Stream.from_csv(path, vs="t", schema={"zip": "string"}), path)


@pytest.mark.parametrize("value", ["5", "-5", "0", "0.5", "1.50", "1e-5", "100.0", "9" * 15])
def test_exact_numbers_get_no_note(value: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"t,x\n1,{value}\n2,7\n")
    assert not notes(Stream.from_csv(path, vs="t"), path)


def test_a_digit_read_as_a_boolean_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,ok\n1,true\n2,1\n")
    (note,) = notes(Stream.from_csv(path, vs="t"), path)
    assert "column 'ok' is bool, so 1 of" in note


def test_long_numbers_within_objects_and_lists_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        f'{{"t": 1, "id": {FAR}, "s": {{"n": {FAR}, "x": 1e-5}}, "l": [1, {FAR}]}}\n'
        f'{{"t": 2, "id": 1, "s": {{"n": 1, "x": 0.1}}, "l": [{FAR}]}}\n'
    )
    found = notes(Stream.from_json(path, vs="t"), path)
    assert [note.split("column ")[1].split(" is ")[0] for note in found] == ["'id'", "'s.n'", "'l'"]
    assert all(f"so {FAR} of {path} is read as {int(float(FAR))}" in note for note in found)
    assert 'set schema={"s": its type with decimal(38, 0) for n}' in found[1]


def test_columns_of_a_growing_folder_get_notes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,zip\n1,00501\n")
    stream = Stream.from_csv(tmp_path, vs="t", follow=True, delay="1s")
    (note,) = Discovery(discover_units).notes(stream.plan.spec)  # type: ignore[attr-defined]
    assert "column 'zip' is int64, so 00501" in note


def test_truncated_int96_nanoseconds_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = pa.array([None, 1_000, 1_000_000_001], pa.timestamp("ns"))
    table = pa.table({"t": [1, 2, 3], "at": times})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    stream = Stream.from_parquet(path, vs="t")
    assert stream.plan.schema.field("at").type == pa.timestamp("us")
    (note,) = notes(stream, path)
    assert "column 'at' has INT96 times" in note
    assert "1000000001 ns" in note


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_an_unclosed_quote_in_the_first_rows_does_not_make_columns_text(
    policy: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    rows = "".join(f"{k},{k}.5,2026-01-01\n" for k in range(100))
    path.write_text(f't,x,d\n1,2.5,2026-01-01\n2,"3.5,2026-01-01\n{rows}')
    stream = Stream.from_csv(path, vs="t", on_bad_row=policy)  # type: ignore[arg-type]
    assert stream.plan.schema.types == [pa.int64(), pa.float64(), pa.date32()]


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_one_word_in_a_column_of_numeric_times_is_named(policy: str, tmp_path: Path) -> None:
    """A last line with text makes the whole column text, so its numbers are not read as times."""
    path = tmp_path / "a.csv"
    path.write_text("t,x\n1,5\n2,6\nTotal,11\n")
    (note,) = notes(Stream.from_csv(path, vs="t", on_bad_row=policy), path)  # type: ignore[arg-type]
    assert f"column 't' is text because of line 4 of {path}: 'Total' (66.7%" in note
    assert note.endswith('{"t": "int64"} with on_bad_row= or null_values= to read them so')
    assert not notes(Stream.from_csv(path, vs="t", schema={"t": "int64"}), path)
    path.write_text("t,x\n2026-01-01T00:00:00,5\n2026-01-02T00:00:00,6\nTotal,11\n")
    assert not notes(Stream.from_csv(path, vs="t"), path)


@pytest.mark.parametrize("field", ['"x"y', '"x\\"y"', '"a,""b""" c'])
def test_text_after_a_closing_quote_is_named(field: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f't,a\n1,"two\nlines"\n2,{field}\n3,"z"\n')
    (note,) = notes(Stream.from_csv(path, vs="t"), path)
    assert f"line 4 of {path} has text after a closing quote: {field!r}; a quote within" in note


@pytest.mark.parametrize("field", ['"x""y"', 'x"y"', '"a,""b"""', '""', '"x,\n""y"""', "plain"])
def test_correct_quotes_get_no_note(field: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f't,a\r\n1,{field}\r\n2,"open\n')
    assert not notes(Stream.from_csv(path, vs="t", on_bad_row="skip"), path)


def test_a_file_beside_its_compressed_copy_is_named(tmp_path: Path) -> None:
    for name, write in (("a.csv", str.encode), ("a.csv.gz", compressed), ("b.csv.gz", compressed)):
        (tmp_path / name).write_bytes(write("t,x\n1,5\n"))
    spec = Stream.from_csv(tmp_path, vs="t").plan.spec  # type: ignore[attr-defined]
    (note,) = look(spec, discover_units(spec))
    assert "both a.csv and a.csv.gz are read: if they have the same rows, delete one (1" in note
    (tmp_path / "a.csv").unlink()
    assert not look(spec, discover_units(spec))


def compressed(text: str) -> bytes:
    return gzip.compress(text.encode())


@pytest.mark.parametrize("name", ["_vs", "_seq", "_kind"])
def test_a_column_with_a_reserved_name_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"t,{name}\n1,5\n")
    stream = Stream.from_csv(path, vs="t")
    assert stream.schema.names == ["t"]
    spec = stream.plan.spec  # type: ignore[attr-defined]
    (note,) = look(spec, discover_units(spec))
    assert f"not read: {name}, since such names are reserved; rename" in note
    spec = Stream.from_csv(path, vs=name).plan.spec  # type: ignore[attr-defined]
    assert not look(spec, discover_units(spec))
