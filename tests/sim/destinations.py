"""A simulated destination: its surviving contents, and the handles of delivering processes.

A handle sends each call as a message and waits for the answer. Either may be lost or late, the
destination may be slow or unreachable, and the process may die or be suspended before the message
leaves, while it is in transit, or after the answer arrived. Rows and progress become visible
atomically. One kind stores the epoch of its opener, as PostgreSQL does; another only fences earlier
writers, as Kafka does. The real destinations that need only a store run here: a function, and a
folder of Parquet files.

Laws: see :mod:`tests.sim.delivery_laws`, which gets every open, commit and call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from rstream.errors import StoreError
from rvertex.sinks.errors import DeliveryFencedError, DeliveryUnknownError, DestinationError
from rvertex.sinks.function import FunctionDestination
from rvertex.sinks.kafka.records import RecordEncoder
from rvertex.sinks.parquet import ParquetDestination
from rvertex.sinks.spec import ParquetSink, SinkSpec
from streamscope.testing.simulation.scheduler import CrashedError
from streamscope.testing.simulation.storage import FaultyBlobs
from tests.sim.topic_laws import TopicSink

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress, Destination
    from rvertex.sinks.spec import DeliveryPlace
    from streamscope.testing.simulation.scheduler import Process, Scheduler
    from streamscope.testing.simulation.storage import Disk
    from tests.sim.delivery_laws import DeliveryLaws
    from tests.sim.strands import Strands

Kind = Literal["epochs", "sessions", "function", "parquet"]
#: The time limit of a call.
CALL_S = 4.0
#: The time until an absent destination rejects a call.
REFUSAL_S = 0.5
FOLDER = "delivered/"


@dataclass(frozen=True, slots=True)
class SimSink(SinkSpec):
    """The spec of a simulated destination."""

    name: str = ""
    kind: Kind = "epochs"

    @property
    def label(self) -> str:
        return self.name

    def check(self, schema: pa.Schema) -> None:
        """Accept all rows."""


#: AnySink = SimSink|The kinds of destinations.
AnySink = SimSink | TopicSink


@dataclass
class Shelf:
    """The destination's data for one partition of a delivery."""

    progress: DeliveryProgress | None = None
    #: The greatest epoch that has opened.
    epoch: int = 0
    #: The number of the last opener.
    session: int = 0


@dataclass(frozen=True)
class Strike:
    """A fault that hits a process in one of its next calls, and its moment in the call."""

    calls: int
    #: "before" the message leaves, "between" message and answer, "after" the answer arrived.
    when: str
    #: How long it sleeps; 0: it dies.
    asleep_s: float = 0.0


@dataclass
class Destinations:
    """The external destinations, which survive all of our processes."""

    world: Scheduler
    strands: Strands
    disk: Disk
    laws: DeliveryLaws
    shelves: dict[tuple[str, int], Shelf] = field(default_factory=dict)
    #: The longest delay of a message, s.
    delay_s: float = 0.005
    #: The share of messages and answers that are lost now.
    loss: float = 0.0
    is_away: bool = False
    strikes: dict[str, Strike] = field(default_factory=dict)

    def open(self, process: Process, sink: AnySink, place: DeliveryPlace) -> Destination:
        """Return a handle for one partition, as ``jobmanager.delivery.wiring`` requires."""
        if sink.kind == "function":
            function = partial(self._called, process, place)
            return FunctionDestination(function, sink.name, place)
        if sink.kind == "parquet":
            folder = f"{FOLDER}{sink.name}"
            store = LossyBlobs(self.disk, process, f"{folder}/")
            store.there = self
            return ParquetDestination(ParquetSink(folder), place, store)
        if isinstance(sink, TopicSink):
            return SimTopic(self, process, sink, place)
        return SimDestination(self, process, sink, place)

    def shelf(self, place: DeliveryPlace) -> Shelf:
        return self.shelves.setdefault((place.delivery, place.partition), Shelf())

    def _called(self, process: Process, place: DeliveryPlace, first_seq: int, batch: Any) -> None:
        """Simulate the user's function: slow, and sometimes raising before or after its work."""
        self.befall(process, "before")
        if self.is_away or self.world.chance(self.loss):
            raise ConnectionError("the function fails")
        self.strands.sleep(self.world.between(0.0, self.delay_s))
        self.laws.was_called((place.delivery, place.partition), first_seq, batch)
        self.befall(process, "between")
        if self.world.chance(self.loss):
            raise ConnectionError("the function fails after its work")
        self.befall(process, "after")

    def befall(self, process: Process, when: str) -> None:
        """Let the process die or sleep if a planned fault is due at this moment of the call."""
        strike = self.strikes.get(process.name)
        if strike is None or strike.when != when:
            return
        if strike.calls > 0:
            left = Strike(strike.calls - 1, when, strike.asleep_s)
            self.strikes[process.name] = left
            return
        del self.strikes[process.name]
        self.world.met[f"delivery: {'sleeps' if strike.asleep_s else 'dies'} {when} a call"] += 1
        if strike.asleep_s:
            process.pause(self.world.now_s + strike.asleep_s)
            self.strands.sleep(0.0)
        else:
            process.kill(f"killed {when} a call of its destination")
            raise CrashedError


