"""When memory is returned, and which limit applies. Not covered: a system that keeps it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rstream import ManualClock
from rvertex.host import allocator
from rvertex.host.allocator import GIVE_BACK_EVERY_S, LARGE_STEP_BYTES, LargeSteps


def batch_of(nbytes: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(np.zeros(nbytes // 8, np.int64))], ["v"])


def test_memory_is_returned_after_large_steps() -> None:
    clock = ManualClock()
    steps = LargeSteps(clock)
    half, large = batch_of(LARGE_STEP_BYTES // 2), batch_of(LARGE_STEP_BYTES)
    assert not steps.is_due([], 0)
    assert not steps.is_due([half, half], 0), "one batch that went to two streams"
    assert steps.is_due([half, batch_of(LARGE_STEP_BYTES // 2)], 0)
    assert not steps.is_due([large], 0), "it was a moment ago"
    clock.advance(int(GIVE_BACK_EVERY_S * 1e6) - 1)
    assert not steps.is_due([], 0)
    clock.advance(1)
    assert steps.is_due([], 0), "it is owed since"
    clock.advance(10_000_000)
    assert not steps.is_due([half], 0)
    assert steps.is_due([large], 0)


def test_small_steps_beyond_the_budget_are_counted_together_with_their_spills() -> None:
    clock, third = ManualClock(), LARGE_STEP_BYTES // 3 + 8
    steps = LargeSteps(clock)
    assert not steps.is_due([], third)
    assert not steps.is_due([batch_of(third)], third)
    assert steps.is_due([], 2 * third)
    clock.advance(10_000_000)
    assert not steps.is_due([batch_of(third)], 2 * third)
    assert not steps.is_due([batch_of(third)], 2 * third)
    assert steps.is_due([batch_of(third)], 2 * third)


@pytest.mark.parametrize(
    ("version", "line", "names"),
    [
        ("", "0::/jobs.slice/run.scope", ("memory.max", "memory.current", "inactive_file")),
        (
            "memory",
            "4:memory:/jobs.slice/run.scope",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_the_limits_of_all_control_groups_apply(
    version: str, line: str, names: tuple[str, str, str], tmp_path: Path, monkeypatch: Any
) -> None:
    """The lowest limit counts, also one of a parent control group.

    Cache that can be dropped does not count as used.
    """
    limit, usage, cache = names
    monkeypatch.setitem(allocator._GROUPS, version, (str(tmp_path / "fs"), *names))
    inner = tmp_path / "fs" / "jobs.slice" / "run.scope"
    inner.mkdir(parents=True)
    (inner / limit).write_text("max\n")
    (inner / usage).write_text("700\n")
    (inner.parent / limit).write_text("5000\n")
    (inner.parent / usage).write_text("900\n")
    (inner.parent / "memory.stat").write_text(f"{cache} 300\nother 5\n")
    proc = tmp_path / "cgroup"
    proc.write_text(f"9:cpuset:/\n{line}\n")
    assert list(allocator._limits(str(proc))) == [(5000, 600)]
    proc.write_text(line.replace("/run.scope", "/elsewhere"))
    assert list(allocator._limits(str(proc))) == [(5000, 600)]


def test_the_limit_of_a_real_control_group(tmp_path: Path) -> None:
    """A group inside another one, as systemd and YARN create them."""
    group = Path("/sys/fs/cgroup/memory") / f"limit-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("control groups cannot be made here")
    try:
        (group / "memory.limit_in_bytes").write_text(str(2 << 30))
        code = (
            f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n"
            "from rvertex.host.allocator import memory_now\n"
            "print(memory_now()[0].limit_bytes)"
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert said.stdout.strip() == str(2 << 30), said.stderr
    finally:
        group.rmdir()
