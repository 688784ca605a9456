"""Packages and limits in documents and messages match the code.

Not covered: a figure without the name of its limit.
"""

from __future__ import annotations

import configparser
import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest

from jobmanager.config import JobConfig
from jobmanager.intake.config import IntakeLimits
from rstream.limits import AppendLimits
from tests.rooms import FILES, ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/howto/*.md")]
    if page.name != "CHANGELOG.md"
)
TEXTS = [*PAGES, *(ROOT / file for file in FILES), *ROOT.glob("examples/*.py")]
INSTALL = re.compile(r"pip install ([^`\n#(]+)")
#: ``30 s (`host_silence_s`)`` or ``after `host_silence_s` (30 s)``; other words may come between.
_NUMBER, _UNIT = r"(\d[\d,.]*)", r"(s|ms|MiB|KiB|days)?"
BEHIND = re.compile(rf"{_NUMBER} ?{_UNIT}(?: [a-z]+){{0,4}} ?\([^()]*?`([a-z_]+)`\)")
BEFORE = re.compile(rf"`([a-z_]+)` \({_NUMBER} ?{_UNIT}\)")
FACTORS = {"KiB": 2**10, "MiB": 2**20, "days": 86_400.0}


def limits_of(record: Any) -> dict[str, float]:
    """The numbers in a record of limits and its nested records, by name."""
    found: dict[str, float] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if dataclasses.is_dataclass(value):
            found |= limits_of(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[field.name] = value
    return found


LIMITS = {**limits_of(JobConfig()), **limits_of(IntakeLimits()), **limits_of(AppendLimits())}


def packages() -> set[str]:
    """The names of all packages that this one names, and those that users install themselves."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options"]["install_requires"] + "\n"
    lines += "\n".join(config["options.extras_require"].values())
    names = {re.split(r"[<>=\[;]", line.strip())[0] for line in lines.splitlines()}
    return {*filter(None, names), "pandas"}


def named(page: Path) -> list[tuple[str, float]]:
    """The limits that a page names, with the figures beside them."""
    text = page.read_text()
    found = [(name, value, unit) for value, unit, name in BEHIND.findall(text)]
    found += BEFORE.findall(text)
    return [
        (name, float(value.replace(",", "").rstrip(".")) * FACTORS.get(unit, 1))
        for name, value, unit in found
        if name in LIMITS
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_defaults_equal_the_code(page: Path) -> None:
    wrong = [(name, value, LIMITS[name]) for name, value in named(page) if value != LIMITS[name]]
    assert not wrong, "documented and real defaults"


def test_the_documents_name_limits() -> None:
    """Otherwise the test above checks nothing."""
    assert len({name for page in PAGES for name, _ in named(page)}) >= 10


def test_documented_pip_commands_can_be_installed() -> None:
    """Commands of pages never install this package by its name alone, because it is on no index."""
    extras = configparser.ConfigParser()
    extras.read(ROOT / "setup.cfg")
    known, wrong = packages(), []
    for text in TEXTS:
        for command in INSTALL.findall(text.read_text()):
            for word in command.strip().rstrip("\".',:;)").split():
                package = word.strip("\"',")
                wheel = re.fullmatch(r"(?:\.|\S+\.whl)(?:\[([\w,]+)\])?", package)
                names = wheel[1].split(",") if wheel and wheel[1] else []
                is_fine = wheel is not None and set(names) <= set(extras["options.extras_require"])
                if word in ("or", "and", "brings"):
                    break
                if not is_fine and package not in known and package not in ("{package}", "-e"):
                    wrong.append((text.name, command, package))
    assert not wrong
