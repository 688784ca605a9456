"""The limits of a job: every wait, retry and interval has a name, a unit and a default."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from rstream.limits import MIB
from rvertex.host.environment import HostLimits
from rvertex.sinks.limits import DeliveryLimits

if TYPE_CHECKING:
    from planner.cost.parallelism import Parallelism
    from planner.cost.policy import Policy

#: The value of ``retain_us`` for a job that deletes no data.
KEEP_ALL = -1
#: The module of the process from which Spark forks its Python workers.
SPARK_DAEMON = "jobmanager.spark_daemon"
AtEnd = Literal["wait", "stop", "finish"]


@dataclass(frozen=True, slots=True)
class JobConfig:
    """Frozen for the life of a job manager. A resumed job may have another configuration."""

    #: Vertices per keyed stage. It is part of the plan: another number changes the order of output
    #: rows. "auto": the cost model chooses a number per stage, from the data and hints alone.
    parallelism: Parallelism = 2
    #: Number of hosts to start. None: the executor chooses it.
    hosts: int | None = None
    #: Absolute paths of the user's modules, which hosts import.
    py_files: tuple[str, ...] = ()
    #: Whether other users may read the job's folder, subject to the umask.
    shared_root: bool = False
    #: When stages are rescaled without a request. None: never.
    autoscale: Policy | None = None
    #: Seconds between two ticks. At a tick the job manager checks limits and writes the status
    #: file.
    tick_s: float = 0.25
    #: Most seconds from the order to start a host until its first report.
    host_start_wait_s: float = 90.0
    #: A host without a report for this time, s, counts as lost. If its connection breaks, it counts
    #: as lost at once.
    host_silence_s: float = 30.0
    #: If no vertex makes progress for this time, s, the job fails with a diagnosis. A job with a
    #: live source is exempt, because the source may have no rows.
    stall_wait_s: float = 600.0
    #: A longer poll of one vertex, s, fails the job, with an error that names the operator.
    step_wait_s: float = 600.0
    #: Only restarts, failures and losses of the last ``restart_window_s`` seconds count against
    #: their limits, because an endless job has some of each.
    restart_window_s: float = 600.0
    #: Most restarts of one vertex without progress between them, within ``restart_window_s``.
    vertex_restarts_max: int = 10
    #: Most restarts of one vertex for its own failure (an unreadable file, a failed store).
    vertex_failures_max: int = 3
    #: Pause before the restart after a vertex's second own failure, s. Each further failure doubles
    #: it.
    restart_pause_s: float = 0.5
    restart_pause_max_s: float = 10.0
    #: Most losses of one slot's hosts without progress in between, within ``restart_window_s``.
    host_restarts_max: int = 10
    #: An instance is a straggler if the median CTI (watermark) of its siblings passed its own CTI
    #: more than this many seconds ago.
    straggler_after_s: float = 10.0
    #: Most twins at a time, for stragglers and for instances on drained hosts.
    twins_max: int = 4
    #: A straggler's twin stops if it has not caught up with the straggler after this time, s.
    twin_wait_s: float = 60.0
    #: A request for a checkpoint of an instance is repeated after this time, s.
    join_wait_s: float = 30.0
    #: How long obsolete checkpoints and channels are kept, us; KEEP_ALL: forever.
    retain_us: int = 0
    #: Greatest age of output rows and of side outputs (late rows, dead letters), us. 0: rows are
    #: deleted once all deliveries have them. KEEP_ALL: no row is deleted.
    retention_us: int = KEEP_ALL
    side_retention_us: int = KEEP_ALL
    #: Seconds between two checks of retention for deletable rows.
    retention_look_s: float = 2.0
    #: For outputs whose rows begin and end: the fewest new items after which retention copies the
    #: live rows again. Then it may delete the items below the copy.
    table_copy_items_min: int = 1 << 14
    #: Retention ignores a delivery of another process that has not reported its position for this
    #: time, s.
    reader_wait_s: float = 7 * 86_400.0
    #: Most seconds that a stopping job waits for its last checkpoints. Then it stops without them.
    stop_wait_s: float = 60.0
    #: A day of a continued job ends if no vertex makes progress for this time, s.
    stop_lag_s: float = 2.0
    #: What a job does after the last row of its live logs: wait for more rows, stop and keep its
    #: state, or end the logs and finish.
    at_end: AtEnd = "wait"
    #: Most seconds for hosts to shut down when a job ends.
    host_stop_wait_s: float = 60.0
    #: Most seconds without a reachable store. Then the job manager fails.
    store_wait_s: float = 300.0
    #: Pause before an unreachable root is tried again, s. Each failure doubles it.
    store_pause_s: float = 0.25
    store_pause_max_s: float = 5.0
    #: Most seconds until the job manager's own notices are durable.
    notice_flush_wait_s: float = 30.0
    #: Most notices in the log, and most bytes of them. Then the log starts again from a copy of the
    #: job's state.
    log_notices_max: int = 1_000
    log_bytes_max: int = 4 * MIB
    host: HostLimits = field(default_factory=HostLimits)
    #: Limits of each partition of a delivery.
    delivery: DeliveryLimits = field(default_factory=DeliveryLimits)
    #: Most reports per second of all hosts together. With many hosts, each reports less often.
    reports_per_s_max: float = 1_000.0
    #: Most vertices and hosts written to status files per second. With many of them, the job writes
    #: its status less often.
    status_rows_per_s_max: float = 8_000.0

    def until_end(self, at_end: AtEnd) -> JobConfig:
        """Return a copy for a job that does ``at_end`` at the current ends of its logs."""
        host = replace(self.host, until_end=at_end != "wait")
        return replace(self, at_end=at_end, host=host)

    def host_limits(self, hosts: int) -> HostLimits:
        """Return the limits of one host, in a job with this number of hosts."""
        interval_s = max(self.host.report_interval_s, hosts / self.reports_per_s_max)
        return replace(self.host, report_interval_s=interval_s, job_hosts=hosts)
