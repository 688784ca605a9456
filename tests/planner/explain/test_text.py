"""The three forms of ``explain``: golden, documented, and a function of the plan alone."""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING

import pytest

from planner import InvalidPlanError
from planner.explain.text import explain, mermaid
from planner.optimizer.optimizer import RULES, why
from planner.physical.lower import lower
from tests.rooms import ROOT
from tests.support.queries import QUERIES

if TYPE_CHECKING:
    from planner.explain.text import Format

GOLDEN = ROOT / "tests" / "golden" / "explain"
DOCUMENT = (ROOT / "docs" / "OPTIMIZER.md").read_text()
FORMS: dict[Format, str] = {"text": "txt", "json": "json", "mermaid": "mmd"}


@pytest.mark.parametrize("format", FORMS)
def test_the_explained_plan_is_as_recorded(format: Format, rewrite: bool) -> None:
    path = GOLDEN / f"join_then_aggregate.{FORMS[format]}"
    text = explain(lower(QUERIES["join_then_aggregate"](), root="ROOT"), format)
    if rewrite:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    expected = path.read_text()
    diff = "\n".join(difflib.unified_diff(expected.splitlines(), text.splitlines(), lineterm=""))
    assert text == expected, diff


def keys_of(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys_of(v) for v in value.values()))
    return set().union(*(keys_of(v) for v in value)) if isinstance(value, list) else set()


def test_every_key_of_the_json_is_documented() -> None:
    documented = set(re.findall(r"`(\w+)`", DOCUMENT.partition("## The JSON")[2]))
    for make in QUERIES.values():
        found = json.loads(explain(lower(make(), root="ROOT"), "json"))
        assert keys_of(found) <= documented, keys_of(found) - documented


def test_every_rule_is_documented_and_says_why() -> None:
    rules = re.findall(r"^\| `(\w+)` \|", DOCUMENT.partition("## Rules")[2], re.MULTILINE)
    assert rules[: len(RULES)] == [rule.__name__ for rule in RULES]
    for rule in RULES:
        assert why(rule).endswith("."), rule
        assert len(why(rule)) < 100, rule


def test_the_formats_show_the_same_plan() -> None:
    plan = lower(QUERIES["self_join"](), root="ROOT")
    found = json.loads(explain(plan, "json"))
    text = explain(plan)
    assert [s["stage"] for s in found["stages"]] == [s.name for s in plan.stages]
    assert sorted(v for s in found["stages"] for v in s["vertices"]) == sorted(
        v.id for v in plan.vertices
    )
    assert found["plan"].startswith(text.split()[1].rstrip(":"))
    assert found["after"] in text
    assert explain(plan, "mermaid") == mermaid(plan)


def test_a_wrong_format_is_a_usage_error() -> None:
    with pytest.raises(InvalidPlanError, match=r"explain\(format='svg'\): choose"):
        explain(lower(QUERIES["words"](), root="ROOT"), "svg")  # type: ignore[arg-type]
