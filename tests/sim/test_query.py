"""Jobs over a user's query: a healthy one breaks no law, a planted bug does; runs are repeatable.

Not covered: a bug that no failure reveals; ``assert_deterministic`` searches for these.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import streamscope as ss
from rstream.errors import UsageError
from streamscope.testing import JobUnderFaultsError, assert_survives
from streamscope.testing.simulation.faults.kinds import KINDS
from streamscope.testing.simulation.of_query import query_workload
from streamscope.testing.simulation.run import run_job
from tests.support.budget import seeds
from tests.testing.planted import BUGS, CLICKS, HEALTHY


def totals(clicks: ss.Stream) -> ss.Stream:
    return clicks.group_by("user").window(ss.tumbling("4s")).agg(n=ss.agg.sum("n"))


def test_a_healthy_query_breaks_no_law() -> None:
    (first, *_) = seeds(900, 3)
    assert_survives(totals, {"clicks": CLICKS}, runs=len(seeds(900, 3)), seed=first)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["path in order of names", "counter", "join", "timers"])
def test_healthy_queries_break_no_law(name: str) -> None:
    (first, *_) = seeds(950, 5)
    assert_survives(HEALTHY[name], {"clicks": CLICKS}, runs=len(seeds(950, 5)), seed=first)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clock", "log in a global list", "operator without its state"])
def test_a_planted_bug_is_found_and_its_seed_repeats(name: str) -> None:
    with pytest.raises(JobUnderFaultsError) as failed:
        assert_survives(BUGS[name], {"clicks": CLICKS}, runs=60)
    (seed,) = re.findall(r"runs=1, seed=(\d+) repeats it:\n", str(failed.value))
    with pytest.raises(JobUnderFaultsError):
        assert_survives(BUGS[name], {"clicks": CLICKS}, runs=1, seed=int(seed))


def test_a_run_is_determined_by_its_seed() -> None:
    jobs = [query_workload(3, totals, {"clicks": CLICKS}) for _ in range(2)]
    one, two = (run_job(3, job, KINDS) for job in jobs)
    assert one == two
    assert one.workload == "query"


def test_code_without_a_deterministic_result_is_rejected_by_name() -> None:
    class Draws(ss.KeyedProcess):
        output = {"drawn": "float64"}  # noqa: RUF012

        def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
            ctx.emit(ctx.random())

    with pytest.raises(UsageError, match="Draws uses outside values"):
        assert_survives(lambda c: c.group_by("user").process(Draws), {"clicks": CLICKS}, runs=1)
