"""The options of a run, except its root and its executor: recovery, checks and retention.

``RunOptions`` declares each option once: its type, its line of help, how it is checked, and the
limit that it sets. The command, ``streamscope.toml``, :func:`jobmanager.run` and ``docs/cli.md``
follow from it. The options are recorded in the root, so ``resume`` uses them unless given others.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from jobmanager.config import KEEP_ALL, JobConfig
from planner.cost.policy import recorded_policy, stored_policy
from planner.durations import Duration, duration_us, positive_duration_us
from planner.physical.recovery import REPLICAS_MAX, recovered_with, with_durable_channels
from rstream.errors import UsageError
from rvertex.user_code.modules import checked_modules
from rvertex.vertex.spec import Strategy  # noqa: TC001 - read as a type hint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.cost.parallelism import Parallelism
    from planner.physical.plan import PhysicalPlan

ALL, DELIVERED = "all", "delivered"
_US_PER_S = 1_000_000
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?")
_UNITS = {"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
Apply = Callable[[JobConfig, Any], JobConfig]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a run."""

    help: str
    #: Validates the value and returns it as ``job.json`` stores it. Arguments: value, option name.
    check: Callable[[Any, str], Any] = lambda value, name: value
    #: Returns the configuration with that value. The default leaves it unchanged, for an option
    #: that changes the plan instead.
    apply: Apply = lambda config, value: config
    #: On the command line: the type, the placeholder of the value, flags if not ``--NAME``.
    kind: object = str
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    bounds: tuple[int, int] | None = None


def _host(name: str, scale: float = 1) -> Apply:
    """Return a function that sets the host limit ``name`` to the option's value / ``scale``."""

    def apply(config: JobConfig, value: Any) -> JobConfig:
        limit = value if scale == 1 else value / scale
        return replace(config, host=replace(config.host, **{name: limit}))

    return apply


def _job(**values: Callable[[Any], Any]) -> Apply:
    """Return a function that sets limits of the job. Each is computed from the option's value."""
    return lambda config, value: replace(config, **{name: of(value) for name, of in values.items()})


def _size(given: int | str, name: str) -> int:
    match = _SIZE.fullmatch(str(given).strip())
    size = 0 if match is None else int(float(match[1]) * _UNITS.get(match[2] or "B", 1))
    if size < 1:
        raise UsageError(f'{name} {given!r} is not a size; write it like "64MB"')
    return size


def _interval(given: Duration, name: str) -> int:
    return positive_duration_us(given, what=name)


def _retain(given: Duration, name: str) -> Duration:
    return given if given == ALL else duration_us(given, what=f"{name} (or 'all')")


def _retention(given: Duration, name: str) -> Duration:
    if given in (ALL, DELIVERED):
        return given
    return positive_duration_us(given, what=f"{name} (or 'all')")


def _side_retention(given: Duration, name: str) -> Duration:
    if given == DELIVERED:
        raise UsageError(
            f"{name}='delivered': late rows and dead letters are not delivered; set a duration, "
            "such as '7d'"
        )
    return _retention(given, name)


def _kept_us(recorded: int | str) -> int:
    """Return how long data is kept, us, from a recorded duration; 0: until it is delivered."""
    if recorded == ALL:
        return KEEP_ALL
    return 0 if recorded == DELIVERED else int(recorded)


def _strategy(given: str, name: str) -> str:
    if given == "strong":
        raise UsageError("recovery='strong' is for single stages: write .recover_with('strong')")
    if given not in STRATEGIES:
        raise UsageError(f"recovery={given!r}: choose one of {', '.join(STRATEGIES)}")
    return given


def _modules(given: str | Sequence[str], name: str) -> list[str]:
    return checked_modules([given] if isinstance(given, str) else given)


_Chosen = Literal["checkpoint", "replay", "replication"]
STRATEGIES = typing.get_args(_Chosen)


