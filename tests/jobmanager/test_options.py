"""The options of a run: checked, recorded, and converted to limits and strategies."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import typer.main

from jobmanager import JobConfig
from jobmanager.cli.main import app
from jobmanager.config import KEEP_ALL
from jobmanager.driver.engine import LOCAL_HOSTS_MAX, open_executor
from jobmanager.options import (
    OPTIONS,
    RunOptions,
    applied,
    check_hosts,
    configured,
    merged,
    planned,
    recorded,
    replicas_max,
)
from planner import Stream, agg, count_window, event
from planner.physical.lower import lower
from rstream.errors import UsageError
from tests.support.queries import two_phases

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan


def plan() -> PhysicalPlan:
    return lower(two_phases(), root="ROOT", parallelism=2)


def test_limits_follow_from_the_options() -> None:
    options: RunOptions = {
        "checkpoint_interval": "1s",
        "checkpoint_bytes": "64MB",
        "retain": "2h",
        "verify": True,
    }
    config = applied(JobConfig(), options)
    assert config.host.checkpoint_interval_s == 1.0
    assert config.host.checkpoint_bytes_max == 64_000_000
    assert config.host.verify
    assert config.retain_us == 7_200_000_000
    assert applied(JobConfig(), {"retain": "all"}).retain_us == KEEP_ALL
    assert applied(JobConfig(), {}) == JobConfig()
    assert applied(JobConfig(retain_us=5), {"retain": None}).retain_us == 5


def test_recorded_options_are_json_and_can_be_read_back() -> None:
    options: RunOptions = {
        "recovery": "replay",
        "checkpoint_interval": timedelta(seconds=1),
        "checkpoint_bytes": "1KiB",
        "retain": timedelta(hours=2),
    }
    again = json.loads(json.dumps(recorded(options)))
    assert applied(JobConfig(), again) == applied(JobConfig(), options)
    assert merged(again, {"recovery": "checkpoint", "retain": None})["recovery"] == "checkpoint"
    assert merged(again, {"retain": None})["retain"] == 7_200_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recovery": "magic"}, "choose one of checkpoint, replay, replication"),
        ({"checkpoint_bytes": "many"}, "write it like"),
        ({"checkpoint_bytes": 0}, "write it like"),
        ({"checkpoint_interval": 0}, "checkpoint_interval"),
        ({"retain": "for long"}, "retain"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        applied(JobConfig(), options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("replay", 1)),
        ({"replicas": 3}, ("replication", 3)),
        ({"recovery": "replication"}, ("replication", 2)),
        ({"recovery": "replay"}, ("replay", 1)),
        ({"replicas": 1}, ("checkpoint", 1)),
    ],
)
def test_every_vertex_gets_the_requested_recovery(
    options: RunOptions, expected: tuple[str, int]
) -> None:
    found = planned(plan(), options, is_new=True)
    assert {(v.recovery.strategy, v.recovery.replicas) for v in found.vertices} == {expected}
    assert replicas_max(found) == expected[1]
    assert all(v.recovery.horizon_us is not None for v in found.vertices), "bounded windows"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recovery": "replay", "replicas": 2}, "replicas=2 goes with recovery='replication'"),
        ({"recovery": "replication", "replicas": 1}, "replicas=2 or more"),
        ({"replicas": 9}, "between 1 and 8"),
    ],
)
def test_contradictory_options_are_rejected(options: RunOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        planned(plan(), options, is_new=True)


def test_operators_with_unbounded_state_are_not_replayed() -> None:
    rows = [event("1s", k=1)]
    stream = Stream.from_items({"k": "int64"}, rows).group_by("k").window(count_window(3))
    query = stream.agg(n=agg.count()).to_parquet()
    with pytest.raises(
        UsageError, match=r"cannot be recovered by replay: .* may depend on rows of any age"
    ):
        planned(lower(query, root="ROOT"), {"recovery": "replay"}, is_new=True)


def test_too_few_hosts_are_reported_before_anything_starts() -> None:
    found = planned(plan(), {"replicas": 3}, is_new=True)
    check_hosts(found, 3)
    with pytest.raises(UsageError, match="3 replicas need as many hosts, there are only 2"):
        check_hosts(found, 2)


@pytest.mark.parametrize("paced", [0.0, -1.0, float("nan"), float("inf")])
def test_a_pace_is_a_positive_number(paced: float) -> None:
    with pytest.raises(UsageError, match="paced must be positive"):
        configured(JobConfig(), None, None, paced)


def test_more_hosts_than_a_process_can_run_are_rejected() -> None:
    def opened(hosts: int) -> int:
        config = JobConfig(hosts=hosts)
        return open_executor("local", plan(), None, config, None).hosts

    assert opened(LOCAL_HOSTS_MAX) == LOCAL_HOSTS_MAX
    with pytest.raises(UsageError, match=f"has room for {LOCAL_HOSTS_MAX}"):
        opened(LOCAL_HOSTS_MAX + 1)


def test_a_verifying_job_flushes_every_channel_from_its_start() -> None:
    found = planned(plan(), {"verify": True}, is_new=True)
    found.validate()
    assert {e.durability for v in found.vertices for e in v.outputs} == {"async"}
    later = planned(plan(), {"verify": True}, is_new=False)
    assert "volatile" in {e.durability for v in later.vertices for e in v.outputs}


def test_an_option_is_declared_once() -> None:
    """The command has each option, and equals a run from Python."""
    command = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    assert set(OPTIONS) == RunOptions.__annotations__.keys()
    assert set(OPTIONS) <= {parameter.name for parameter in command.params}
    known = recorded({"scratch_limit": "1GB", "retention": "1d", "side_retention": "2d"})
    config = applied(JobConfig(), known)
    assert config.host.scratch_bytes_max == 1_000_000_000
    assert (config.retention_us, config.side_retention_us) == (86_400_000_000, 172_800_000_000)


@pytest.mark.parametrize(
    ("options", "kept"),
    [({"retention": "delivered"}, (0, KEEP_ALL)), ({"retention": "1s"}, (10**6,) * 2)],
)
def test_side_outputs_are_retained_like_the_output(
    options: RunOptions, kept: tuple[int, int]
) -> None:
    config = applied(JobConfig(), options)
    assert (config.retention_us, config.side_retention_us) == kept
