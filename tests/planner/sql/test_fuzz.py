"""Any text gives a result or one SqlError with a position: no traceback, nothing ignored.

The texts are those of the catalogue with words removed, repeated, mixed or inserted. The trees are
theirs with an added part. Not covered: wrong results.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from planner import SqlError, Stream, sql
from planner.sql.expressions.engines.catalogue import NAMES
from planner.sql.reading.forms.templates import NAMED, OF_ENGINE
from planner.sql.reading.parsing import parse
from planner.sql.reading.read_parts import READ
from planner.sql.statements import compile_statements
from tests.support.budget import one_in
from tests.support.catalogue.entry import streams
from tests.support.sql_fuzz import many, texts

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("seed", one_in(8, range(8)))
def test_any_text_returns_a_result_or_an_error_with_a_position(seed: int) -> None:
    answers = 0
    for text in many(seed, 250):
        error = _error(text)
        if error is None:
            answers += 1
            continue
        assert text.split("\n")[error.line - 1] == error.code, text
        assert 1 <= error.column <= len(error.code) + 1, text
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert answers


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n FROM t WHERE i > (SELECT MAX(y))",
        "SELECT n FROM t WHERE i IN (SELECT 1)",
        "SELECT n FROM t WHERE EXISTS (SELECT 1)",
        "SELECT n, COUNT(DISTINCT) OVER (ORDER BY ts) AS v FROM t",
        "SELECT k, COUNT(DISTINCT) AS v FROM t GROUP BY k",
    ],
)
def test_texts_that_once_caused_a_traceback(text: str) -> None:
    assert _error(text) is not None


#: Syntax that the function lists lack, and calls inside of clauses.
CALLS = (
    *("JSON_TUPLE({})", "STACK({})", "INLINE({})", "LISTAGG({})", "DATE_PART({})", "SESSION({})"),
    *("WINDOW_TIME({})", "JSON_VALUE({})", "JSON_TUPLE({}, 'a', 'b') AS (x)", "DATEPART({})"),
    *("APPROX_PERCENTILE({}) WITHIN GROUP (ORDER BY n)", "ANONYMOUS_AGG_FUNC({})"),
    *("FROM_UTC_TIMESTAMP({0}, n)", "JSON_TUPLE({}) AS (x)"),
)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [None, "flink", "spark", "postgres", "duckdb", "ksqldb"])
def test_calls_with_few_arguments_return_a_result_or_an_error(dialect: str | None) -> None:
    known = {name for name, _ in NAMED} | {name for _, name, _ in OF_ENGINE} | set(NAMES)
    calls = [*CALLS, *(f"{name}({{}})" for name in sorted(known))]
    texts = [f"SELECT {call.format(a)} AS y FROM t" for call in calls for a in ("", "n", "'x'")]
    texts += [f"SELECT {call.format(a)} FROM t" for call in CALLS for a in ("", "n", "'x'")]
    texts += [
        "SELECT k FROM t GROUP BY k, SESSION()",
        "SELECT k FROM t WINDOW SESSION () GROUP BY k",
    ]
    errors = sum(_error(text, dialect) is not None for text in texts)
    assert len(texts) // 3 < errors < len(texts)


def _error(text: str, dialect: str | None = None) -> SqlError | None:
    try:
        sql(text, streams(), dialect=dialect)
    except SqlError as error:
        return error
    return None


#: Parts that can be added to a node.
PARTS: tuple[Callable[[], object], ...] = (
    lambda: exp.column("n"),
    lambda: [exp.column("n")],
    lambda: exp.Literal.number(3),
    lambda: exp.var("LEFT"),
    lambda: "LEFT",
    lambda: exp.Version(
        this="TIMESTAMP", kind="AS OF", expression=exp.Literal.string("2026-01-01")
    ),
)


#: By part: the only parts that a parser puts there.
PARSED: dict[str, tuple[Callable[[], object], ...]] = {
    "group": (lambda: exp.Group(expressions=[exp.column("n")]),),
    "spec": (
        lambda: exp.WindowSpec(
            kind="ROWS", start=exp.Literal.number(1), start_side="PRECEDING", end="CURRENT ROW"
        ),
    ),
}
#: Parts without an effect, or that no SQL text can produce, by kind of node and part.
SAYS_NOTHING = {
    ("Limit", "limit_options"), ("Fetch", "limit_options"),
    ("Array", "value_constructor"), ("ArrayAgg", "nulls_excluded"),
    ("ArrayContains", "ensure_variant"), ("Bracket", "offset"),
    ("Column", "catalog"), ("Column", "db"),
    ("Column", "table"), ("Concat", "safe"), ("ConcatWs", "safe"), ("Count", "big_int"),
    ("Count", "this"), ("DPipe", "safe"), ("DataType", "nested"), ("Distinct", "expressions"),
    ("Except", "with_"), ("Exists", "expression"), ("Fetch", "direction"),
    ("Identifier", "quoted"), ("If", "false"),
    ("In", "expressions"), ("Intersect", "with_"), ("Interval", "unit"),
    ("JSONExtractScalar", "expressions"), ("JSONExtractScalar", "only_json_types"),
    ("JSONPathRoot", "this"), ("Join", "kind"), ("Join", "method"), ("Join", "on"),
    ("Join", "side"), ("Join", "using"), ("Kwarg", "this"), ("Lateral", "view"),
    ("Literal", "is_string"), ("Literal", "this"), ("Ordered", "nulls_first"),
    ("Select", "distinct"), ("Select", "with_"), ("Subquery", "alias"), ("Subquery", "with_"),
    ("Substring", "length"), ("Table", "alias"), ("TableAlias", "this"), ("Trim", "position"),
    ("TryCast", "safe"), ("Union", "with_"), ("Unnest", "offset"), ("Window", "over"),
    ("WindowSpec", "end"), ("WindowSpec", "end_side"), ("WindowSpec", "start_side"),
    ("With", "expressions"),
}  # fmt: skip


def _ignored(text: str) -> list[tuple[str, str]]:
    """The parts that can be added to a text's tree without changing its plan."""
    source, statements = parse(text)
    plan = compile_statements(source, statements, streams())
    found = []
    for at, statement in enumerate(parse(text)[1]):
        for place, node in enumerate(statement.walk()):
            for part in set(READ.get(type(node), ())) & set(node.arg_types):
                known = (type(node).__name__, part)
                if node.args.get(part) or known in SAYS_NOTHING:
                    continue
                for make in PARSED.get(part, PARTS):
                    source, statements = parse(text)
                    list(statements[at].walk())[place].set(part, make())
                    try:
                        if compile_statements(source, statements, streams()) == plan:
                            found.append(known)
                    except (
                        SqlError,
                        AttributeError,
                        TypeError,
                        ValueError,
                        LookupError,
                        AssertionError,
                    ):
                        continue  # no parser makes such a tree
    return found


@pytest.mark.parametrize("part", one_in(24, range(24)))
def test_no_part_of_a_statement_is_ignored(part: int) -> None:
    for text in texts()[part * 4 :: 96]:
        assert not _ignored(text), text


def test_an_unused_clause_is_detected() -> None:
    assert isinstance(sql("SELECT n FROM t", streams()), Stream)
    assert "version" in READ[exp.Table]
    assert not _ignored("SELECT n FROM t")