class RunOptions(TypedDict, total=False):
    """The options of a run. The query or the configuration decides one that is None."""

    #: A vertex that is not deterministic keeps the strategy ``strong``.
    recovery: Annotated[
        Strategy | None,
        Option(
            "Recovery of every vertex; default: as the query declares.", _strategy, kind=_Chosen
        ),
    ]
    #: More than one means replication.
    replicas: Annotated[
        int | None,
        Option(
            "Instances of every vertex, each on its own host.", kind=int, bounds=(1, REPLICAS_MAX)
        ),
    ]
    checkpoint_interval: Annotated[
        Duration | None,
        Option(
            "Time between two checkpoints, such as 1s.",
            _interval,
            _host("checkpoint_interval_s", _US_PER_S),
            metavar="DURATION",
        ),
    ]
    checkpoint_bytes: Annotated[
        int | str | None,
        Option(
            "Bytes of input between two checkpoints, such as 64MB.",
            _size,
            _host("checkpoint_bytes_max"),
            metavar="SIZE",
        ),
    ]
    state_memory: Annotated[
        int | str | None,
        Option(
            "Memory for state per host, such as 4GB; more is spilled to disk.",
            _size,
            _host("state_memory_bytes"),
            metavar="SIZE",
        ),
    ]
    scratch: Annotated[
        str | None,
        Option(
            "Folder for spilled state, on a local disk; default: /tmp.",
            apply=_host("scratch_folder"),
            metavar="FOLDER",
        ),
    ]
    scratch_limit: Annotated[
        int | str | None,
        Option(
            "Limit of spilled state per host, such as 100GB.",
            _size,
            _host("scratch_bytes_max"),
            metavar="SIZE",
        ),
    ]
    retain: Annotated[
        Duration | None,
        Option(
            "How long to keep data that recovery no longer needs.",
            _retain,
            _job(retain_us=_kept_us),
            metavar="DURATION|all",
        ),
    ]
    retention: Annotated[
        Duration | None,
        Option(
            "How long to keep the output, or 'delivered'.",
            _retention,
            _job(
                retention_us=_kept_us, side_retention_us=lambda value: _kept_us(value) or KEEP_ALL
            ),
            metavar="DURATION|delivered|all",
        ),
    ]
    #: Overrides ``retention`` for side outputs. Default: ``retention``, if that is a duration.
    side_retention: Annotated[
        Duration | None,
        Option(
            "How long to keep late rows and dead letters.",
            _side_retention,
            _job(side_retention_us=_kept_us),
            metavar="DURATION|all",
        ),
    ]
    compact_output: Annotated[
        bool | None,
        Option(
            "Merge small output files; default: only for endless jobs that write into their root.",
            kind=bool,
            flags=("--compact-output/--no-compact-output",),
        ),
    ]
    #: The file is read once. ``resume`` reads it again only if the option is given again.
    autoscale: Annotated[
        str | dict[str, Any] | None,
        Option(
            "Rescale the job automatically by this policy (TOML); 'off' ends it.",
            recorded_policy,
            _job(autoscale=stored_policy),
            metavar="FILE|off",
        ),
    ]
    #: All channels become durable (flushed to files), from the start of the job.
    verify: Annotated[
        bool | None,
        Option(
            "Verify that items written twice are equal; slower.",
            apply=_host("verify"),
            kind=bool,
            flags=("--verify",),
        ),
    ]
    #: False: a power failure may lose data that was already reported as durable.
    fsync: Annotated[
        bool | None,
        Option(
            "Sync files to the local disk (fsync) before they count as durable.",
            apply=_host("fsync"),
            kind=bool,
            flags=("--fsync/--no-fsync",),
        ),
    ]
    #: Fixed when the job begins; by default only its own user may read the folder.
    shared_root: Annotated[
        bool | None,
        Option(
            "Let other users read the job's folder, subject to the umask.",
            apply=_job(shared_root=bool),
            kind=bool,
            flags=("--shared-root",),
        ),
    ]
    py_files: Annotated[
        Sequence[str] | None,
        Option(
            "Modules that the query imports: .py, .zip, .egg or a folder.",
            _modules,
            lambda config, value: replace(config, py_files=(*config.py_files, *value)),
            kind=list[str],
            metavar="PATH",
        ),
    ]


