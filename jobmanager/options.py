"""What a user may set for a run, besides where it runs: how it recovers, checks and remembers.

The command's options and the arguments of :func:`jobmanager.run` are the same; both end here. They
are recorded in the root, so that ``resume`` goes on alike unless it is told otherwise.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Literal, TypedDict

from jobmanager.config import KEEP_ALL
from planner.durations import Duration, duration_us, positive_duration_us
from planner.physical.recovery import recovered_with, with_durable_channels
from rstream.errors import UsageError
from rvertex.user_code.modules import checked_modules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobmanager.config import JobConfig
    from planner.cost.options import Parallelism
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.spec import Strategy

ALL, DELIVERED = "all", "delivered"
STRATEGIES = ("checkpoint", "replay", "replication")
#: Options that are sizes in bytes.
SIZES: tuple[Literal["checkpoint_bytes", "state_memory", "scratch_limit"], ...] = (
    "checkpoint_bytes",
    "state_memory",
    "scratch_limit",
)
_US_PER_S = 1_000_000
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?")
_UNITS = {"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class RunOptions(TypedDict, total=False):
    """What is missing or None is as the query or the configuration says."""

    #: How every vertex is recovered; one that is not deterministic stays strong.
    recovery: Strategy | None
    #: Instances of every vertex; more than one means replication.
    replicas: int | None
    #: Least time between two checkpoints of a vertex.
    checkpoint_interval: Duration | None
    #: Bytes of input after which a vertex takes one before that: a number, or such as "64MB".
    checkpoint_bytes: int | str | None
    #: What the state of a host may take in memory before it is spilled: a number, or "4GB".
    state_memory: int | str | None
    #: A folder on a local disk for state that is spilled; by default that for temporary files.
    scratch: str | None
    #: Limit of spilled state per host, such as "100GB"; default: the size of the disk.
    scratch_limit: int | str | None
    #: How long what recovery no longer needs is kept: a duration, or "all".
    retain: Duration | None
    #: How long the output is kept: a duration, "delivered" (what no delivery needs goes), or "all".
    retention: Duration | None
    #: How long late rows and dead letters are kept; by default as ``retention``, if a duration.
    side_retention: Duration | None
    #: Merge small files of the output while the job runs; None: if it is endless, and the output
    #: lies in its root.
    compact_output: bool | None
    #: Compare all that is written twice; channels are then flushed, from the job's beginning on.
    verify: bool | None
    #: Modules that the query imports: files ``.py``, ``.zip`` or ``.egg``, packages, folders.
    py_files: Sequence[str] | None
    #: Let other users read the job's folder, as the umask says; by default only its own may. It is
    #: decided when the job begins.
    shared_root: bool | None
    #: Sync what is announced as durable to a local disk; False: a loss of power may cost it.
    fsync: bool | None


def recorded(options: RunOptions) -> RunOptions:
    """The options as ``job.json`` keeps them: checked, only JSON types.

    Raises:
        UsageError: one of them cannot be.
    """
    unknown = sorted(set(options) - RunOptions.__annotations__.keys())
    if unknown:
        there = ", ".join(RunOptions.__annotations__)
        raise UsageError(f"there is no option {unknown[0]!r}; there are {there}")
    strategy = options.get("recovery")
    if strategy == "strong":
        raise UsageError("recovery='strong' is for single stages: write .recover_with('strong')")
    if strategy is not None and strategy not in STRATEGIES:
        raise UsageError(f"recovery={strategy!r}: choose one of {', '.join(STRATEGIES)}")
    known = options.copy()
    interval, retain = options.get("checkpoint_interval"), options.get("retain")
    if interval is not None:
        known["checkpoint_interval"] = positive_duration_us(interval, what="checkpoint_interval")
    for name in SIZES:
        size = options.get(name)
        if isinstance(size, int | str):
            known[name] = _bytes(size, name)
    if retain is not None and retain != ALL:
        known["retain"] = duration_us(retain, what="retain (or 'all')")
    modules = options.get("py_files")
    if modules is not None:
        known["py_files"] = checked_modules([modules] if isinstance(modules, str) else modules)
    kept, aside = options.get("retention"), options.get("side_retention")
    if kept is not None and kept not in (ALL, DELIVERED):
        known["retention"] = positive_duration_us(kept, what="retention (or 'all')")
    if aside is not None and aside not in (ALL, DELIVERED):
        known["side_retention"] = positive_duration_us(aside, what="side_retention (or 'all')")
    if aside == DELIVERED:
        raise UsageError("late rows and dead letters are not delivered: give side_retention a time")
    return known


def merged(before: Mapping[str, object], now: RunOptions) -> RunOptions:
    """What was recorded, and over it what is said now.

    Raises:
        UsageError: a job that has begun cannot change an option.
    """
    said = {name: value for name, value in now.items() if value is not None}
    if said.get("shared_root") not in (None, bool(before.get("shared_root"))):
        raise UsageError(
            "shared_root is decided when a job begins. To share the folder of this one, delete "
            "ROOT/.private and run: chmod -R a+rX ROOT"
        )
    return {**before, **said}  # type: ignore[typeddict-item]


def applied(config: JobConfig, options: RunOptions) -> JobConfig:
    """The configuration of a run with these options."""
    known = recorded(options)
    host = config.host
    interval_us = known.get("checkpoint_interval")
    if isinstance(interval_us, int):
        host = replace(host, checkpoint_interval_s=interval_us / _US_PER_S)
    if isinstance(size := known.get("checkpoint_bytes"), int):
        host = replace(host, checkpoint_bytes_max=size)
    if isinstance(size := known.get("state_memory"), int):
        host = replace(host, state_memory_bytes=size)
    if isinstance(size := known.get("scratch_limit"), int):
        host = replace(host, scratch_bytes_max=size)
    host = replace(host, scratch_folder=known.get("scratch") or host.scratch_folder)
    verify, retain = known.get("verify"), known.get("retain")
    host = replace(host, verify=host.verify if verify is None else verify)
    fsync = known.get("fsync")
    host = replace(host, fsync=host.fsync if fsync is None else fsync)
    config = replace(config, py_files=(*config.py_files, *(known.get("py_files") or ())))
    shared = known.get("shared_root")
    config = replace(config, shared_root=config.shared_root if shared is None else shared)
    if retain is not None:
        retain_us = KEEP_ALL if retain == ALL else duration_us(retain, what="retain")
        config = replace(config, retain_us=retain_us)
    kept_us = _retention_us(known.get("retention"))
    side_us = _retention_us(known.get("side_retention"))
    if kept_us is not None:
        config = replace(config, retention_us=kept_us, side_retention_us=kept_us or KEEP_ALL)
    if side_us is not None:
        config = replace(config, side_retention_us=side_us)
    return replace(config, host=host)


def _retention_us(given: Duration | None) -> int | None:
    if given is None:
        return None
    if given == ALL:
        return KEEP_ALL
    return 0 if given == DELIVERED else duration_us(given, what="retention")


def for_plan(config: JobConfig, options: RunOptions, plan: PhysicalPlan) -> JobConfig:
    """The configuration with what follows from the plan.

    An output folder that the user has named is for other systems, which may take a new file for
    new rows: unless he says so, it is not compacted.

    Raises:
        UsageError: the output is to be kept until it is delivered, and nothing delivers it; or it
            is to be put into a folder as a whole.
    """
    if config.retention_us != KEEP_ALL and plan.publishing is not None:
        raise UsageError(
            f"{plan.publishing.path} is written from the whole answer when the job has finished: "
            "leave out retention=, or give to_parquet(mode='append')"
        )
    if config.retention_us == 0 and not plan.deliveries:
        raise UsageError(
            "retention='delivered' keeps what a delivery still needs, and the query names none: "
            "add .to_kafka(...) or another one, or give a duration such as retention='7d'"
        )
    asked = options.get("compact_output")
    if asked is None:
        sources = [v.source.spec.log for v in plan.vertices if v.source is not None]
        asked = any(sources) and plan.output.startswith(f"{plan.root.rstrip('/')}/")
    return replace(config, host=replace(config.host, compact_output=asked))


def configured(
    config: JobConfig, parallelism: Parallelism | None, hosts: int | None, paced: float | None
) -> JobConfig:
    """The configuration with what is said of where and how fast a job runs.

    Raises:
        UsageError: a number cannot be.
    """
    if parallelism not in (None, "auto") and (isinstance(parallelism, str) or parallelism < 1):
        raise UsageError(f"parallelism must be at least 1, or 'auto', not {parallelism}")
    if hosts is not None and hosts < 1:
        raise UsageError(f"hosts must be at least 1, not {hosts}")
    if paced is not None and not 0 < paced < inf:
        raise UsageError(
            f"paced must be positive (10 is ten times faster than real time), not {paced}"
        )
    return replace(
        config,
        parallelism=parallelism or config.parallelism,
        hosts=config.hosts if hosts is None else hosts,
        host=replace(config.host, pace=paced or config.host.pace),
    )


def planned(plan: PhysicalPlan, options: RunOptions, *, is_new: bool) -> PhysicalPlan:
    """The plan with these options; channels of a job that has begun stay as they are.

    Raises:
        UsageError: a vertex cannot be recovered so.
    """
    plan = recovered_with(plan, options.get("recovery"), options.get("replicas"))
    return with_durable_channels(plan) if is_new and options.get("verify") else plan


def replicas_max(plan: PhysicalPlan) -> int:
    """How many hosts the plan needs at least."""
    return max(vertex.recovery.replicas for vertex in plan.vertices)


def check_hosts(plan: PhysicalPlan, hosts: int) -> None:
    """Every replica of a vertex needs a host of its own.

    Raises:
        UsageError: there are too few.
    """
    if hosts < replicas_max(plan):
        raise UsageError(
            f"replicas are on different hosts: {replicas_max(plan)} replicas need as many hosts, "
            f"there are only {hosts}; give --hosts, or ask for fewer --replicas"
        )


def _bytes(given: int | str, option: str) -> int:
    match = _SIZE.fullmatch(str(given).strip())
    size = 0 if match is None else int(float(match[1]) * _UNITS.get(match[2] or "B", 1))
    if size < 1:
        raise UsageError(f'{option} {given!r} is not a size; write it like "64MB"')
    return size
