"""A job manager under test, with a transcript of its notices and instructions.

Golden transcripts are rewritten with ``pytest --rewrite`` and read as diffs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobmanager.config import JobConfig
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import (
    Feed,
    HostLost,
    JobResumed,
    JobStarted,
    Record,
    Tell,
    Tick,
    is_logged,
)
from rvertex.messages import (
    CheckpointTaken,
    Counts,
    HostReady,
    Progress,
    StartVertex,
    TakeCheckpoint,
    VertexFinished,
    VertexProgress,
    VertexStarted,
)
from tests.rooms import ROOT
from tests.support.shapes import chain

if TYPE_CHECKING:
    from jobmanager.state.messages import Instruction, Notice
    from jobmanager.state.records import InstanceState
    from jobmanager.state.topology import Topology
    from rvertex.vertex.spec import Durability

GOLDEN = ROOT / "tests" / "golden" / "jobmanager"
SECOND = 1_000_000


class Scene:
    """A job manager and the transcript of its notices and instructions."""

    def __init__(
        self,
        topology: Topology | None = None,
        *,
        durability: Durability = "volatile",
        hosts: int = 3,
        log: list[Notice] | None = None,
        **limits: Any,
    ) -> None:
        topology = topology or chain(durability)
        self.manager = JobManager(topology, replace(JobConfig(), **limits))
        self.lines: list[str] = []
        self.told: list[tuple[Notice, bool]] = []
        #: Whether hosts answer ``TakeCheckpoint`` at once.
        self.answers = True
        if log is not None:
            self.manager.recall(log)
        begin = JobStarted if log is None else JobResumed
        self.tell(begin(hosts, 0, self.manager.config.retain_us))

    def at(self, vertex: str) -> InstanceState:
        """The instance of a vertex with the highest position."""
        leader = self.manager.vertices[vertex].leader
        assert leader is not None
        return leader

    def tell(self, notice: Notice) -> list[Instruction]:
        self.told.append((notice, self.manager.is_stale(notice)))
        out = self.manager.handle(notice)
        self.told.extend((i.notice, False) for i in out if isinstance(i, Record))
        self.lines.append(f"> {notice}")
        self.lines.extend(f"    {i}" for i in out)
        return out

    def log(self) -> list[Notice]:
        """Return the notices that the driver would have logged."""
        return [notice for notice, is_stale in self.told if is_logged(notice) and not is_stale]

    def start_all(self) -> None:
        """Every host reports, every vertex starts."""
        for host in list(self.manager.hosts):
            self.ready(host.name)

    def ready(self, host: str) -> None:
        """A host reports and starts its vertices."""
        slot = int(host[1:].split(".")[0])
        out = self.tell(HostReady(host, 0, 1000 + slot, "m", f"grpc://{host}"))
        self.obey(out)

    def lose(self, host: str) -> list[Instruction]:
        """A host dies."""
        return self.lose_to(host, "killed")

    def lose_to(self, host: str, reason: str) -> list[Instruction]:
        """A host ends for a reason."""
        out = self.tell(HostLost(host, reason))
        self.obey(out)
        return out

    def obey(self, instructions: list[Instruction]) -> None:
        """Hosts start vertices and take checkpoints as instructed.

        Resulting notices are fed back.
        """
        for instruction in instructions:
            match instruction:
                case Tell(host=host, instruction=StartVertex(vertex=v, epoch=e)):
                    instance = self.manager.job.instance(v, e)
                    if instance is not None and instance.host == host:
                        self.obey(self.tell(VertexStarted(host, v, e, instance.consumed)))
                case Tell(instruction=TakeCheckpoint(vertex=v, epoch=e)) if self.answers:
                    self.answer(v, e)
                case Feed(notice=notice):
                    self.obey(self.tell(notice))

    def answer(self, vertex: str, epoch: int) -> None:
        """Let an instance take the requested checkpoint at its position."""
        instance = self.manager.job.instance(vertex, epoch)
        if instance is not None:
            at, outputs = instance.consumed, instance.outputs
            name = f"{vertex}-{epoch}-{at[0]}"
            notice = CheckpointTaken(vertex, epoch, name, at, outputs, 100, at, (), 0, asked=True)
            is_last = self.manager.state == "stopping"
            self.obey(self.tell(replace(notice, is_last=is_last)))

    def progress(
        self,
        vertex: str,
        consumed: int,
        written: int,
        *,
        epoch: int = 0,
        cti: int = 0,
        durable: int = 0,
    ) -> list[Instruction]:
        """Let an instance (by default the one with the highest position) report its progress."""
        instance = self.manager.job.instance(vertex, epoch) or self.at(vertex)
        at = ((consumed,), (written,) * len(instance.outputs))
        row = VertexProgress(
            vertex, instance.epoch, *at, (durable,), cti, 0, Counts(consumed, written), 0
        )
        out = self.tell(Progress(instance.host, (row,)))
        self.obey(out)
        return out

    def checkpoint(
        self, vertex: str, name: str, consumed: int, written: int, *, epoch: int = 0
    ) -> list[Instruction]:
        return self.tell(taken(vertex, epoch or self.at(vertex).epoch, name, consumed, written))

    def finish(
        self, vertex: str, consumed: int, written: int, *, epoch: int = 0
    ) -> list[Instruction]:
        epoch = epoch or self.at(vertex).epoch
        digests = (b"d" * 16,)
        return self.tell(
            VertexFinished(
                vertex, epoch, (consumed,), (written,), digests, Counts(consumed, written)
            )
        )

    def pass_time(self, now_s: float) -> list[Instruction]:
        """Tick, and feed back the resulting notices, as the driver does."""
        out = self.tell(Tick(int(now_s * SECOND)))
        self.obey(out)
        return out

    def instances(self, vertex: str) -> list[tuple[int, str]]:
        """The instances of a vertex: epoch and host."""
        rows = self.manager.vertices[vertex].instances
        return [(i.epoch, self.manager.hosts[i.slot].name) for i in rows]

    def check(self, name: str, *, rewrite: bool) -> None:
        """Compare the transcript with the golden one."""
        path = GOLDEN / f"{name}.txt"
        text = "\n".join(self.lines) + "\n"
        if rewrite:
            path.write_text(text)
        assert path.read_text() == text, f"run pytest --rewrite and read the diff of {path.name}"


def taken(vertex: str, epoch: int, name: str, consumed: int, written: int) -> CheckpointTaken:
    """A checkpoint of a vertex with one input and one output."""
    at = (consumed,)
    return CheckpointTaken(vertex, epoch, name, at, (written,), 100, at, (), 0, asked=False)


def started(out: list[Instruction]) -> list[tuple[str, str]]:
    """The vertices that were started, and their checkpoints."""
    return [
        (i.instruction.vertex, i.instruction.checkpoint)
        for i in out
        if isinstance(i, Tell) and isinstance(i.instruction, StartVertex)
    ]
