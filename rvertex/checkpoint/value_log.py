"""The log of recorded values: values that user code draws become durable before they have effects.

All operators of a vertex whose user code has a context draw values (time, random numbers) from one
:class:`ValueLog`, each from its own source. The values of a step become one entry of the journal
``values/<vertex>``. The entry's number is the count of values that the vertex had drawn before.
After a restart the log reads the entries from the snapshot's count on and returns their values
again.

Invariants: (1) a step's values are durable before its outputs are written; (2) an entry starts
where the previous one ends. The input determines the count of values, so all instances start
entries at the same numbers, and the first instance to create an entry owns it; (3) an entry is
named by, and so deleted with, the first checkpoint at or past its end; the newest entry is never
named. Source: MillWheel VLDB'13, "strong productions"; StreamScope NSDI'16 has no such values.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import TYPE_CHECKING

import msgpack

from rvertex.checkpoint.calls import ThreadedCalls
from rvertex.checkpoint.journal import VALUES, Journal
from rvertex.errors import CorruptJournalError
from rvertex.operators.user.call_once import CallOnce
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.operators.user.lookup import Lookup
from rvertex.operators.user.transform import UserOperator
from rvertex.user_code.context import Drawn, ValueJournal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from rstream.clock import Clock
    from rstream.log.background import Background
    from rstream.store.protocol import BlobStore
    from rvertex.operators.protocol import OperatorSpec
    from rvertex.user_code.code import UserCode
    from rvertex.user_code.context import CallPolicy, Calls, DrawsValues, ValueShell
    from rvertex.vertex.spec import Snapshot, VertexSpec

#: For each operator with a context: the number of its first value, and the values.
Entry = list[tuple[int, list[Drawn]]]


class World:
    """The real sources of values: a clock, and the system's random generator."""

    def __init__(self, clock: Clock, wake: Callable[[], None] | None = None) -> None:
        """Draw from ``clock``.

        ``wake`` is called when a call has ended; without it, operators block.
        """
        self._clock, self._wake = clock, wake
        self._random = random.SystemRandom()

    def unknown_calls(self) -> str:
        """Implement :class:`~rvertex.user_code.context.ValueShell`."""
        policy = os.environ.get("STREAMSCOPE_UNKNOWN_CALLS", "")
        return policy if policy in ("skip", "retry") else ""

    def calls(self, code: UserCode, policy: CallPolicy) -> Calls:
        """Implement :class:`~rvertex.user_code.context.ValueShell`."""
        return ThreadedCalls(code, policy, self._clock, self._wake)

    def now_us(self) -> int:
        """Implement :class:`~rvertex.user_code.context.ValueShell`."""
        return self._clock.now_us()

    def random(self) -> float:
        """Implement :class:`~rvertex.user_code.context.ValueShell`."""
        return self._random.random()


def has_context(operator: OperatorSpec) -> bool:
    """Return whether an operator's user code has a context, so that it may draw values."""
    return isinstance(operator, KeyedProcessing | UserOperator | Lookup | CallOnce)


def draws_values(operator: OperatorSpec) -> bool:
    """Return whether an operator's user code draws values, according to its bytecode."""
    match operator:
        case KeyedProcessing(process=code) | UserOperator(code=code):
            return code.draws_values
        case Lookup() | CallOnce():
            return True
        case _:
            return False


class ValueLog:
    """The value sources of one instance, and their entries. Used by the host's thread."""

    def __init__(
        self,
        shell: ValueShell,
        sources: dict[int, ValueJournal],
        journal: Journal | None,
        numbers: Sequence[int] = (),
    ) -> None:
        """Continue after the entries ``numbers``.

        Without a journal, values are not made durable.
        """
        self._shell = shell
        self._sources = sources
        self._journal = journal
        #: Entries that no announced checkpoint of this instance has named.
        self._unnamed = list(numbers)

    def wire(self, index: int, operator: DrawsValues) -> None:
        """Connect operator number ``index`` to its value source."""
        operator.use_values(self._sources[index], self._shell)

    def hold(self, background: Background) -> Future[str] | None:
        """Store the values drawn in the last step. Return None if there were none."""
        entry: Entry = []
        for source in self._sources.values():
            first, values = source.take_fresh()
            entry.append((first, list(values)))
            source.forget(source.next_index)
        journal = self._journal
        if journal is None or not any(values for _, values in entry):
            return None
        number = sum(first for first, _ in entry)
        data = _encode(entry)
        self._unnamed.append(number)
        return background.submit(lambda: journal.append(number, data))

    def names(self) -> tuple[str, ...]:
        """Return the entries that end below the sources' positions, except the newest entry."""
        if self._journal is None:
            return ()
        here = sum(source.next_index for source in self._sources.values())
        ended = (n for n, end in itertools.pairwise(self._unnamed) if end <= here)
        return tuple(self._journal.name(number) for number in ended)

    def announced(self, names: Sequence[str]) -> None:
        """Record that a checkpoint with these entries was announced."""
        del self._unnamed[: len(names)]


def open_values(
    spec: VertexSpec, snapshot: Snapshot | None, store: BlobStore, shell: ValueShell
) -> ValueLog | None:
    """Open the values of an instance that starts at a snapshot; None: the instance draws none.

    Raises:
        CorruptJournalError: recorded values are damaged or missing.
    """
    drawing = [k for k, operator in enumerate(spec.operators) if has_context(operator)]
    if not drawing or spec.recovery.strategy not in ("checkpoint", "strong"):
        return None
    states = None if snapshot is None else snapshot.states[1:]
    drawn = {k: 0 if states is None else int(states[k].header["drawn"]) for k in drawing}
    # productions contain state and output, so recorded values are not needed
    if spec.recovery.strategy == "strong":
        return ValueLog(shell, {k: ValueJournal(first_index=n) for k, n in drawn.items()}, None)
    journal = Journal(store, f"{VALUES}/{spec.id}")
    numbers = journal.numbers()
    entries = _read(journal, numbers, sum(drawn.values()), len(drawing))
    sources = {}
    for at, k in enumerate(drawing):
        first = entries[0][at][0] if entries else drawn[k]
        recorded = [value for entry in entries for value in entry[at][1]]
        sources[k] = ValueJournal(recorded, first_index=first)
    return ValueLog(shell, sources, journal, numbers)


def _read(journal: Journal, numbers: Sequence[int], drawn: int, count: int) -> list[Entry]:
    """Return the entries from the entry that begins or ends at value ``drawn`` on."""
    start = max((number for number in numbers if number <= drawn), default=0)
    needed = [number for number in numbers if number >= start]
    following = start
    entries: list[Entry] = []
    for number, data in zip(needed, journal.read(needed), strict=True):
        entry = _decode(data)
        if number != following or len(entry) != count:
            raise CorruptJournalError(journal.name(following), f"the next entry is {number}")
        following += sum(len(values) for _, values in entry)
        entries.append(entry)
    if following < drawn:
        raise CorruptJournalError(journal.name(following), "the file is gone")
    return entries


def _encode(entry: Entry) -> bytes:
    rows = [[first, [[v.kind, v.argument, v.value] for v in values]] for first, values in entry]
    return msgpack.packb(rows)  # type: ignore[no-any-return]


def _decode(data: bytes) -> Entry:
    rows = msgpack.unpackb(data, strict_map_key=False)
    return [(first, [Drawn(*value[:3]) for value in values]) for first, values, *_ in rows]
