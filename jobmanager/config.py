"""The limits of a job: every wait, retry and interval has a name, a unit and a default."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from rstream.limits import MIB
from rvertex.host.environment import HostLimits
from rvertex.sinks.limits import DeliveryLimits

if TYPE_CHECKING:
    from planner.cost.parallelism import Parallelism

#: ``retain_us`` of a job that deletes nothing.
KEEP_ALL = -1
#: What Spark runs to fork Python workers from.
SPARK_DAEMON = "jobmanager.spark_daemon"
AtEnd = Literal["wait", "stop", "finish"]


@dataclass(frozen=True, slots=True)
class JobConfig:
    """Frozen for the life of a job manager; a resumed job may be given another one."""

    #: Vertices per keyed stage. Part of the plan: another number gives another output sequence.
    #: "auto": per stage what the cost model recommends, from the data and hints alone.
    parallelism: Parallelism = 2
    #: Hosts to start; None: what the executor suggests.
    hosts: int | None = None
    #: Modules of the user that hosts import: absolute paths.
    py_files: tuple[str, ...] = ()
    #: Other users may read the job's folder, as the umask says.
    shared_root: bool = False
    #: How often the job manager looks at its limits and writes the status file.
    tick_s: float = 0.25
    #: From the order to start a host until it reports.
    host_start_wait_s: float = 90.0
    #: A host that is silent this long counts as lost (a broken link is noticed at once).
    host_silence_s: float = 30.0
    #: No vertex of the job gets further for this long: the job fails with a diagnosis. Not if it
    #: has a live source, which may have nothing to read.
    stall_wait_s: float = 600.0
    #: A poll of a vertex that lasts longer fails the job, with an error that names the operator.
    step_wait_s: float = 600.0
    #: For so long restarts, failures and losses count against their limits: a job that runs for
    #: ever has some of each.
    restart_window_s: float = 600.0
    #: Restarts of one vertex without progress between them, within ``restart_window_s``.
    vertex_restarts_max: int = 10
    #: Restarts of one vertex that failed by itself (an unreadable file, a store that gave up).
    vertex_failures_max: int = 3
    #: Pause after the second failure of one vertex by itself; it doubles with each further one.
    restart_pause_s: float = 0.5
    restart_pause_max_s: float = 10.0
    #: Losses of one slot's hosts without progress between them, within ``restart_window_s``.
    host_restarts_max: int = 10
    #: The siblings' median CTI passed that of an instance this long ago: it is a straggler.
    straggler_after_s: float = 10.0
    #: Twins at a time, of stragglers and of instances on hosts that are drained.
    twins_max: int = 4
    #: A straggler's twin that is not level by then is retired itself.
    twin_wait_s: float = 60.0
    #: For a checkpoint that an instance was asked for, before it is asked again.
    join_wait_s: float = 30.0
    #: Checkpoints and channels are kept this long after they became obsolete, us; or KEEP_ALL.
    retain_us: int = 0
    #: Of the output and of side outputs (late rows, dead letters) is kept what was written so long
    #: ago at most, us; 0: what no delivery needs any more is not kept; or KEEP_ALL.
    retention_us: int = KEEP_ALL
    side_retention_us: int = KEEP_ALL
    #: How often it is looked what of them may go.
    retention_look_s: float = 2.0
    #: Of rows that begin and end: new items before the living rows are copied and items may go.
    table_copy_items_min: int = 1 << 14
    #: A delivery of another process that has not told its position for so long counts as given up.
    reader_wait_s: float = 7 * 86_400.0
    #: For the last checkpoints of a job that is to stop; then it stops without them.
    stop_wait_s: float = 60.0
    #: A day of a continued job is over if no vertex gets further for this time.
    stop_lag_s: float = 2.0
    #: What a job does when it has worked up all that its live logs held: it waits for more, or it
    #: stops with its state kept, or it ends them.
    at_end: AtEnd = "wait"
    #: For hosts to leave when a job ends.
    host_stop_wait_s: float = 60.0
    #: For a store that cannot be reached, before the job manager gives up.
    store_wait_s: float = 300.0
    #: Pause before a root that cannot be reached is tried again; it doubles with each failure.
    store_pause_s: float = 0.25
    store_pause_max_s: float = 5.0
    #: Longest wait for the job manager's own notices to become durable.
    notice_flush_wait_s: float = 30.0
    #: Notices, and their bytes, after which the log is begun anew from a copy of the job's state.
    log_notices_max: int = 1_000
    log_bytes_max: int = 4 * MIB
    host: HostLimits = field(default_factory=HostLimits)
    #: Of each partition of a delivery.
    delivery: DeliveryLimits = field(default_factory=DeliveryLimits)
    #: Reports of all hosts together: where they are many, each reports less often.
    reports_per_s_max: float = 1_000.0
    #: Vertices and hosts that are written into statuses: where they are many, less often.
    status_rows_per_s_max: float = 8_000.0

    def until_end(self, at_end: AtEnd) -> JobConfig:
        """The same, for a job that works up what is there and then does this."""
        host = replace(self.host, until_end=at_end != "wait")
        return replace(self, at_end=at_end, host=host)

    def host_limits(self, hosts: int) -> HostLimits:
        """The limits of each of so many hosts."""
        interval_s = max(self.host.report_interval_s, hosts / self.reports_per_s_max)
        return replace(self.host, report_interval_s=interval_s, job_hosts=hosts)
