"""The bytes of a CSV file in pieces of whole rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rvertex.sources.formats import delimited
from rvertex.sources.formats.delimited import csv_pieces

if TYPE_CHECKING:
    from pathlib import Path

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 1 << 20])
def test_a_byte_order_mark_is_one_at_the_begin_of_the_file_only(
    block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block_bytes)
    rows = [b"1,2\n", MARK + b"3,4\n", b"5,6\n"]
    path = tmp_path / "f.csv"
    path.write_bytes(MARK + b"a,b\n" + b"".join(rows))
    pieces = list(csv_pieces(str(path), ","))
    assert next(header for header, *_ in pieces if header) == ["a", "b"]
    assert b"".join(piece for _, piece, _ in pieces).lstrip(b"\n") == b"".join(rows)
    second = len(MARK + b"a,b\n" + rows[0])
    behind = [piece for _, piece, _ in csv_pieces(str(path), ",", second, second + len(rows[1]))]
    assert b"".join(behind) == rows[1]
