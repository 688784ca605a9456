"""The documents are right: links work, and examples run with the output shown.

Marked blocks of all pages run in one folder, with the files that any page shows. A ``console``
block is a session in a shell; ``...`` stands for text that differs from run to run, and standard
error is not shown. Not covered: a wrong sentence, or output that was pasted without a mark.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import streamscope
from planner.explain.text import mermaid
from planner.physical.lower import lower

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
README_BYTES_MAX = 8_000
COMMANDS = ("make demo", "make test")
DEPENDENCIES = "docs/adr/0009-dependencies.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(
    r"(?<![\w/.])((?:rstream|rvertex|planner|jobmanager|tests|benchmarks|examples)/[\w/]+\.\w+)"
)
KINDS = "file|output|error|mermaid|console"
MARKED = re.compile(rf"^<!-- ({KINDS}): ([^\n]+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: docs/SQL.md has its own test, with its own files.
SHOWN = [page for page in PAGES if page.name != "SQL.md"]
#: Printed after each command, like a shell prompt, to find the end of its output.
DONE = "@@ {} @@"
#: Runs programs as Python would; the output of each ends with END.
END = "@@ end @@"
ONE_BY_ONE = f"""
import runpy, sys
sys.path.insert(0, "")
for name in sys.argv[1:]:
    runpy.run_path(name, run_name="__main__")
    print({END!r}, end="", flush=True)
"""
PROGRAMS = {"python": [sys.executable], "jobmanager": [sys.executable, "-m", "jobmanager"]}


def blocks(kind: str) -> list[tuple[str, str]]:
    """The marked blocks of a kind in all pages: the mark's argument, and the content."""
    found = [
        (name, body)
        for page in SHOWN
        for mark, name, body in MARKED.findall(page.read_text())
        if mark == kind
    ]
    assert found, f"no page has a block marked {kind}"
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as Markdown renderers make them."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def module_at(path: Path) -> ModuleType:
    """Load a file outside of any package as a module."""
    spec = importlib.util.spec_from_file_location(f"shown_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_is_short_and_names_the_two_commands() -> None:
    text = README.read_text()
    assert len(text.encode()) <= README_BYTES_MAX
    assert all(f"\n    {command} " in text for command in COMMANDS)
    assert f"exec {COMMANDS[1]}" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_relative_links_work(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert target.is_relative_to(ROOT), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_pages_that_show_the_same_file_agree() -> None:
    shown = set(blocks("file"))
    assert len(shown) == len({name for name, _ in shown})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_named_files_exist(page: Path) -> None:
    named = set(NAMED.findall(page.read_text())) if page.name != "CHANGELOG.md" else set()
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages show."""
    return with_files(tmp_path_factory.mktemp("readme"))


@pytest.fixture
def own_folder(tmp_path: Path) -> Path:
    """A folder in which nothing has run yet."""
    return with_files(tmp_path)


def with_files(path: Path) -> Path:
    for name, body in blocks("file"):
        (path / name).write_text(body)
    (path / "examples").symlink_to(ROOT / "examples")
    return path


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the README in ``folder``, with this interpreter."""
    program, *arguments = command.split()
    return subprocess.run(
        [*PROGRAMS[program], *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def test_programs_print_the_documented_output(folder: Path) -> None:
    """The programs run one by one in a single process: imports take most of the time."""
    shown = dict(blocks("output"))
    programs = [command for command in shown if command.startswith("python ")]
    assert len(programs) > 4
    names = [command.removeprefix("python ") for command in programs]
    command = [sys.executable, "-c", ONE_BY_ONE, *names]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=400, check=False
    )
    printed = done.stdout.split(END)
    assert len(printed) == len(programs) + 1, done.stderr
    for name, text in zip(programs, printed, strict=False):
        assert text.rstrip() == shown[name].rstrip(), name


OTHERS = [block for block in blocks("output") if not block[0].startswith("python ")]


@pytest.mark.parametrize(("command", "text"), OTHERS, ids=lambda v: v[:30])
def test_output_equals_the_documentation(command: str, text: str, folder: Path) -> None:
    done = run(command, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == text.rstrip()


@pytest.mark.parametrize(("command", "text"), blocks("error"), ids=lambda v: v[:30])
def test_errors_equal_the_documentation(command: str, text: str, folder: Path) -> None:
    done = run(command, folder)
    assert done.returncode != 0
    assert done.stderr.rstrip() == text.rstrip()


@pytest.mark.slow
def test_sessions_in_one_process_equal_the_documentation(own_folder: Path) -> None:
    assert_session("local", own_folder)


@pytest.mark.spark(own_java=True)
def test_sessions_on_spark_equal_the_documentation(own_folder: Path) -> None:
    assert_session("spark", own_folder)


def assert_session(kind: str, folder: Path) -> None:
    """Run the commands of the blocks in one shell and compare what each prints."""
    bodies = [body for name, body in blocks("console") if name == kind]
    steps = [step.partition("\n") for b in bodies for step in re.split(r"^\$ ", b, flags=re.M)[1:]]
    lines = [f"{command}\necho '{DONE.format(k)}'" for k, (command, _, _) in enumerate(steps)]
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env=os.environ | {"PATH": f"{programs(folder)}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    left = done.stdout
    for k, (command, _, expected) in enumerate(steps):
        printed, mark, left = left.partition(DONE.format(k) + "\n")
        assert mark, f"{command}: {done.stderr[-2000:]}"
        pattern = ".*".join(map(re.escape, expected.strip().split("...")))
        assert re.fullmatch(pattern, printed.strip()), f"{command}: {printed}{done.stderr[-2000:]}"


def programs(folder: Path) -> Path:
    """A folder with the commands that the pages use, as this interpreter runs them."""
    path = folder / "bin"
    path.mkdir(exist_ok=True)
    for name, words in PROGRAMS.items():
        file = path / name
        file.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
        file.chmod(0o755)
    return path


def test_documented_unit_tests_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    files = [name for name, _ in blocks("file") if name.startswith("test_")]
    assert len(files) > 1
    for file in files:
        tests = {n: f for n, f in vars(module_at(folder / file)).items() if n.startswith("test_")}
        assert tests, file
        for test in tests.values():
            test()


def test_the_picture_shows_the_plan_of_the_demo() -> None:
    ((name, text),) = blocks("mermaid")
    demo = module_at(ROOT / name)
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


class Links(HTMLParser):
    """The links and anchors of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" and value:
                self.anchors.add(value)


@pytest.mark.slow
def test_the_site_is_built_and_its_links_work(tmp_path: Path) -> None:
    build = [sys.executable, "docs/site/build.py", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    found = {path: Links(path.read_text()) for path in tmp_path.rglob("*.html")}
    assert len(found) > len(PAGES)
    for path, page in found.items():
        for link in page.links:
            if re.match(r"\w+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.is_file(), f"{path}: {link}"
            assert not anchor or anchor in found[target].anchors, f"{path}: {link}"
    public = {name.lower() for name in streamscope.__all__ if name[0] != "_"}
    assert public <= found[tmp_path / "docs" / "api.html"].anchors
