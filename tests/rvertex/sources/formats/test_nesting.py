"""Deeply nested JSON is rejected before the parser, which would crash the process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import jobmanager
from jobmanager.errors import JobFailedError
from planner import Stream
from rvertex.errors import CorruptSourceError
from rvertex.sources.formats.rows.nesting import LEVELS_MAX, check_levels
from tests.support.calls import calls_of

if TYPE_CHECKING:
    from pathlib import Path


def lists(levels: int) -> str:
    return "[" * levels + "]" * levels


def objects(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("make", [lists, objects])
@pytest.mark.parametrize("levels", [LEVELS_MAX + 1, 1_000, 20_000])
def test_a_deeply_nested_line_is_rejected(make: Any, levels: int) -> None:
    check_levels(make(LEVELS_MAX).encode())
    with pytest.raises(pa.ArrowInvalid, match=f"nested more than {LEVELS_MAX} levels deep"):
        check_levels(b'{"x":1}\n' * 9 + make(levels).encode() + b"\n")
    with pytest.raises(pa.ArrowInvalid):
        check_levels(b"\n" * levels + make(levels).encode())


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"x": "[" * 999}),
        json.dumps({"x": '\\"[{' * 99, "y": '"' + "{" * 99}),
        json.dumps([[1], [2], {"a": [3]}] * 99),
    ],
)
def test_brackets_in_text_or_side_by_side_are_not_nested(line: str) -> None:
    check_levels(f"{line}\n".encode() * 3)
    check_levels(f"{line}\r\n".encode() * 99)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_nesting_is_not_counted_for_flat_lines(end: str) -> None:
    line = f'{{"x":1,"s":"text"}}{end}'.encode()
    one, many = (calls_of(lambda n=n: check_levels(line * n)) for n in (1, 20 * LEVELS_MAX))
    assert many <= one


@pytest.mark.parametrize("hidden", ["]" * 20_000, '\\"' + "]}" * 20_000, '\\\\\\"[]}', "\\\\"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_brackets_in_text_do_not_hide_later_nesting(hidden: str, end: str) -> None:
    before = f'{{"a":"{hidden}"}}{end}'
    assert json.loads(before)["a"]
    check_levels((before + f'{{"b":{lists(LEVELS_MAX - 1)}}}{end}').encode())
    with pytest.raises(pa.ArrowInvalid, match="nested more than"):
        check_levels((before + f'{{"b":{lists(LEVELS_MAX)}}}{end}').encode())
    with pytest.raises(pa.ArrowInvalid, match="nested more than"):
        check_levels(f'{{"a":"{hidden}","b":{lists(LEVELS_MAX)}}}{end}'.encode())


@pytest.mark.parametrize(
    ("level", "closes"), [("[\n", "\n]"), ('{"a":\n', "\n}"), ('{"a":\r\n', "}")]
)
def test_a_line_end_does_not_reset_the_nesting(level: str, closes: str) -> None:
    """The parser reads an object across several lines, to any depth."""
    check_levels(f"{level * LEVELS_MAX}1{closes * LEVELS_MAX}\n".encode())
    with pytest.raises(pa.ArrowInvalid, match="nested more than"):
        check_levels(f"{level * 20_000}1{closes * 20_000}\n".encode())


def test_a_deeply_nested_file_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text(f'{{"t":1,"x":{lists(100_000)}}}\n')
    with pytest.raises(CorruptSourceError, match=r"deep.json: corrupt: it is nested more than"):
        Stream.from_json(str(path), vs="t")


def test_a_deeply_nested_later_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    line = json.dumps({"t": 1, "x": "x" * 1_000})
    path.write_text(f"{line}\n" * 5_000 + f'{{"t":2,"y":{lists(100_000)}}}\n')
    stream = Stream.from_json(str(path), vs="t", delay="0s")
    with pytest.raises(JobFailedError, match=r"row 5001 \(line 5001\).*nested more than"):
        jobmanager.collect(stream)


def test_moderately_nested_rows_are_read(tmp_path: Path) -> None:
    path = tmp_path / "nested.json"
    path.write_text(f'{{"t":1,"x":{lists(LEVELS_MAX - 2)}}}\n')
    assert jobmanager.collect(Stream.from_json(str(path), vs="t")).num_rows == 1
