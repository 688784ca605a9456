"""A thousand scripted hosts in front of the real job manager: what each kind of notice costs it.

Nothing runs here: the notices are those that hosts would send, in their order and with the right
fields, and are handled by :class:`jobmanager.manager.manager.JobManager` for a real plan. Costs are
processor time of this process.
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
    """What notices of one kind cost: how many, seconds, and instructions and bytes that went out.

    ``coding_s``: to decode the notice, and to encode what follows, once for each addressee.
    """

    notices: int = 0
    handling_s: float = 0.0
    coding_s: float = 0.0
    instructions: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    #: The longest that one took.
    worst_s: float = 0.0

    @property
    def us(self) -> float:
        """Microseconds of handling and coding per notice."""
        return (self.handling_s + self.coding_s) / max(1, self.notices) * 1e6


@dataclass
class Cluster:
    """The hosts of one job: they do what they are told to, and report."""

    topology: Topology
    hosts: int
    config: JobConfig = field(default_factory=JobConfig)
    costs: dict[str, Cost] = field(default_factory=dict)
    #: What the driver would have logged.
    log: list[Notice] = field(default_factory=list)
    now_us: int = 0
    rounds: int = 0

    def __post_init__(self) -> None:
        self.manager = JobManager(self.topology, self.config)

    def tell(self, notice: Notice, *, kind: str = "") -> list[Instruction]:
        """Have the job manager take a notice, as the driver does, and count what it costs."""
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
        """The job begins, every host reports, every instance starts."""
        self.tell(JobStarted(self.hosts, self.now_us))
        self._bring_up()

    def resume(self, log: list[Notice]) -> float:
        """A successor takes the log over and starts all again; seconds to learn from it."""
        data = [LOG_CODEC.encode(notice) for notice in log]
        started_s = time.process_time()
        self.manager.recall(LOG_CODEC.decode(one) for one in data)
        recalled_s = time.process_time() - started_s
        self.tell(JobResumed(self.hosts, self.now_us))
        self._bring_up()
        return recalled_s

    def report(self) -> None:
        """Every host reports once; every stream has moved on."""
        self.rounds += 1
        self.now_us += int(self.config.host_limits(self.hosts).report_interval_s * US_PER_S)
        for name, rows in self._by_host().items():
            reports = tuple(self._report_of(v, i) for v, i in rows)
            self.obey(self.tell(Progress(name, reports)))

    def checkpoint(self, vertices: int | None = None) -> None:
        """Every vertex (or the first so many) has taken a checkpoint where it stood."""
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
        """Time passes: limits are looked at, and the status is made."""
        self.now_us += int(self.config.tick_s * US_PER_S)
        self.obey(self.tell(Tick(self.now_us)))
        cost = self.costs.setdefault("status", Cost())
        started_s = time.process_time()
        status_of(self.manager, now_us=self.now_us)
        cost.notices += 1
        cost.handling_s += time.process_time() - started_s

    def lose(self, slots: range, *, kind: str) -> float:
        """Hosts die at once and others take their place; seconds of the job manager's time."""
        before_s = self.spent_s
        lost = [self.manager.hosts[slot].name for slot in slots]
        for name in lost:
            self.obey(self.tell(HostLost(name, "killed"), kind=f"HostLost, {kind}"))
        for slot in slots:
            self._ready(self.manager.hosts[slot].name)
        return self.spent_s - before_s

    @property
    def spent_s(self) -> float:
        """All that the job manager has spent on notices so far."""
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
        """Start what is to be started; findings are fed back."""
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
