"""The version policy has the numbers of the code, and the pins fit the allowed versions.

Not covered: a stored format that changed without its number.
"""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import streamscope
from jobmanager.state.messages import LOG_VERSION
from jobmanager.storage.root import FORMAT
from planner.explain.json import VERSION
from rstream.format.codec import FORMAT_VERSION
from rstream.format.message_codec import PROTOCOL_VERSION
from rstream.format.segment_file import READ_VERSIONS
from rstream.intake.commits import LOG_FORMAT
from rvertex.checkpoint.codec import MAGIC

ROOT = Path(__file__).parent.parent
NUMBERS = {
    "package": streamscope.__version__,
    "job format": str(FORMAT),
    "notices": str(LOG_VERSION),
    "checkpoint format": str(int(MAGIC[-2:])),
    "segment format": str(FORMAT_VERSION),
    "log format": str(LOG_FORMAT),
    "protocol": str(PROTOCOL_VERSION),
    "`explain --json`": str(VERSION),
}


def rows() -> list[list[str]]:
    """The table of numbers in docs/versions.md, cell by cell."""
    text = (ROOT / "docs/versions.md").read_text().partition("<!-- versions -->\n")[2]
    lines = text.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_policy_has_the_numbers_of_the_code() -> None:
    assert {name: now for name, now, *_ in rows()} == NUMBERS


def test_the_policy_names_the_files_with_the_numbers() -> None:
    for name, _, where, *_ in rows():
        file, *constant = re.findall(r"`([^`]+)`", where)
        text = (ROOT / file).read_text()
        assert all(f"\n{word} = " in text for word in constant), f"{name}: {where}"


def test_every_segment_format_is_read() -> None:
    assert tuple(range(1, FORMAT_VERSION + 1)) == READ_VERSIONS


def test_the_changelog_begins_with_this_version() -> None:
    releases = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == streamscope.__version__


def setup_requirements() -> list[Requirement]:
    """Return the requirements of the package and its extras."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lists = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    return [Requirement(line) for text in lists for line in text.split("\n") if line.strip()]


def pins() -> dict[str, Requirement]:
    """The lines of constraints.txt by name."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if not line.startswith("#")]
    return {spelled(pin.name): pin for pin in found}


def spelled(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("needed", setup_requirements(), ids=str)
def test_pinned_versions_are_allowed(needed: Requirement) -> None:
    (pin,) = pins()[spelled(needed.name)].specifier
    assert pin.operator == "=="
    assert needed.specifier.contains(pin.version)


def test_pins_apply_to_one_python_version() -> None:
    """Another Python may lack such a version; it uses what setup.cfg allows."""
    assert len({str(pin.marker) for pin in pins().values()}) == 1
    assert all("python_version ==" in str(pin.marker) for pin in pins().values())


def test_hooks_run_what_make_runs() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    code = re.findall(r"^CODE := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0]
    assert f"entry: .venv/bin/mypy {code} tests\n" in hooks
    assert hooks.count("- id: ") == hooks.count("language: system")
