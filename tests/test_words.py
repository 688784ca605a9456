"""Plain words: pages, messages, docstrings, comments and names avoid the listed words.

``tests/words.py`` lists them. ``tests/golden/words.json`` has the number of lines with such
words per folder; the numbers may only fall. Not covered: an unclear sentence of plain words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import words
from tests.rooms import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def test_no_folder_has_more_flagged_lines_than_known() -> None:
    known = words.known()
    more = {place: n for place, n in words.counts().items() if n > known.get(place, 0)}
    lines = [
        f"{f.path}:{f.line}: {f.kind}: {f.text}  -> {f.instead}"
        for f in words.all_findings()
        if words.folder_of(f) in more
    ]
    assert not more, f"{more}; python -m tests.words prints:\n" + "\n".join(lines[-40:])


def test_known_numbers_name_existing_folders() -> None:
    for place in words.known():
        assert (ROOT / place.partition(": ")[0]).exists(), place


@pytest.mark.parametrize(
    ("name", "text", "kinds"),
    [
        ("a.md", "The driver emits a row.\n", []),
        ("a.md", "Rows that lie below.\n\n```python\nlie = 'told'\n```\n", ["page"]),
        ("a.md", "The name `told` is code.\n", []),
        ("a.md", "word " * 21 + "\n", ["long line"]),
        ("a.md", "| " + "word " * 30 + "|\n", []),
        ("a.md", "A line.\n" * 5 + "\n" + "A line.\n" * 6, ["paragraph"]),
        ("a.md", "- A line.\n" * 9, []),
        ("a.py", '"""Says what it is."""\n', ["docstring"]),
        ("a.py", "x = 1  # what was told\n", ["comment"]),
        ("a.py", "raise ValueError(f'{x} is refused')\n", ["message"]),
        ("a.py", "def f(told):\n    '''Return rows.'''\n    is_seen = told\n", ["name", "name"]),
    ],
)
def test_idioms_are_found(
    name: str, text: str, kinds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "ROOT", tmp_path)
    path = tmp_path / name
    path.write_text(text)
    assert [finding.kind for finding in words.findings(path)] == kinds
