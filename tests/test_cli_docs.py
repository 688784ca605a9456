"""The options in docs/cli.md are those of the command; ``--rewrite`` writes them again.

Not covered: a wrong sentence above the mark.
"""

from __future__ import annotations

import re

import typer
from typer.cli import get_docs_for_click

from jobmanager.cli.main import app
from tests.rooms import ROOT

PAGE = ROOT / "docs" / "cli.md"
MARK = "<!-- generated -->\n"


def options() -> str:
    """All verbs and their options, as Typer documents them, with headings below the page's."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="jobmanager")
    # removed: each verb follows in full
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+", "", text)
    text = re.sub(r"(?:\*\*Options\*\*:\n\n)?\* `--help`: .*\n", "", text)
    text = re.sub(r"^#", "##", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def test_documented_options_are_those_of_the_command(rewrite: bool) -> None:
    written, mark, shown = PAGE.read_text().partition(MARK)
    assert mark, "docs/cli.md has lost its mark"
    if rewrite:
        PAGE.write_text(f"{written}{mark}\n{options()}")
        return
    assert shown.strip() == options().strip(), "run pytest tests/test_cli_docs.py --rewrite"
