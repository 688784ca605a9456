"""A header with another delimiter is an error that suggests this delimiter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner import InvalidPlanError, Stream
from planner.errors import UnknownColumnError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_delimiter_in_the_header_is_suggested(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"t{delimiter}n\n1{delimiter}5\n")
    with pytest.raises(InvalidPlanError) as raised:
        Stream.from_csv(str(path), vs="t")
    assert f"set delimiter={delimiter!r}" in str(raised.value)
    assert Stream.from_csv(str(path), vs="t", delimiter=delimiter).schema.names == ["t", "n"]


def test_a_header_without_the_time_is_a_different_error(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a;b\n1;5\n")
    with pytest.raises(UnknownColumnError):
        Stream.from_csv(str(path), vs="t")
