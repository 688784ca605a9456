"""Jobs under all faults whose state does not fit: no memory budget, and limits of a few rows.

Keyed processes and ``deduplicate`` keep their keys on scratch, windows their rows. Planted bugs of
the spilled runs are detected. Not covered: a full disk (tests/rvertex/state).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import streamscope as ss
from streamscope.testing import rows
from streamscope.testing.simulation.faults.kinds import KINDS
from streamscope.testing.simulation.of_query import query_workload
from streamscope.testing.simulation.run import run_job
from tests.support.budget import seeds
from tests.support.small_limits import small_limits
from tests.support.spill_bugs import JOB_BUGS, SPILL_BUGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamscope.testing.simulation.run import Outcome
    from tests.support.spill_bugs import Bug

ROWS = 60
#: Ids repeat after 1.8 s, while they are known for one more microsecond.
WITHIN = "1800001us"
#: The number of seeds that must detect a planted bug.
TRIED = 4


class Idle(ss.KeyedProcess):
    """The number of clicks of a user once there were none for 3 s."""

    output = {"clicks": "int64"}  # noqa: RUF012  as docs/USERCODE.md shows it
    clicks: int = 0

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.clicks += event.n
        ctx.set_timer("3s")

    def on_timer(self, timer: Any, ctx: ss.KeyedContext) -> None:
        ctx.emit(self.clicks)
        if self.clicks % 2:
            self.clicks = 0


def sessions(clicks: ss.Stream) -> ss.Stream:
    return clicks.deduplicate("id", within=WITHIN).group_by("user").process(Idle)


def drawn() -> Any:
    slots = [i * 7 % 20 for i in range(ROWS)]
    lines = [
        f"| {slot * 600}ms | {i * i % 20 % 13} | {slot % 3 + 3 * (i // 20 % 2)} | {1 + i % 2} |"
        for i, slot in enumerate(slots)
    ]
    head = ["| time | user: int64 | id: int64 | n: int64 |", "|---|---|---|---|"]
    return rows("\n".join(head + lines))


CLICKS = drawn()


@contextmanager
def no_memory(*bugs: Bug) -> Iterator[None]:
    """State has no memory budget; ``bugs`` are planted."""
    with small_limits(), ExitStack() as stack:
        budget = "rvertex.host.environment._state_memory_bytes"
        stack.enter_context(mock.patch(budget, return_value=0))
        for bug in bugs:
            stack.enter_context(mock.patch.object(*bug))
        yield


def outcome_of(seed: int, *bugs: Bug) -> Outcome:
    job = query_workload(seed, sessions, {"clicks": CLICKS})
    with no_memory(*bugs):
        return run_job(seed, job, KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(8_000, 4))
def test_jobs_without_memory_for_state_break_no_law(seed: int) -> None:
    outcome = outcome_of(seed)
    assert outcome.violations == (), "\n".join(outcome.tail)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SPILL_BUGS, *JOB_BUGS])
def test_planted_bugs_break_a_law(name: str) -> None:
    bugs = SPILL_BUGS | JOB_BUGS
    tried = (outcome_of(8_000 + k, bugs[name]()) for k in range(TRIED))
    assert any(outcome.violations for outcome in tried)
