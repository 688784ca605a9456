"""Several INSERT INTO one target: merged if the meaning stays, otherwise an error.

Not covered: the effect of an INSERT option in a target of another system.
"""

from __future__ import annotations

import pytest

from planner import SqlError, Stream, event, sql
from planner.logical.query import Query

STREAMS = {"p": Stream.from_items({"x": "int64", "y": "int64"}, [event(0, x=1, y=2)])}
_SINK = "CREATE STREAM o WITH (path = '/tmp/o'); "


def _made(text: str) -> object:
    return sql(_SINK + text, STREAMS)


def test_plain_inserts_are_joined() -> None:
    assert isinstance(_made("INSERT INTO o SELECT x FROM p; INSERT INTO o SELECT y FROM p"), Query)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW w AS SELECT 1 AS x FROM p; INSERT INTO o SELECT x FROM w;"
        "CREATE OR REPLACE VIEW w AS SELECT 2 AS x FROM p; INSERT INTO o SELECT x FROM w",
        "INSERT OVERWRITE TABLE o SELECT x FROM p; INSERT INTO o SELECT x FROM p",
        "INSERT INTO o SELECT x FROM p; INSERT INTO o SELECT x FROM p ON CONFLICT DO NOTHING",
        "INSERT INTO o SELECT x FROM p RETURNING x; INSERT INTO o SELECT x FROM p",
        "INSERT INTO o SELECT x, y FROM p; INSERT INTO o BY NAME SELECT y, x FROM p",
    ],
)
def test_inserts_that_a_union_would_change_are_rejected(text: str) -> None:
    with pytest.raises(SqlError):
        _made(text)


def test_errors_about_inserts_with_different_widths_mention_insert() -> None:
    with pytest.raises(SqlError, match="INSERT INTO one target, of 1 and 2 columns"):
        _made("INSERT INTO o SELECT x FROM p; INSERT INTO o SELECT x, y FROM p")
