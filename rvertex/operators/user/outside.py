"""Base classes of operators whose function calls outside systems per row: lookup, call_once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from rstream.items.batch import event_schema
from rvertex.errors import UnknownColumnError
from rvertex.operators.horizon import SameLifetimes
from rvertex.operators.protocol import whole
from rvertex.operators.user.answers import Answers
from rvertex.user_code.code import OnError, Poison, SkipsPoison, dead_letter_outputs
from rvertex.user_code.context import Failure
from rvertex.user_code.errors import NoLoggedValuesError, UserResultError, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rvertex.events.call_counts import CallCounts
    from rvertex.events.run import Run
    from rvertex.events.side_output import SideOutput
    from rvertex.user_code.code import UserCode
    from rvertex.user_code.context import CallPolicy, Calls, Request, ValueShell, ValueSource


class Asking(SameLifetimes):
    """Base of specifications that add the columns ``schema``, which ``function`` returns."""

    __slots__ = ()

    holds_ctis: ClassVar[bool] = False
    #: The stream method that creates it, for messages.
    verb: ClassVar[str]

    function: UserCode
    schema: pa.Schema
    policy: CallPolicy
    letters: str

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that the specification names."""
        raise NotImplementedError

    @property
    def failing(self) -> str:
        """The policy for rows without a response: the user's ``on_error``."""
        raise NotImplementedError

    @property
    def passing(self) -> OnError:
        """The policy for rows without a response, if they do not end the job."""
        return "dead_letter" if self.failing == "dead_letter" else "skip"

    def side_outputs(self, inputs: Sequence[pa.Schema]) -> tuple[SideOutput, ...]:
        """Return the dead letters, if they are kept."""
        return dead_letter_outputs(self.function, self.passing, self.letters, inputs[0])

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the input, then the declared columns.

        Raises:
            UnknownColumnError: a column that the input does not have.
        """
        (payload,) = inputs
        for name in self.read:
            if name not in payload.names:
                raise UnknownColumnError(self.verb, name, tuple(payload.names))
        return pa.schema([*payload, *self.schema])


class AskingOperator(SkipsPoison):
    """Base of the operators: handles calls, recorded values, and rows without a response."""

    def __init__(self, spec: Asking, payload: pa.Schema) -> None:
        self._asking = spec
        self._schema = event_schema(spec.output_schema([payload]))
        self._answers = Answers(spec.function.name, spec.schema)
        self._poison = Poison(spec.function, spec.passing, payload)
        self._source: ValueSource | None = None
        self._shell: ValueShell | None = None
        self._calls: Calls | None = None
        #: The number of the first row of the next step.
        self._seq = 0

    def use_values(self, source: ValueSource, shell: ValueShell) -> None:
        """Implement :class:`~rvertex.user_code.context.DrawsValues`."""
        self._source, self._shell = source, shell

    def call_counts(self) -> CallCounts:
        """Implement :class:`~rvertex.user_code.context.CallsOutside`."""
        return self._open_calls().counts()

    def process(self, ports: Sequence[Run]) -> Run:
        """Process a run and block until all responses have arrived."""
        return whole(self.process_in_pieces(ports))

    def process_in_pieces(self, ports: Sequence[Run]) -> Iterator[Run | None]:
        """Implement :class:`~rvertex.operators.protocol.EmitsInPieces`."""
        raise NotImplementedError

    def _counters(self) -> dict[str, Any]:
        """Return the part of the header that every snapshot has."""
        drawn = 0 if self._source is None else self._source.next_index
        return {"seq": self._seq, "poisoned": self._poison.count, "drawn": drawn}

    def _load_counters(self, header: dict[str, Any]) -> None:
        self._seq, self._poison.count = header["seq"], header["poisoned"]
        if self._source is not None:
            self._source.load(header["drawn"])

    def _ended(self, request: Request) -> bytes | Failure:
        """Return the response of a finished request, or its failure."""
        if request.failure is not None:
            return request.failure
        try:
            return self._answers.of(request)
        except UserResultError as error:
            line = place_of(self._asking.function.target)
            return Failure(f"UserResultError: it {error.reason}", line)

    def _answered(
        self, events: pa.RecordBatch, kept: list[int], answers: list[bytes]
    ) -> pa.RecordBatch:
        """Return the rows ``kept`` of ``events``, with their responses."""
        rows = events.take(pa.array(kept, pa.int64()))
        columns = [*rows.columns, *self._answers.table(answers).columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _passed(self, events: pa.RecordBatch, row: int, reason: str, line: str) -> bytes | None:
        """Return nulls for a row without a response, or None to skip it, as the policy states."""
        self._poison.pass_over(reason, line, self._seq + row, *values_of(events, row))
        return self._answers.null if self._asking.failing == "null" else None

    def _drawing(self) -> ValueSource:
        """Return the source of recorded values."""
        if self._source is None:
            raise NoLoggedValuesError(self._asking.verb)
        return self._source

    def _open_calls(self) -> Calls:
        """Return the running calls; start the threads on first use."""
        if self._calls is None:
            if self._shell is None:
                raise NoLoggedValuesError(self._asking.verb)
            self._calls = self._shell.calls(self._asking.function, self._asking.policy)
        return self._calls


def values_of(events: pa.RecordBatch, row: int) -> tuple[int, int, tuple[Any, ...]]:
    """Return start, end and payload of a row."""
    vs, ve, *values = (column[row].as_py() for column in events.columns)
    return vs, ve, tuple(values)
