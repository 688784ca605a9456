"""Fields of structs by their paths, in Python and in SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import jobmanager
from planner import Stream, UnknownColumnError, agg, col, sql, tumbling

if TYPE_CHECKING:
    from pathlib import Path

LINES = (
    '{"meta": {"at": 5, "ua": "x", "geo": {"cc": "de"}}, "n": 1}',
    '{"meta": {"at": 6, "ua": "y", "geo": null}, "n": 2}',
    '{"meta": {"at": 7, "ua": "x"}, "n": 3}',
)


@pytest.fixture
def visits(tmp_path: Path) -> Stream:
    (tmp_path / "a.jsonl").write_text("\n".join(LINES) + "\n")
    return Stream.from_json(str(tmp_path / "a.jsonl"), vs="meta.at")


def test_a_path_names_a_field(visits: Stream) -> None:
    picked = visits.select("meta.ua", col("meta.geo.cc"), c=col("meta.geo").field("cc"))
    found = jobmanager.collect(picked.filter(col("ua") == "x"))
    assert found.to_pylist() == [
        {"_vs": 5, "_ve": 6, "ua": "x", "cc": "de", "c": "de"},
        {"_vs": 7, "_ve": 8, "ua": "x", "cc": None, "c": None},
    ]
    asked = "SELECT meta.ua AS ua, v.meta.geo.cc AS cc, meta.geo.cc AS c FROM v"
    assert sql(asked, {"v": visits}) == picked
    counts = visits.group_by("meta.ua").window(tumbling("1s")).agg(n=agg.sum("n"))
    rows = jobmanager.collect(counts).select(["ua", "n"]).to_pylist()
    assert sorted(rows, key=str) == [{"ua": "x", "n": 4}, {"ua": "y", "n": 2}]


@pytest.mark.parametrize("name", ["meta.os", "n.x", "nothing.x", "meta.ua.x"])
def test_a_path_to_a_missing_field_is_an_unknown_column(visits: Stream, name: str) -> None:
    with pytest.raises(UnknownColumnError, match=re.escape(name)):
        visits.select(x=col(name))
