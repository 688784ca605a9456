"""An error for an unknown name suggests the most similar name, also in SQL.

Not covered: names with another meaning in another library.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import streamscope as ss
from jobmanager.errors import QueryFileError
from jobmanager.storage.query_file import load_query

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The requested names do not exist, so types do not matter.
STREAM: Any = ss.Stream
COLUMN: Any = ss.col("s")
ROWS: Any = ss.Stream.from_items({"x": "int64", "s": "string"}, [ss.event(1, x=1, s="a")])
NAMES: list[tuple[Callable[[], Any], str]] = [
    (lambda: ss.agg.average, "agg has no 'average'; did you mean 'mean'?"),
    (lambda: ss.agg.summ, "agg has no 'summ'; did you mean 'sum'?"),
    (lambda: ss.agg.nunique, "did you mean 'count_distinct'?"),
    (lambda: ss.sinks.kafak, "sinks has no 'kafak'; did you mean 'kafka'?"),
    (lambda: ss.tumblng, "streamscope has no 'tumblng'; did you mean 'tumbling'?"),
    (lambda: ROWS.filtre, "Stream has no 'filtre'; did you mean 'filter'?"),
    (lambda: ROWS.where, "Stream has no 'where'; did you mean 'filter'?"),
    (lambda: ROWS.groupBy, "Stream has no 'groupBy'; did you mean 'group_by'?"),
    (lambda: STREAM.from_cvs, "from_cvs"),
    (lambda: ROWS.group_by("x").windw, "GroupedStream has no 'windw'; did you mean 'window'?"),
    (lambda: COLUMN.csat, "Expr has no 'csat'; did you mean 'cast'?"),
    (lambda: COLUMN.str.uper, "StringFunctions has no 'uper'; did you mean 'upper'?"),
    (lambda: ROWS.qqq, "Stream has no 'qqq'; there are: agg, apply,"),
]


def test_python_adds_no_suggestion_of_its_own() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = ss.agg.median
    shown = traceback.format_exception_only(caught.value)[-1]
    assert shown.count("id you mean") == 1, shown


OPTIONS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: ss.Stream.from_csv("x", vs="t", delimeter=";"),  # type: ignore[call-arg]
        "from_csv() has no option 'delimeter'; did you mean 'delimiter'?",
    ),
    (
        lambda: ss.Stream.from_csv("x", vs="t", sep=";"),  # type: ignore[call-arg]
        "from_csv() has no option 'sep'; did you mean 'delimiter'?",
    ),
    (
        lambda: ss.Stream.from_kafka("t", vs="t", bootstrap_servers="s"),  # type: ignore[call-arg]
        "did you mean 'servers'?",
    ),
    (
        lambda: ROWS.to_parquet("x", partitionby="x"),  # type: ignore[call-arg]
        "to_parquet() has no option 'partitionby'; did you mean 'partition_by'?",
    ),
    (
        lambda: ss.sinks.postgres("dsn", "t", keys="x"),  # type: ignore[call-arg]
        "postgres() has no option 'keys'; did you mean 'key'?",
    ),
    (
        lambda: ss.agg.stddev("x", dof=1),  # type: ignore[call-arg]
        "stddev() has no option 'dof'; did you mean 'ddof'?",
    ),
    (
        lambda: ss.Stream.from_text("x", zzz=1),  # type: ignore[call-arg]
        "from_text() has no option 'zzz'; there are: partitions, path",
    ),
]


@pytest.mark.parametrize(("use", "told"), NAMES, ids=[told for _, told in NAMES])
def test_a_misspelled_name_suggests_the_right_one(use: Callable[[], Any], told: str) -> None:
    with pytest.raises(AttributeError) as caught:
        use()
    assert told in str(caught.value)


@pytest.mark.parametrize(("use", "told"), OPTIONS, ids=[told for _, told in OPTIONS])
def test_a_misspelled_option_suggests_the_right_one(use: Callable[[], Any], told: str) -> None:
    with pytest.raises(TypeError) as caught:
        use()
    assert told in str(caught.value)


def test_tools_that_list_names_find_them() -> None:
    assert not hasattr(ROWS, "qqq")
    assert not hasattr(ss.col("x"), "__array__")
    assert copy.copy(ROWS).schema == ROWS.schema
    assert str(pickle.loads(pickle.dumps(ss.col("x") + 1))) == str(ss.col("x") + 1)
    assert pickle.loads(pickle.dumps(ss.agg.sum)) is ss.agg.sum
    assert list(inspect.signature(ss.Stream.from_text).parameters) == ["path", "partitions"]
    assert ss.Stream.from_csv.__doc__ is not None


@pytest.mark.parametrize(
    ("name", "hint"),
    [("from_jsonl", "did you mean 'from_json'?"), ("read_csv", "did you mean 'from_csv'?")],
)
def test_a_query_file_gets_the_hint_for_a_class_too(name: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "q.py"
    path.write_text(f"import streamscope as ss\nquery = ss.Stream.{name}('x', vs='t')\n")
    with pytest.raises(QueryFileError, match=re.escape(hint)):
        load_query(str(path))
