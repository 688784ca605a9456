"""A thousand simulated hosts and the real job manager: the cost of each kind of notice.

Nothing runs here: the notices are those that hosts would send, in their order and with the right
fields. They are handled by :class:`jobmanager.manager.manager.JobManager` for a real plan. Costs
are processor time of this process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobmanager.config import JobConfig
from jobmanager.driver.report import status_of
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import (
    LOG_CODEC,
    Feed,
    HostLost,
    JobResumed,
    JobStarted,
    Tell,
    Tick,
    is_logged,
)
from rvertex.messages import (
    INSTRUCTION_CODEC,
    NOTICE_CODEC,
    CheckpointTaken,
    Counts,
    HostReady,
    Progress,
    StartVertex,
    VertexProgress,
    VertexStarted,
)

if TYPE_CHECKING:
    from jobmanager.state.messages import Instruction, Notice
    from jobmanager.state.records import InstanceState, VertexState
    from jobmanager.state.topology import Topology

US_PER_S = 1_000_000
#: Items that every stream gets between two reports.
STEP_ITEMS = 100


@dataclass
class Cost:
    """The cost of notices of one kind: their number, seconds, and sent instructions and bytes.

    ``coding_s``: to decode the notice, and to encode the instructions, once per receiver.
    """

    notices: int = 0
    handling_s: float = 0.0
    coding_s: float = 0.0
    instructions: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    #: The longest handling of one notice, s.
    worst_s: float = 0.0

    @property
    def us(self) -> float:
        """Return microseconds of handling and coding per notice."""
        return (self.handling_s + self.coding_s) / max(1, self.notices) * 1e6


@dataclass
class Cluster:
    """The hosts of one job, which obey instructions and send reports."""

    topology: Topology
    hosts: int
    config: JobConfig = field(default_factory=JobConfig)
    costs: dict[str, Cost] = field(default_factory=dict)
    #: The notices that the driver would have logged.
    log: list[Notice] = field(default_factory=list)
    now_us: int = 0
    rounds: int = 0

    def __post_init__(self) -> None:
        self.manager = JobManager(self.topology, self.config)

    def tell(self, notice: Notice, *, kind: str = "") -> list[Instruction]:
        """Pass a notice to the job manager, as the driver does, and measure the cost."""
        cost = self.costs.setdefault(kind or type(notice).__name__, Cost())
        started_s = time.process_time()
        data = b""
        if type(notice).__name__ in _FROM_HOSTS:
            data = NOTICE_CODEC.encode(notice)  # type: ignore[arg-type]
            started_s = time.process_time()
            NOTICE_CODEC.decode(data)
        if is_logged(notice) and not self.manager.is_stale(notice):
            self.log.append(notice)
            LOG_CODEC.encode(notice)
        decoded_s = time.process_time()
        out = self.manager.handle(notice)
        handled_s = time.process_time()
        sent = sum(len(INSTRUCTION_CODEC.encode(i.instruction)) for i in out if isinstance(i, Tell))
        ended_s = time.process_time()
        cost.notices += 1
        cost.handling_s += handled_s - decoded_s
        cost.coding_s += decoded_s - started_s + ended_s - handled_s
        cost.worst_s = max(cost.worst_s, ended_s - started_s)
        cost.instructions += sum(isinstance(i, Tell) for i in out)
        cost.bytes_in += len(data)
        cost.bytes_out += sent
        return out

    # ---- the life of a job

    def start(self) -> None:
        """Start the job: every host reports, and every instance starts."""
        self.tell(JobStarted(self.hosts, self.now_us))
        self._bring_up()

    def resume(self, log: list[Notice]) -> float:
        """Start a successor, which restarts all; return the seconds it needs to read the log."""
        data = [LOG_CODEC.encode(notice) for notice in log]
        started_s = time.process_time()
        self.manager.recall(LOG_CODEC.decode(one) for one in data)
        recalled_s = time.process_time() - started_s
        self.tell(JobResumed(self.hosts, self.now_us))
        self._bring_up()
        return recalled_s

    def report(self) -> None:
        """Let every host report once; every stream has advanced."""
        self.rounds += 1
        self.now_us += int(self.config.host_limits(self.hosts).report_interval_s * US_PER_S)
        for name, rows in self._by_host().items():
            reports = tuple(self._report_of(v, i) for v, i in rows)
            self.obey(self.tell(Progress(name, reports)))

    def checkpoint(self, vertices: int | None = None) -> None:
        """Let every vertex (or the first ones) take a checkpoint at its position."""
        rows = [v for v in self.manager.vertices.values() if v.instances]
        for vertex in rows[:vertices]:
            instance = vertex.instances[0]
            name = f"checkpoints/{vertex.shape.id}/{instance.epoch}-{self.rounds}.ckpt"
            part = f"checkpoints/{vertex.shape.id}/parts/{instance.epoch}-{self.rounds}-{'0' * 32}"
            at, outputs = instance.consumed, instance.outputs
            notice = CheckpointTaken(
                vertex.shape.id, instance.epoch, name, at, outputs, 1 << 20, at, (part,),
                self.now_us, asked=False,
            )  # fmt: skip
            self.obey(self.tell(notice))

    def tick(self) -> None:
        """Advance the time: limits are checked, and the status is built."""
        self.now_us += int(self.config.tick_s * US_PER_S)
        self.obey(self.tell(Tick(self.now_us)))
        cost = self.costs.setdefault("status", Cost())
        started_s = time.process_time()
        status_of(self.manager, now_us=self.now_us)
        cost.notices += 1
        cost.handling_s += time.process_time() - started_s

    def lose(self, slots: range, *, kind: str) -> float:
        """Kill hosts at once and replace them; return the seconds of the job manager."""
        before_s = self.spent_s
        lost = [self.manager.hosts[slot].name for slot in slots]
        for name in lost:
            self.obey(self.tell(HostLost(name, "killed"), kind=f"HostLost, {kind}"))
        for slot in slots:
            self._ready(self.manager.hosts[slot].name)
        return self.spent_s - before_s

    @property
    def spent_s(self) -> float:
        """Return the seconds that the job manager has spent on notices so far."""
        return sum(c.handling_s + c.coding_s for c in self.costs.values())

    # ---- what hosts do

    def _bring_up(self) -> None:
        for host in list(self.manager.hosts):
            self._ready(host.name)

    def _ready(self, host: str) -> None:
        slot = int(host[1:].split(".")[0])
        address = f"grpc://10.0.{slot // 256}.{slot % 256}:40000"
        self.obey(self.tell(HostReady(host, 0, 1_000 + slot, f"m{slot}", address)))

    def obey(self, instructions: list[Instruction]) -> None:
        """Obey the instructions, and send the resulting notices."""
        for instruction in instructions:
            match instruction:
                case Tell(host=host, instruction=StartVertex(vertex=vertex, epoch=epoch)):
                    instance = self.manager.job.instance(vertex, epoch)
                    if instance is not None and instance.host == host:
                        self.tell(VertexStarted(host, vertex, epoch, instance.consumed))
                case Feed(notice=notice):
                    self.obey(self.tell(notice))

    def _by_host(self) -> dict[str, list[tuple[VertexState, InstanceState]]]:
        rows: dict[str, list[tuple[VertexState, InstanceState]]] = {}
        for vertex in self.manager.vertices.values():
            for instance in vertex.instances:
                rows.setdefault(instance.host, []).append((vertex, instance))
        return rows

    def _report_of(self, vertex: VertexState, instance: InstanceState) -> VertexProgress:
        at = self.rounds * STEP_ITEMS
        return VertexProgress(
            vertex=vertex.shape.id,
            epoch=instance.epoch,
            inputs=tuple(max(at, seq) for seq in instance.consumed),
            outputs=tuple(max(at, seq) for seq in instance.outputs),
            durable=tuple(max(at, seq) for seq in instance.outputs),
            cti=self.now_us,
            max_vs=self.now_us,
            counts=Counts(at, at),
            tail_bytes=1 << 20,
        )


_FROM_HOSTS = {"HostReady", "Progress", "VertexStarted", "CheckpointTaken"}
