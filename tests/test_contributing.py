"""The code of CONTRIBUTING.md runs, and the files that it names exist.

Not covered: a missing step.
"""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from planner.expressions.nodes import REGISTRY
from rvertex.aggregates.registry import FUNCTIONS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = dict(re.findall(r"^## (Add .*?)\n.*?^```python\n(.*?)^```$", PAGE, re.M | re.S))


def test_every_kind_of_addition_has_code() -> None:
    assert len(SECTIONS) == PAGE.count("\n## Add ") == 9


@pytest.mark.slow
@pytest.mark.parametrize("title", SECTIONS)
def test_the_code_of_a_section_runs(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load it as a module, so that its definitions have importable names."""
    registries: tuple[dict[str, Any], ...] = (REGISTRY, FUNCTIONS)
    before = [set(registry) for registry in registries]
    module = types.ModuleType("contributing")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.__doc__ = "An addition of CONTRIBUTING.md."
    try:
        exec(compile(SECTIONS[title], "CONTRIBUTING.md", "exec"), module.__dict__)
    finally:
        for registry, names in zip(registries, before, strict=True):
            for name in set(registry) - names:
                del registry[name]


def test_named_files_exist() -> None:
    prose = re.sub(r"^```python\n.*?^```$", "", PAGE, flags=re.M | re.S)
    named = re.findall(r"`((?:rvertex|planner|tests)/[\w/.]+)`", prose)
    assert len(named) > 25
    assert [path for path in named if not (ROOT / path).exists()] == []
