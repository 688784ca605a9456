"""The decisions of a policy, one by one; and for random loads its promises.

Not covered: a load that does not follow the number of vertices, such as that of one hot key.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from planner.cost.autoscaling import Decision, Reading, StageLoad, decide
from planner.cost.policy import Policy, policy_of, recorded_policy, stored_policy
from rstream.errors import UsageError
from tests.support.budget import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

S = "s02-agg"
POLICY = Policy(min=1, max=10, target_busy=0.7, settle_s=60, cooldown_s=300, step=10)


def readings(until_s: float, busy: float, width: int = 4, **fields: float) -> list[Reading]:
    """A reading each ten seconds up to this time."""
    times = range(0, int(until_s) + 1, 10)
    return [Reading(t, {S: StageLoad(width, busy)}, **fields) for t in times]


def widths(decision: Decision | None) -> dict[str, int]:
    return {} if decision is None else decision.widths


@pytest.mark.parametrize(
    ("busy", "width"),
    [(0.7, None), (0.71, 5), (0.9, 6), (1.0, 6), (0.57, None), (0.42, 3), (0.1, 1), (0.0, 1)],
)
def test_a_stage_gets_as_many_vertices_as_its_work_needs(busy: float, width: int | None) -> None:
    """A stage keeps a vertex if the others would come near the target without it."""
    assert widths(decide(POLICY, readings(300, busy), 0)).get(S) == width


def test_a_condition_must_last_and_changes_have_a_pause() -> None:
    assert decide(POLICY, [], 0) is None
    assert decide(POLICY, readings(290, 1.0), 0) is None, "the cooldown"
    assert decide(POLICY, readings(300, 1.0), 0) is not None
    eager = replace(POLICY, cooldown_s=1)
    assert decide(eager, readings(50, 1.0), 0) is None, "readings of less than the settling time"
    assert decide(eager, readings(300, 1.0), 250) is None, "readings before the last change"
    assert decide(eager, readings(310, 1.0), 250) is not None


def in_turn(until_s: float, *busy: float, **fields: tuple[float, ...]) -> list[Reading]:
    """Readings whose busy shares, and other fields, take these values in turn."""
    made = []
    for k, reading in enumerate(readings(until_s, 0.0)):
        others = {name: values[k % len(values)] for name, values in fields.items()}
        load = StageLoad(4, busy[k % len(busy)])
        made.append(Reading(reading.at_s, {S: load}, **others))
    return made


def test_the_mean_load_of_bursts_decides_and_no_vertex_is_removed_in_between() -> None:
    """The mean of the readings decides, so a job with idle moments grows, too."""
    assert widths(decide(POLICY, in_turn(300, 1.0, 0.9, 0.6), 0)) == {S: 5}
    assert widths(decide(POLICY, in_turn(300, 1.0, 0.1), 0)) == {}
    late = in_turn(300, 0.3, lag_s=(90.0, 0.0))
    assert widths(decide(replace(POLICY, target_lag_s=30.0), late, 0)) == {S: 5}
    assert widths(decide(replace(POLICY, target_lag_s=60.0), late, 0)) == {}


def test_a_change_is_limited_by_the_step_and_the_limits() -> None:
    small = replace(POLICY, step=1)
    assert widths(decide(small, readings(300, 1.0), 0)) == {S: 5}
    assert widths(decide(small, readings(300, 0.0), 0)) == {S: 3}
    narrow = replace(POLICY, min=3, max=5)
    assert widths(decide(narrow, readings(300, 1.0), 0)) == {S: 5}
    assert widths(decide(narrow, readings(300, 0.0), 0)) == {S: 3}
    own = replace(POLICY, stages=(("s02", (7, 8)),))
    decision = decide(own, readings(300, 0.6), 0)
    assert decision == Decision({S: 7}, f"{S} 4 -> 7: {S} must have 7 to 8 vertices")


def test_lag_adds_vertices_to_the_busiest_stage_and_removes_none() -> None:
    policy = replace(POLICY, target_lag_s=30.0)
    loads = {S: StageLoad(4, 0.2), "s03-agg": StageLoad(4, 0.1)}
    late = [replace(r, stages=loads) for r in readings(300, 0.0, lag_s=31.0)]
    decision = decide(policy, late, 0)
    assert widths(decision) == {S: 5}
    assert decision is not None
    assert decision.reason.startswith(f"{S} 4 -> 5: the job lags 31 s behind (target 30 s), and")
    assert widths(decide(policy, [replace(r, lag_s=29) for r in late], 0)) == {S: 2, "s03-agg": 1}


def test_high_memory_adds_vertices_to_the_stage_with_the_most_state() -> None:
    loads = {S: StageLoad(4, 0.2, 10), "s03-agg": StageLoad(4, 0.1, 20)}
    full = [replace(r, stages=loads) for r in readings(300, 0.0, memory=0.9)]
    decision = decide(POLICY, full, 0)
    assert decision is not None
    assert decision.widths == {"s03-agg": 5}
    assert "a host uses 90% of its memory (target 85%)" in decision.reason


works = st.floats(0, 12)


def run(policy: Policy, work_at: Callable[[float], float], lag_s: float) -> list[tuple[float, int]]:
    """Follow the decisions over an hour. Return the times and widths of the changes."""
    width, changed_s, seen, changes = 4, 0.0, list[Reading](), list[tuple[float, int]]()
    for t in range(0, 3_600, 10):
        busy = min(work_at(t) / width, 1.0)
        seen.append(Reading(t, {S: StageLoad(width, busy)}, lag_s))
        if (decision := decide(policy, seen, changed_s)) is not None:
            width, changed_s = decision.widths[S], t
            changes.append((t, width))
    return changes


policies = st.builds(
    lambda low, more, step, cooldown, settle, busy: Policy(
        low, low + more, 30.0, busy, 0.85, settle, cooldown, step
    ),
    *(st.integers(1, 5), st.integers(0, 6), st.integers(1, 4)),
    *(st.sampled_from([10, 60, 300]), st.sampled_from([10, 60, 200]), st.floats(0.1, 1.0)),
)


@examples(60)
@given(policies, st.lists(works, min_size=1, max_size=12), st.sampled_from([0.0, 31.0]))
def test_changes_respect_the_cooldown_the_limits_and_the_step(
    policy: Policy, loads: list[float], lag_s: float
) -> None:
    changes = run(policy, lambda t: loads[int(t) // 300 % len(loads)], lag_s)
    assert all(policy.min <= width <= policy.max for _, width in changes)
    times = [0.0, *(t for t, _ in changes)]
    assert all(b - a >= policy.cooldown_s for a, b in pairwise(times))
    steps = [abs(b - a) for (_, a), (_, b) in pairwise(changes)]
    assert all(1 <= one <= policy.step for one in steps), "after the first, which may enter limits"


@examples(60)
@given(policies, works, st.sampled_from([0.0, 31.0]))
def test_constant_work_changes_the_width_in_one_direction_and_then_stops(
    policy: Policy, work: float, lag_s: float
) -> None:
    changes = run(replace(policy, cooldown_s=10, settle_s=10), lambda t: work, lag_s)
    sizes = [width for _, width in changes]
    assert sizes in (sorted(sizes), sorted(sizes, reverse=True))
    assert len(sizes) == len(set(sizes)) <= 12


def test_a_policy_is_read_from_toml_and_stored_as_json(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(
        'min = 2\nmax = 6\ntarget_lag = "10s"\ncooldown = "5m"\ndry_run = true\n'
        "[stages.s02]\nmax = 4\n"
    )
    stored = recorded_policy(str(path), "autoscale")
    expected = Policy(2, 6, 10.0, cooldown_s=300.0, dry_run=True, stages=(("s02", (2, 4)),))
    assert stored_policy(stored) == expected
    assert recorded_policy(stored, "autoscale") == stored
    assert (expected.limits("s02-agg"), expected.limits("s03-agg")) == ((2, 4), (2, 6))
    assert stored_policy(recorded_policy("off", "autoscale")) is None
    with pytest.raises(UsageError, match="cannot be read"):
        recorded_policy(str(tmp_path / "none.toml"), "autoscale")
    path.write_bytes(b"# \xff\nmin = 2\n")
    with pytest.raises(UsageError, match="cannot be read: 'utf-8' codec"):
        recorded_policy(str(path), "autoscale")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"mni": 1}, "there is no key 'mni'; the keys are cooldown, dry_run, max"),
        ({"min": 3, "max": 2}, "1 <= min <= max <= 256"),
        ({"max": 300}, "1 <= min <= max <= 256"),
        ({"min": True}, "numbers of vertices"),
        ({"step": 0}, "step must be a number"),
        ({"target_busy": 70}, "target_busy must be a share"),
        ({"target_memory": "x"}, "target_memory must be a share"),
        ({"cooldown": "soon"}, "cooldown 'soon' is not a duration"),
        (
            {"target_lag": 30},
            'target_lag = 30 has no unit: write it as text, such as target_lag = "30s"',
        ),
        ({"settle": 1.5}, "settle = 1.5 has no unit"),
        ({"dry_run": 1}, "dry_run must be true or false"),
        ({"stages": {"s02": {"step": 1}}}, "has only min and max"),
        ({"stages": {"s02": {"min": 9}}}, "1 <= min <= max"),
        ({"stages": 3}, r"write \[stages\.s02\]"),
        ({"stages": [{"max": 3}]}, r"write \[stages\.s02\]"),
    ],
)
def test_an_invalid_policy_is_an_error(document: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        policy_of(document, "policy.toml")
