"""Errors for wrong arguments of ``ss.id_joiner``, and for an unreachable or emptied registry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import streamscope as ss
from rvertex.registry.errors import RegistryAwayError, RegistryLostError
from rvertex.registry.joiner.errors import JoinerLimitError
from rvertex.registry.joiner.limits import JoinerLimits
from rvertex.sinks.errors import InvalidSinkError
from tests.rvertex.joiner.test_restart import Claims, OneSite

if TYPE_CHECKING:
    from collections.abc import Callable

REGISTRY = ss.sinks.registry("nats://none", "clicks")
#: How often a registry tries an append.
TRIES = 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"on": 3}, "on and id must be names of columns"),
        ({"id": None}, "on and id must be names of columns"),
        ({"at": ("searched",)}, "and at a name or a pair of names"),
        ({"at": None}, "and at a name or a pair of names"),
        ({"at": ("a", "b", "c")}, "and at a name or a pair of names"),
        (
            {"share": 2},
            "share=2): must be the number of this site, from 0",
        ),
        ({"share": (0.5, 2)}, "must be the number of this site, from 0"),
        ({"share": (2, 2)}, "must be the number of this site, from 0"),
        ({"share": (0, 1, 2)}, "must be the number of this site, from 0"),
        ({"limits": 3}, "limits=3): must be JoinerLimits(...)"),
        ({"primary": 3}, "three logs, each a path or a url"),
        ({"to": "clicks"}, "three logs, each a path or a url"),
        ({"retry": -1}, "retry=-1): must be 0 or more"),
        ({"on_old": "drop"}, "on_old='drop'): 'fail' or 'skip'"),
    ],
)
def test_wrong_arguments_are_named(given: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {"on": "q", "id": "click", "at": "at", "unjoinable_after": "1h"}
    right |= {"primary": "searches", "foreign": "clicks", "to": "joined", "registry": REGISTRY}
    with pytest.raises(ss.InvalidPlanError, match=re.escape(message)):
        ss.id_joiner(**(right | given))
    with pytest.raises(InvalidSinkError, match="the registry must be made by"):
        ss.id_joiner(**(right | {"registry": "nats://none"}))


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        ({"step_rows_max": 0}, "0 < step_rows_max <= waiting_rows_max"),
        ({"rows_per_s_max": -1.0}, "0 < rows_per_s_max"),
        ({"retry_max_s": 0.1}, "0 < retry_first_s <= retry_max_s"),
        ({"away_max_s": -1.0}, "0 <= away_max_s"),
    ],
)
def test_contradictory_limits_are_rejected(limits: dict[str, Any], rule: str) -> None:
    with pytest.raises(JoinerLimitError, match=re.escape(f"JoinerLimits: {rule} does not hold")):
        JoinerLimits(**limits)


def test_a_long_outage_of_the_registry_ends_the_joiner() -> None:
    site = OneSite(away_max_s=60.0, away_s=0.001)
    site.search(1, 0)
    site.click(1, 1, 0)
    joiner = site.begin()
    site.claims.append = away_after(site, seconds=25)  # type: ignore[method-assign]
    with pytest.raises(RegistryAwayError, match="no majority"):
        joiner.run(idle_s=1e9)
    assert joiner.status()["away"] == 3
    site.claims.append = Claims.append.__get__(site.claims)  # type: ignore[method-assign]
    site.steps(site.begin(), 1)
    assert site.joined() == [(1, 7)]


def away_after(site: OneSite, seconds: int) -> Callable[[int, bytes], int]:
    def append(_shard: int, _data: bytes) -> int:
        site.time_us += seconds * 1_000_000 // TRIES
        raise RegistryAwayError("r", "no majority")

    return append


def test_an_emptied_registry_ends_a_joiner_that_has_claimed() -> None:
    site = OneSite()
    running = site.begin()
    site.search(1, 0)
    site.click(1, 1, 0)
    site.steps(running, 0)
    site.claims.shared = type(site.claims.shared)()
    site.click(2, 1, 0)
    with pytest.raises(RegistryLostError, match="registry r: the log of shard 0 starts again"):
        site.steps(running, 1)
    site.claims.shared = type(site.claims.shared)()
    with pytest.raises(
        RegistryLostError, match="its streams are empty, although east has claimed ids in it"
    ):
        site.begin()
    assert site.joined() == [(1, 7)]