#: The options by name. ``applied`` applies them in this order. ``side_retention`` comes after
#: ``retention``, which sets the same limit, so its value wins.
OPTIONS: dict[str, Option] = {
    name: typing.get_args(hint)[1]
    for name, hint in typing.get_type_hints(RunOptions, include_extras=True).items()
}


def recorded(options: RunOptions) -> RunOptions:
    """Check the options and return them as ``job.json`` stores them, in JSON types only.

    Raises:
        UsageError: an option does not exist, or its value is not valid.
    """
    unknown = sorted(set(options) - OPTIONS.keys())
    if unknown:
        raise UsageError(f"there is no option {unknown[0]!r}; there are {', '.join(OPTIONS)}")
    return typing.cast(
        "RunOptions",
        {
            name: None if value is None else OPTIONS[name].check(value, name)
            for name, value in options.items()
        },
    )


def merged(before: Mapping[str, object], now: RunOptions) -> RunOptions:
    """Return the recorded options, overridden by those of this call.

    Raises:
        UsageError: an option that cannot change after the job's start has another value.
    """
    given = {name: value for name, value in now.items() if value is not None}
    if given.get("shared_root") not in (None, bool(before.get("shared_root"))):
        raise UsageError(
            "shared_root is decided when a job begins. To share the folder of this one, delete "
            "ROOT/.private and run: chmod -R a+rX ROOT"
        )
    return {**before, **given}  # type: ignore[typeddict-item]


def applied(config: JobConfig, options: RunOptions) -> JobConfig:
    """Return the configuration with these options."""
    known = recorded(options)
    for name, option in OPTIONS.items():
        value = known.get(name)
        if value is not None:
            config = option.apply(config, value)
    return config


def for_plan(config: JobConfig, options: RunOptions, plan: PhysicalPlan) -> JobConfig:
    """Return the configuration with the limits that depend on the plan.

    Other systems read an output folder that the user has named. They may mistake a compacted file
    for new rows, so such a folder is compacted only if ``compact_output`` is set.

    Raises:
        UsageError: ``retention`` keeps the output until it is delivered, but the plan has no
            delivery, or publishes the complete output into a folder.
    """
    if config.retention_us != KEEP_ALL and plan.publishing is not None:
        raise UsageError(
            f"{plan.publishing.path} is written from the complete output after the job: "
            "leave out retention=, or give to_parquet(mode='append')"
        )
    if config.retention_us == 0 and not plan.deliveries:
        raise UsageError(
            "retention='delivered' keeps the rows that a delivery still needs, and the query has "
            "no delivery: add .to_kafka(...) or another one, or set a duration such as "
            "retention='7d'"
        )
    is_compact = options.get("compact_output")
    if is_compact is None:
        sources = [v.source.spec.live for v in plan.vertices if v.source is not None]
        is_compact = any(sources) and plan.output.startswith(f"{plan.root.rstrip('/')}/")
    return replace(config, host=replace(config.host, compact_output=is_compact))


def configured(
    config: JobConfig, parallelism: Parallelism | None, hosts: int | None, paced: float | None
) -> JobConfig:
    """Return the configuration with a parallelism, a number of hosts and a pace of the input.

    Raises:
        UsageError: a number is out of its range.
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
    """Return the plan with these options. Channels of a job that has started do not change.

    Raises:
        UsageError: a vertex cannot use the recovery strategy.
    """
    plan = recovered_with(plan, options.get("recovery"), options.get("replicas"))
    return with_durable_channels(plan) if is_new and options.get("verify") else plan


def replicas_max(plan: PhysicalPlan) -> int:
    """Return the smallest possible number of hosts: the most replicas of any vertex."""
    return max(vertex.recovery.replicas for vertex in plan.vertices)


def check_hosts(plan: PhysicalPlan, hosts: int) -> None:
    """Check that every replica of a vertex can have its own host.

    Raises:
        UsageError: the job has too few hosts.
    """
    if hosts < replicas_max(plan):
        raise UsageError(
            f"replicas are on different hosts: {replicas_max(plan)} replicas need as many hosts, "
            f"there are only {hosts}; give --hosts, or ask for fewer --replicas"
        )