class LossyBlobs(FaultyBlobs):
    """A folder at the destination; the answer to a put may be lost."""

    there: Destinations

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self._leave(path)
        super().put(path, data)
        self._arrive(path)

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        self._leave(path)
        is_new = super().put_new(path, data)
        self._arrive(path)
        return is_new

    def _leave(self, path: str) -> None:
        self.there.befall(self._process, "before")
        if self.there.is_away or self.there.world.chance(self.there.loss):
            raise StoreError(path, "it cannot be reached")

    def _arrive(self, path: str) -> None:
        self.there.befall(self._process, "between")
        if self.there.world.chance(self.there.loss):
            raise StoreError(path, "no answer")
        self.there.befall(self._process, "after")


class SimDestination:
    """A handle of one process; its interface is :class:`rvertex.sinks.protocol.Destination`."""

    def __init__(
        self, there: Destinations, process: Process, sink: AnySink, place: DeliveryPlace
    ) -> None:
        self._there, self._world, self._process = there, there.world, process
        self._sink, self._place = sink, place
        self._key = place.delivery, place.partition
        self._epoch = self._session = 0
        self._rows: list[DeliveredRows] = []

    def open(self, epoch: int) -> DeliveryProgress | None:
        self.close()
        self._epoch = epoch
        name = self._process.name
        answer = self._call("open", partial(self._take_open, epoch, name), DestinationError)
        self._session, progress = answer
        return progress

    def write(self, rows: DeliveredRows) -> None:
        self._check_open()
        self._there.befall(self._process, "before")
        self._rows.append(rows)
        self._there.befall(self._process, "after")

    def commit(self, progress: DeliveryProgress) -> None:
        self._check_open()
        session, rows = self._session, self._rows
        self.close()
        take = partial(self._take_commit, session, self._epoch, tuple(rows), progress)
        self._call("commit", take, DeliveryUnknownError)
        self._session = session

    def close(self) -> None:
        self._session, self._rows = 0, []

    def _check_open(self) -> None:
        if not self._session:
            raise DestinationError(self._sink.name, "it is not open")

    def _call(self, name: str, effect: Callable[[], Any], lost: type[Exception]) -> Any:
        """Send a message, apply it there, and wait for the answer."""
        there, world, process = self._there, self._world, self._process
        there.befall(process, "before")
        if there.is_away:
            there.strands.sleep(world.between(0.0, REFUSAL_S))
            raise DestinationError(self._sink.name, "nobody answers")
        caller, answers = there.strands.current, list[Any]()
        assert caller is not None

        def arrive() -> None:
            found = effect()
            if world.chance(there.loss):
                world.met[f"delivery: an answer to {name} is lost"] += 1
                return
            back_s = world.between(0.0, there.delay_s)
            world.after(back_s, process, lambda: (answers.append(found), caller.wake()))

        if world.chance(there.loss):
            world.met[f"delivery: a call of {name} is lost"] += 1
        else:
            world.after(world.between(0.0, there.delay_s), None, arrive)
        ends_s = world.now_s + CALL_S
        there.befall(process, "between")
        while not answers and world.now_s < ends_s:
            there.strands.sleep(ends_s - world.now_s)
        if not answers:
            world.met[f"delivery: no answer to {name}"] += 1
            raise lost(self._sink.name, f"no answer to {name}")
        if isinstance(answers[0], Exception):
            raise answers[0]
        there.befall(process, "after")
        return answers[0]

    # ---- what happens there

    def _take_open(self, epoch: int, writer: str) -> Any:
        shelf = self._there.shelf(self._place)
        if self._sink.kind == "epochs" and epoch < shelf.epoch:
            return DeliveryFencedError(self._sink.name, epoch)
        self._there.laws.was_opened(self._key, epoch, writer)
        shelf.epoch = max(shelf.epoch, epoch)
        shelf.session += 1
        return shelf.session, shelf.progress

    def _take_commit(
        self, session: int, epoch: int, rows: tuple[DeliveredRows, ...], progress: DeliveryProgress
    ) -> Any:
        shelf = self._there.shelf(self._place)
        if session != shelf.session:
            return DeliveryFencedError(self._sink.name, epoch)
        self._there.laws.was_committed(self._key, epoch, shelf.progress, rows, progress)
        shelf.progress = progress
        return None


class SimTopic(SimDestination):
    """A topic whose readers keep rows by key; production code makes the records."""

    def __init__(
        self, there: Destinations, process: Process, sink: TopicSink, place: DeliveryPlace
    ) -> None:
        super().__init__(there, process, sink, place)
        self._encoder = RecordEncoder(sink, place.schema, place.end)

    def _take_commit(
        self, session: int, epoch: int, rows: tuple[DeliveredRows, ...], progress: DeliveryProgress
    ) -> Any:
        refused = super()._take_commit(session, epoch, rows, progress)
        if refused is None:
            records = [record for part in rows for record in self._encoder.of(part)]
            self._there.laws.topic(self._key).take(records, progress.next_seq)
        return refused
