"""Every example of docs/SQL.md returns the result shown below it.

Not covered: a wrong sentence between the examples.
"""

from __future__ import annotations

import importlib.util
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from planner import Query, SqlError, sql
from planner.physical.lower import lower
from rstream.types import INF_TIME
from tests.rooms import ROOT
from tests.support.plan_runner import answer, sorted_rows

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

PAGE = (ROOT / "docs" / "SQL.md").read_text()
FILES = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
((DECLARED, BODY),) = [
    (match[1], PAGE[match.end() :])
    for match in re.finditer(r"<!-- declarations -->\n```sql\n(.*?)^```\n", PAGE, re.M | re.DOTALL)
]
EXAMPLES = re.findall(
    r"^```sql\n(.*?)^```\n(?:\n```(text|error)\n(.*?)^```\n)?", BODY, re.MULTILINE | re.DOTALL
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    for name, content in FILES:
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize(("text", "kind", "expected"), EXAMPLES, ids=[e[0][:50] for e in EXAMPLES])
def test_examples_of_the_page(text: str, kind: str, expected: str, data: Path) -> None:
    variables = {"data": str(data)}
    if kind == "error":
        with pytest.raises(SqlError) as raised:
            sql(DECLARED.replace("\n", " ") + "\n" + text, variables=variables)
        assert str(raised.value).replace("line 2,", "line 1,") == expected.rstrip("\n")
        return
    found = shown(sql(DECLARED + text, variables=variables))
    assert not expected or found == expected


def shown(query: object) -> str:
    """The result as a text table, with lifetimes as times of day."""
    if not isinstance(query, Query):
        query = query.to_parquet()  # type: ignore[attr-defined]
    assert isinstance(query, Query)
    found = sorted_rows(answer(lower(query, root="memory://job")))
    assert found, "an example without an answer shows nothing"
    header = ["_vs", "_ve", *query.schema.names]
    lines = [header, *([cell(name, row[name]) for name in header] for row in found)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(header))]
    padded = ("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines)
    return "".join(line.rstrip() + "\n" for line in padded)


def cell(name: str, value: object) -> str:
    if name in ("_vs", "_ve"):
        assert isinstance(value, int)
        if value == INF_TIME:
            return "NULL"
        return (EPOCH + timedelta(microseconds=value)).time().isoformat()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    return "NULL" if value is None else str(value)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"sql_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["alerts", "flights"])
def test_sql_and_python_examples_have_equal_plans(name: str) -> None:
    module = example(name)
    text = (ROOT / "examples" / f"{name}.sql").read_text()
    stream = sql(text, variables={"data": str(module.inputs())})
    assert not isinstance(stream, Query)
    in_sql, in_python = lower(stream.to_parquet(), root="R"), lower(module.query(), root="R")
    assert in_sql == in_python
