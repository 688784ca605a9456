"""CSV rows end where Arrow's parser ends them, for any cut of the text.

Not covered: mistakes about CSV that Arrow and this code share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import example, given, strategies as st

from rvertex.errors import SourceRowError
from rvertex.sources.formats.rows import csv_rows
from rvertex.sources.formats.rows.csv_rows import QUOTED_BYTES_MAX, cut_rows, whole_rows
from tests.rvertex.sources.conftest import make_spec, only_partition, read_rows
from tests.support.calls import calls_of

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = st.text('ab,,"""\n\n\r', min_size=1, max_size=24).map(str.encode)


def rows_by_arrow(text: bytes) -> int:
    """Rows with two fields, and rows with any other number of fields."""
    others = []

    def skip(row: pacsv.InvalidRow) -> str:
        others.append(row.number)
        return "skip"

    table = pacsv.read_csv(
        pa.BufferReader(text),
        read_options=pacsv.ReadOptions(
            use_threads=False, block_size=len(text) + 1, column_names=["a", "b"]
        ),
        parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
        convert_options=pacsv.ConvertOptions(
            column_types=pa.schema([("a", pa.string()), ("b", pa.string())])
        ),
    )
    return table.num_rows + len(others)


@given(text=TEXTS)
def test_rows_equal_those_of_arrow(text: bytes) -> None:
    rows = cut_rows(text, ",", is_last=True)
    if not rows.is_open.any():
        assert len(rows.starts) == rows_by_arrow(text)


@example(b'a"\n"')
@example(b'"\n"a\n"')
@given(text=TEXTS)
def test_both_methods_find_the_same_row_ends(text: bytes) -> None:
    ends, is_open = csv_rows._slow_ends(text, ",", is_last=True)
    quick = csv_rows._quick_ends(text, ",", is_last=True)
    if quick is not None:
        assert quick.tolist() == ends.tolist()
        assert not is_open.any()


@pytest.mark.parametrize("row", [b'1,"a"\n', b'"a""b",1\n', b'"""a""","b\nc"\r\n', b'"",1\r\n'])
def test_text_with_regular_quotes_is_not_scanned_row_by_row(row: bytes) -> None:
    rows = 2_000
    assert calls_of(lambda: cut_rows(row * rows, ",", is_last=True)) < rows


@given(text=TEXTS, data=st.data())
def test_the_end_of_a_row_does_not_depend_on_the_block_size(
    text: bytes, data: st.DataObject
) -> None:
    ends, _ = csv_rows._ends(text, ",", is_last=True)
    some = data.draw(st.integers(0, len(text)))
    early, _ = csv_rows._ends(text[:some], ",", is_last=False)
    assert early.tolist() == ends.tolist()[: len(early)]
    whole, _ = whole_rows(text[:some], ",", is_last=False)
    assert whole in (0, *ends.tolist())
    # Complete lines are returned; a line that ends with a carriage return may be held back.
    assert whole >= max((end for end in early if text[end - 1 : end] == b"\n"), default=0)
    if b"\n" not in text[:some]:
        assert whole == max(early, default=0)


def test_an_unclosed_quote_ends_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'1,"a\n2,b\n3,"c"\n'
    assert cut_rows(text, ",", is_last=True).ends.tolist() == [len(text)]  # it is closed later
    monkeypatch.setattr(csv_rows, "QUOTED_BYTES_MAX", 8)
    rows = cut_rows(text, ",", is_last=True)
    assert rows.ends.tolist() == [5, 9, 15]
    assert rows.is_open.tolist() == [True, False, False]
    assert whole_rows(text[:7], ",", is_last=False) == (0, False)  # the quote may still be closed
    assert whole_rows(text[:10], ",", is_last=False) == (9, True)


def test_a_quoted_field_that_is_too_long_is_reported_with_the_limit(tmp_path: Path) -> None:
    """The quote is closed, but only after the bytes that are searched."""
    long = "a" * (QUOTED_BYTES_MAX + 1)
    (tmp_path / "x.csv").write_text(f'time,k,x\n1,"{long}",0.5\n2,b,1.5\n')
    with pytest.raises(SourceRowError, match=r"line 2\).*not closed within 4 MiB \(write.*Parquet"):
        read_rows(only_partition(make_spec("csv", tmp_path)))
