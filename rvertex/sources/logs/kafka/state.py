"""Polls the brokers for the ends of a topic's partitions, and for whether the topic was replaced.

Invariant: an end counts from the time of its request, not of its response. So every row that was
written before that time is before the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rvertex.sources.logs.errors import (
    LogNotFoundError,
    LogRefusedError,
    LogReplacedError,
    LogUnreachableError,
)
from rvertex.sources.logs.kafka.client import NO_ID, Failure
from rvertex.sources.logs.protocol import LogEnd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rstream.clock import Clock
    from rstream.errors import StreamEngineError
    from rvertex.sources.logs.kafka.client import Client, Pending

#: Seconds between two requests for ends. They are more frequent while a partition gets no rows,
#: because the frontier then depends on when its end was last requested.
ENDS_EVERY_S, ENDS_OF_SILENT_EVERY_S = 0.25, 0.1
#: Seconds between two requests for the topic's id.
IDENTITY_EVERY_S = 1.0
#: A broker is reported as unreachable if there is no response for this time, s.
AWAY_S_MIN = 2.0
#: How long a topic may be unknown to the brokers, s, such as after a change of leaders.
MISSING_S_MAX = 10.0
#: The topic counts as replaced after this many responses whose end is before the read offset.
SHRUNK_TIMES = 3


class TopicState:
    """Sends requests from the fetching thread; the vertex's thread reads the results."""

    def __init__(
        self,
        client: Client,
        partitions: Sequence[int],
        topic_id: str,
        away_s_max: float | None,
        clock: Clock,
    ) -> None:
        """Poll ``partitions``. ``topic_id``: "" if unknown. ``away_s_max``: None waits forever."""
        self._client, self._clock = client, clock
        self._partitions = partitions
        self._topic_id = topic_id
        self._away_s_max = away_s_max
        #: Requests for the ends of committed records, and of all records.
        self._ends: tuple[Pending, Pending] | None = None
        self._ends_requested_s = -ENDS_EVERY_S
        self._fetched: Mapping[int, int] = {}
        self._identity: Pending | None = None
        self._identity_requested_s = 0.0
        self._answered_s = self._clock.monotonic_s()
        self._missing_since_s: float | None = None
        self._shrunk = 0
        #: Number of partitions of the topic; 0: unknown yet.
        self.log_partitions = 0
        self._trouble = ""
        self.ends: dict[int, LogEnd] = {}
        #: Partitions with uncommitted records, so their committed ends are not final.
        self.open: set[int] = set()
        #: Why reading has failed; None: it has not.
        self.error: StreamEngineError | None = None

    @property
    def waiting(self) -> str:
        """Why no broker answers; "" if one does."""
        now_s = self._clock.monotonic_s()
        if self._missing_since_s is not None:
            return f"topic {self._client.topic}: the broker does not know it at present"
        away_s = now_s - self._answered_s
        if away_s < AWAY_S_MIN:
            return ""
        reason = f" ({self._trouble})" if self._trouble else ""
        return f"Kafka at {self._client.servers}: no answer for {away_s:.0f} s{reason}"

    def poll(self, fetched: Mapping[int, int]) -> None:
        """Process responses and send due requests. ``fetched``: next offset by partition."""
        self._client.poll()
        now_s = self._clock.monotonic_s()
        if self._ends is not None and all(pending.done() for pending in self._ends):
            self._take_ends(self._ends[0].answers(0), self._ends[1].answers(0), now_s)
            self._ends = None
        if self._identity is not None and self._identity.done():
            self._take_identity(self._identity.answers(0), now_s)
            self._identity = None
        is_silent = any(fetched[p] == at for p, at in self._fetched.items())
        every_s = ENDS_OF_SILENT_EVERY_S if is_silent else ENDS_EVERY_S
        if self._ends is None and now_s >= self._ends_requested_s + every_s:
            self._ends_requested_s, self._fetched = now_s, dict(fetched)
            committed = self._client.request_offsets(self._partitions, "latest")
            written = self._client.request_offsets(self._partitions, "latest", is_committed=False)
            self._ends = committed, written
        if self._identity is None and now_s >= self._identity_requested_s + IDENTITY_EVERY_S:
            self._identity_requested_s = now_s
            self._identity = self._client.request_topic()
        self._check_limits(now_s)

    def _take_ends(
        self, answers: dict[int, Any] | Failure, written: dict[int, Any] | Failure, now_s: float
    ) -> None:
        for failed in (answers, written):
            if isinstance(failed, Failure):
                self._take_failure(failed, now_s)
        if isinstance(answers, Failure) or isinstance(written, Failure):
            return
        self._answered_s, self._trouble = now_s, ""
        self._client.forget_refusal()
        for partition, answer in answers.items():
            self.ends[partition] = LogEnd(int(answer.offset), self._ends_requested_s)
        self.open = {p for p, end in self.ends.items() if int(written[p].offset) > end.position}
        shrunk = [p for p, end in self.ends.items() if end.position < self._fetched[p]]
        self._shrunk = self._shrunk + 1 if shrunk else 0
        if self._shrunk >= SHRUNK_TIMES:
            (first, *_) = shrunk
            self._fail_replaced(
                f"partition {first} ends at offset {self.ends[first].position}, but the job has "
                f"read it up to offset {self._fetched[first]}"
            )

    def _take_identity(self, answers: dict[int, Any] | Failure, now_s: float) -> None:
        if isinstance(answers, Failure):
            self._take_failure(answers, now_s)
            return
        self._missing_since_s = None
        self._answered_s = now_s
        self.log_partitions = len(answers[0].partitions)
        topic_id = str(answers[0].topic_id)
        if topic_id == NO_ID:
            return
        if self._topic_id and topic_id != self._topic_id:
            self._fail_replaced(f"its id was {self._topic_id} and is {topic_id}")

    def _take_failure(self, failure: Failure, now_s: float) -> None:
        if failure.is_missing:
            self._answered_s = now_s
        self._trouble = self._client.trouble or failure.reason
        refusal = failure if failure.is_refused else self._client.refusal
        if refusal is not None:  # a lasting rejection: the request was retried for ASK_S_MAX
            self.refuse(refusal)
        if failure.is_missing and self._missing_since_s is None:
            self._missing_since_s = now_s

    def refuse(self, failure: Failure) -> None:
        """Stop reading with an error, because a broker rejects a request."""
        self.error = self.error or LogRefusedError(f"topic {self._client.topic}", failure.reason)

    def _check_limits(self, now_s: float) -> None:
        missing_s = 0.0 if self._missing_since_s is None else now_s - self._missing_since_s
        if missing_s > MISSING_S_MAX:
            self.error = self.error or LogNotFoundError(
                f"topic {self._client.topic}", f"it has been missing for {missing_s:.0f} s"
            )
        away_s = now_s - self._answered_s
        if self._away_s_max is not None and away_s > self._away_s_max:
            self.error = self.error or LogUnreachableError(
                f"Kafka at {self._client.servers}",
                f"no answer for {away_s:.0f} s, the limit (away_max) is {self._away_s_max:g} s",
            )

    def _fail_replaced(self, reason: str) -> None:
        self.error = self.error or LogReplacedError(f"topic {self._client.topic}", reason)
