"""Jobs over a user's query: a healthy one breaks no law, planted bugs do, and a seed repeats it.

Cannot catch: a bug that no failure brings out; ``assert_deterministic`` looks for these.
"""

from __future__ import annotations

import pytest

import streamscope as ss
from tests.sim.of_query import query_at
from tests.sim.run import simulate
from tests.support.budget import seeds
from tests.testing.planted import BUGS, CLICKS, HEALTHY

QUERY = """
from tests.testing.planted import CLICKS, HEALTHY

def chaos():
    return HEALTHY["counter"], {"clicks": CLICKS}
"""


def totals(clicks: ss.Stream) -> ss.Stream:
    return clicks.group_by("user").window(ss.tumbling("4s")).agg(n=ss.agg.sum("n"))


@pytest.mark.parametrize("seed", seeds(900, 3))
def test_a_healthy_query_breaks_no_law(seed: int) -> None:
    outcome = simulate(seed, query=(totals, {"clicks": CLICKS}))
    assert outcome.violations == (), "\n".join(outcome.tail)
    assert outcome.workload == "query"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["path in order of names", "counter", "join", "timers"])
def test_healthy_queries_break_no_law(name: str) -> None:
    for seed in seeds(950, 5):
        outcome = simulate(seed, query=(HEALTHY[name], {"clicks": CLICKS}))
        assert outcome.violations == (), f"seed {seed}\n" + "\n".join(outcome.tail)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clock", "log in a global list", "operator without its state"])
def test_a_planted_bug_is_found_and_its_seed_repeats(name: str) -> None:
    given = (BUGS[name], {"clicks": CLICKS})
    found = next((s for s in range(60) if simulate(s, query=given).violations), None)
    assert found is not None
    assert simulate(found, query=given).violations


def test_a_file_names_a_query(tmp_path: object) -> None:
    path = f"{tmp_path}/query.py"
    with open(path, "w") as file:
        file.write(QUERY)
    _, inputs = query_at(f"{path}:chaos")
    assert inputs == {"clicks": CLICKS}
