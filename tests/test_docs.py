"""What the documents say is so: links lead somewhere, examples run, the map covers the tree.

Cannot catch: a sentence that is wrong, or output that was pasted without an ``output`` mark.
"""

from __future__ import annotations

import configparser
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from planner.explain.text import mermaid
from planner.physical.lower import lower

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DEPENDENCIES = "docs/adr/0009-dependencies.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
MAPPED = ("rstream", "rvertex", "planner", "jobmanager", "examples", "benchmarks")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MARKED = re.compile(
    r"^<!-- (file|output|error|mermaid): ([^\n]+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
PROGRAMS = {"python": [sys.executable], "jobmanager": [sys.executable, "-m", "jobmanager"]}


def blocks(kind: str) -> list[tuple[str, str]]:
    """The README's marked blocks of a kind: what the mark names, and the content."""
    found = [
        (name, body) for mark, name, body in MARKED.findall(README.read_text()) if mark == kind
    ]
    assert found, f"the README has no block marked {kind}"
    return found


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as renderers of Markdown make them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def sources() -> list[str]:
    """The Python files of the tree; those under version control where there is one."""
    listed = subprocess.run(
        ["git", "ls-files", *MAPPED], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        return [f for f in listed.stdout.splitlines() if f.endswith(".py")]
    return sorted(p.relative_to(ROOT).as_posix() for n in MAPPED for p in (ROOT / n).rglob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert target.is_relative_to(ROOT), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the README shows, after its query has run once."""
    path = tmp_path_factory.mktemp("readme")
    for name, body in blocks("file"):
        (path / name).write_text(body)
    run("python rooms.py", path)
    return path


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of the README, in ``folder``, with this interpreter."""
    program, *arguments = command.split()
    return subprocess.run(
        [*PROGRAMS[program], *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(("command", "text"), blocks("output"), ids=lambda v: v[:30])
def test_output_is_as_printed(command: str, text: str, folder: Path) -> None:
    done = run(command, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == text.rstrip()


@pytest.mark.parametrize(("command", "text"), blocks("error"), ids=lambda v: v[:30])
def test_errors_are_as_printed(command: str, text: str, folder: Path) -> None:
    done = run(command, folder)
    assert done.returncode != 0
    assert done.stderr.rstrip() == text.rstrip()


def test_the_unit_test_of_the_readme_passes(folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("readme_test", folder / "test_rooms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.test_the_mean_of_a_window()


def test_the_picture_is_the_plan_of_the_demo() -> None:
    ((name, text),) = blocks("mermaid")
    spec = importlib.util.spec_from_file_location("readme_demo", ROOT / name)
    assert spec is not None
    assert spec.loader is not None
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    drawn = mermaid(lower(demo.query(), root="ROOT"))
    assert drawn.replace(f"{demo.inputs()}/", "") == text


def test_the_record_of_dependencies_is_complete() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    required = setup["options"]["install_requires"].split()
    named = re.findall(r"^\| (\w+) \|", (ROOT / DEPENDENCIES).read_text(), re.MULTILINE)
    assert sorted(set(named) - {"package"}) == sorted(
        re.split(r"[<>=]", line)[0] for line in required
    )
