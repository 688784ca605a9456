"""Whole jobs over a user's query: hosts, job managers, disks and networks fail, in virtual time."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from planner.physical.lower import lower
from rstream.errors import UsageError
from streamscope.testing.determinism import bound_to_rows, codes_of
from streamscope.testing.errors import JobUnderFaultsError
from streamscope.testing.runs import with_items
from streamscope.testing.simulation.faults.kinds import KINDS
from streamscope.testing.simulation.run import run_job
from streamscope.testing.simulation.workload import ROOT, workload_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamscope.testing.inputs import QueryLike
    from streamscope.testing.simulation.run import Outcome
    from streamscope.testing.simulation.workload import Workload

_VIOLATIONS_SHOWN = 3


def assert_survives(
    query: QueryLike, inputs: Mapping[str, Any], *, runs: int = 20, seed: int = 0
) -> None:
    """Assert that jobs over a query have the right result under failures.

    Each run is a whole job in this process and in virtual time: the real job manager, hosts and
    streams over a simulated store and network. The seed of a run decides the order of arrival, the
    limits and the number of hosts, which parts fail (processes, disks, connections, clocks), and
    when. Same seed, same run. A run takes about 0.2 s of processor time.

    Args:
        query: SQL, a function of streams, a ``Stream`` or a ``Query``.
        inputs: As for :func:`streamscope.testing.assert_deterministic`.
        runs: Number of jobs; they have the seeds ``seed``, ``seed + 1``, ...
        seed: The seed of the first job.

    Raises:
        JobUnderFaultsError: the seed, the faults, and the laws that the job broke.
        UsageError: the query has code without a known answer, or inputs are missing.
    """
    __tracebackhide__ = True
    for number in range(seed, seed + runs):
        outcome = run_job(number, query_workload(number, query, inputs), KINDS)
        if not outcome.is_ok:
            raise JobUnderFaultsError(_text(outcome))


def query_workload(seed: int, query: QueryLike, inputs: Mapping[str, Any]) -> Workload:
    """Return the job of a seed over a user's query, with the expected result."""
    random = Random(seed * 7_919 + 1)
    test, rows = bound_to_rows(query, inputs)
    for code in codes_of(test.plan()):
        if code.draws_values or not code.is_deterministic:
            what = "uses outside values" if code.draws_values else "is declared deterministic=False"
            raise UsageError(f"{code.name} {what}, so it has no single right answer")
    with_rows = with_items(test, rows, random)
    plan = lower(with_rows, root=ROOT, parallelism=random.choice([1, 2, 2, 3]))
    return workload_of(seed, "query", plan, random)


def _text(outcome: Outcome) -> str:
    faults = ", ".join(outcome.faults) or "no fault"
    broken = "\n".join(outcome.violations[:_VIOLATIONS_SHOWN])
    return f"seed {outcome.seed} ({faults}); runs=1, seed={outcome.seed} repeats it:\n{broken}"
