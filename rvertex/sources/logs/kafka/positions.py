"""Determines, during planning, at which offsets a job starts to read a topic and where it ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rvertex.sources.logs.errors import (
    InvalidPositionsError,
    LogNotFoundError,
    LogRefusedError,
    LogUnreachableError,
)
from rvertex.sources.logs.kafka.client import NO_ID, Client, Failure
from rvertex.sources.logs.kafka.options import resolved, topic_of
from rvertex.sources.spec import Topic, TopicPlace, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.logs.kafka.client import Pending
    from rvertex.sources.spec import SourceSpec

#: Longest wait for brokers during planning, s.
PLAN_S_MAX = 15.0
#: Longest wait of a resumed job for the number of partitions, s. It needs the number to detect
#: added partitions.
ADDED_S_MAX = 3.0
_POLL_S = 0.05
_US_PER_MS = 1_000


def topic_units(spec: SourceSpec) -> tuple[Unit, ...]:
    """Return a unit for each partition of the topic, with its start and end offset.

    Raises:
        LogNotFoundError, LogRefusedError, LogUnreachableError: naming the topic.
        InvalidPositionsError: ``start`` or ``until`` is not a position of the topic.
    """
    with _client(spec) as client:
        client.consumer().close()  # the library checks options only when it opens a consumer
        planner = _Planner(spec, client)
        topic = planner.ask(client.request_topic)[0]
        partitions = sorted(partition.id for partition in topic.partitions)
        kind = _topic(spec)
        starts = planner.positions("start", kind.start, partitions)
        planner.check(starts, partitions)
        ends = None if kind.until is None else planner.positions("until", kind.until, partitions)
    topic_id = str(topic.topic_id)
    return tuple(
        Unit(
            spec.path,
            stream=p,
            first_seq=starts[p],
            until=None if ends is None else max(starts[p], ends[p]),
            log_id="" if topic_id == NO_ID else topic_id,
            log_partitions=len(partitions),
        )
        for p in partitions
    )


def added_units(spec: SourceSpec, known: Sequence[Unit]) -> tuple[Unit, ...]:
    """Return a unit for each partition that was added to the topic after ``known`` was planned.

    An added partition is read from its first record, because it did not exist at the job's start.

    Raises:
        LogNotFoundError, LogRefusedError, LogUnreachableError: naming the topic.
    """
    with _client(spec) as client:
        topic = _Planner(spec, client, ADDED_S_MAX).ask(client.request_topic)[0]
    topic_id, had = str(topic.topic_id), {unit.log_id for unit in known}
    if had != {"" if topic_id == NO_ID else topic_id}:
        return ()  # it is a new topic of the same name; the reader reports the error
    partitions = sorted({partition.id for partition in topic.partitions})
    log_id, planned = had.pop(), {unit.stream for unit in known}
    return tuple(
        Unit(spec.path, stream=p, log_id=log_id, log_partitions=len(partitions))
        for p in partitions
        if p not in planned
    )


def ends_of(spec: SourceSpec, partitions: Sequence[int]) -> dict[int, int]:
    """Return the current end offset of each partition, for readers of committed records.

    Raises:
        LogNotFoundError, LogRefusedError, LogUnreachableError: naming the topic.
    """
    with _client(spec) as client:
        ends = _Planner(spec, client, ADDED_S_MAX).ask(client.request_offsets, partitions, "latest")
    return {p: int(answer.offset) for p, answer in ends.items()}


def _topic(spec: SourceSpec) -> Topic:
    assert isinstance(spec.kind, Topic), spec.kind
    return spec.kind


def _client(spec: SourceSpec) -> Client:
    return Client(topic_of(spec), resolved(dict(_topic(spec).config)))


class _Planner:
    """Sends requests to the brokers of one source, within the time that planning may take."""

    def __init__(self, spec: SourceSpec, client: Client, wait_s: float | None = None) -> None:
        self.client = client
        self._name = spec.shown or spec.path
        self._wait_s = PLAN_S_MAX if wait_s is None else wait_s
        self._deadline_s = time.monotonic() + self._wait_s

    def ask(self, question: Any, *given: Any) -> dict[int, Any]:
        """Return the responses; retry while brokers are unreachable."""
        while True:  # ends at the deadline
            answers = self._answers(question(*given))
            if not isinstance(answers, Failure):
                return answers
            if answers.is_missing:
                raise LogNotFoundError(self._name, "there is no such topic")
            refusal = answers if answers.is_refused else self.client.refusal
            if refusal is not None:
                raise LogRefusedError(self._name, refusal.reason)
            if time.monotonic() > self._deadline_s:
                reason = self.client.trouble or answers.reason
                raise LogUnreachableError(
                    f"Kafka at {self.client.servers}",
                    f"no answer within {self._wait_s:g} s ({reason})",
                )

    def _answers(self, pending: Pending) -> dict[int, Any] | Failure:
        while not pending.done() and time.monotonic() <= self._deadline_s:
            self.client.poll()
            time.sleep(_POLL_S / 10 if self._is_young() else _POLL_S)
        return pending.answers(0)

    def _is_young(self) -> bool:
        """Return whether less than a second has passed, during which polls are more frequent."""
        return self._deadline_s - time.monotonic() > self._wait_s - 1

    def positions(self, role: str, place: TopicPlace, partitions: list[int]) -> dict[int, int]:
        """Return an offset for each partition."""
        if isinstance(place, str):
            return self._offsets(partitions, place)
        if isinstance(place, int):
            return self._at_time(partitions, -(-place // _US_PER_MS))
        given = dict(place)
        if sorted(given) != partitions:
            raise InvalidPositionsError(
                self._name,
                f"{role}= names offsets of the partitions {sorted(given)}, but the topic has "
                f"{partitions}: name one for each",
            )
        return given

    def check(self, starts: dict[int, int], partitions: list[int]) -> None:
        """Check that the topic has records at these offsets, or ends there."""
        first = self._offsets(partitions, "earliest")
        end = self._offsets(partitions, "latest")
        for p in partitions:
            if not first[p] <= starts[p] <= end[p]:
                raise InvalidPositionsError(
                    self._name,
                    f"start= is offset {starts[p]} of partition {p}, which has the offsets "
                    f"{first[p]} to {end[p]}",
                )

    def _offsets(self, partitions: list[int], at: str | int) -> dict[int, int]:
        offsets = self.ask(self.client.request_offsets, partitions, at)
        return {p: int(answer.offset) for p, answer in offsets.items()}

    def _at_time(self, partitions: list[int], time_ms: int) -> dict[int, int]:
        """Return the first record at or after that time; the end if there is none."""
        end = self._offsets(partitions, "latest")
        offsets = self._offsets(partitions, max(0, time_ms))
        return {p: min(offsets[p], end[p]) if offsets[p] >= 0 else end[p] for p in partitions}
