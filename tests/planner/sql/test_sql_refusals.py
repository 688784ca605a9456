"""Every part of SQL that the translation does not support is an error in SQL's words.

The test iterates over the parser's classes, so it also covers those of later versions. Cannot
catch: a part that is supported but translated wrongly.
"""

from __future__ import annotations

import ast
import re

import pytest
from sqlglot import exp

from planner import SqlError, sql
from planner.sql.expressions.aggregates import _OF_ONE
from planner.sql.expressions.functions import _WITH_LITERALS, CALLS
from planner.sql.expressions.scalars import _BINARY, Expressions
from planner.sql.reading.parsing import parse
from planner.sql.reading.read_parts import READ, check_parts
from tests.planner.sql.test_sql import STREAMS
from tests.rooms import FILES, ROOT, nodes
from tests.support.budget import one_in

#: Kinds that are handled together with all derived ones, on purpose.
FAMILIES = {
    *("Expr", "Func", "AggFunc", "Query", "SetOperation"),
    *("SubqueryPredicate", "Binary", "Property"),
}
#: Parts that our grammar adds to nodes of the parser.
OURS: dict[type[exp.Expr], set[str]] = {exp.Select: {"emit"}}
ARGUMENTS = ["x", "'a'", "k", "1", "f"]


def _derived(kind: type) -> bool:
    return bool(kind.__subclasses__())


def test_a_parser_class_is_not_treated_as_its_base_class() -> None:
    """A subclass of a known parser class is another function: ConcatWs is not Concat."""
    wrong = []
    for file in (file for file in FILES if file.startswith("planner/sql/")):
        for node in nodes(file):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"):
                continue
            for name in ast.walk(node.args[1]):
                if isinstance(name, ast.Attribute) and name.attr not in FAMILIES | HARMLESS:
                    kind = getattr(exp, name.attr)
                    if _derived(kind):
                        wrong.append(f"{file}:{node.lineno} {name.attr}")
    assert not wrong, "ask type(node) is ..., or say in this test why it is right"


#: Pseudo-columns and aliases of PIVOT are rejected elsewhere; a name is found inside any cast;
#: aggregates by name have no derived kinds from the parser; JSON's cast is not dispatched.
HARMLESS = {"Column", "Alias", "Cast", "AnonymousAggFunc"}


def test_every_translation_declares_the_parts_it_reads() -> None:
    refused = {exp.Subquery, exp.Select, exp.Exists, exp.Window}
    translated = {*Expressions._METHODS, *_BINARY, *CALLS, *_WITH_LITERALS, *_OF_ONE}
    assert translated - refused <= set(READ)


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_an_unread_part_is_rejected(kind: type[exp.Expr]) -> None:
    text, _ = parse("SELECT 1")
    needed = {n: exp.Literal.number(1) for n in ("this", "expression") if n in READ[kind]}
    known = {*kind.arg_types, *OURS.get(kind, ())}
    assert set(READ[kind]) <= known, "a later version calls it something else"
    for part in set(kind.arg_types) - set(READ[kind]):
        for value in (exp.Literal.number(1), True, "WORD", [exp.Literal.number(1)]):
            with pytest.raises(SqlError, match="is not supported"):
                check_parts(kind(**needed, **{part: value}), {}, text)
    check_parts(kind(**needed), {}, text)


def _functions() -> list[str]:
    """The names of all functions with a class in the parser."""
    found: set[str] = set()
    todo = list(exp.Func.__subclasses__())
    while todo:  # ends: classes are finite
        kind = todo.pop()
        found.update(kind.sql_names())
        todo += kind.__subclasses__()
    return sorted(name for name in found if name.isidentifier())


@pytest.mark.parametrize("group", one_in(2, ["", " GROUP BY TUMBLE('5s')"]))
@pytest.mark.parametrize("part", one_in(4, range(4)))
def test_rejected_functions_have_the_name_that_was_written(part: int, group: str) -> None:
    names = _functions()[part::4]
    assert len(names) > 125
    refused = 0
    for name in names:
        for count in range(5):
            call = f"{name}({', '.join(ARGUMENTS[:count])})"
            try:
                sql(f"SELECT {call} AS v FROM s{group}", STREAMS)
            except SqlError as error:
                reason = error.reason
                if "is not supported" in reason:
                    refused += 1
                    assert name in reason.upper(), (call, reason)
    assert refused > 150


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("k[1]", "k[1]"),
        ("(k).a", "(k).a"),
        ("s.k.a.b.c", "s.k.a.b"),
        ("k COLLATE a", "COLLATE"),
        ("x = ANY (SELECT 1)", "ANY"),
        ("ARRAY[1]['a']", "a list has places"),
        ("N'a'", "N'a'"),
        ("?", "?"),
        (":a", ":a"),
        ("@a", "@a"),
        ("x OVERLAPS f", "OVERLAPS"),
    ],
)
def test_rejected_operators_are_shown_as_written(written: str, said: str) -> None:
    with pytest.raises(SqlError) as raised:
        sql(f"SELECT {written} AS v FROM s", STREAMS)
    assert said in raised.value.reason


def test_no_message_names_a_class_of_the_parser() -> None:
    """Checks the queries of the golden file and of this module."""
    golden = ROOT / "tests" / "golden" / "planner" / "sql_errors.txt"
    same = {"TABLESAMPLE", "PREWHERE"}  # one word in SQL, too
    kinds = {k for k in vars(exp).values() if isinstance(k, type) and issubclass(k, exp.Expr)}
    internal = {k.__name__.upper() for k in kinds if re.search("[a-z][A-Z]", k.__name__)}
    for case in golden.read_text().split("\n===\n"):
        statement, _, message = case.partition("\n---\n")
        words = set(re.findall(r"[A-Z]+", message.partition("\n")[0])) & internal - same
        assert not words, (statement, words)
