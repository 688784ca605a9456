"""The only module that imports confluent-kafka: consumers, and metadata requests.

A consumer reads assigned partitions. Metadata requests are asynchronous, so a reader never blocks
on a broker.
"""

from __future__ import annotations

from concurrent.futures import TimeoutError as NoAnswerError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rstream.secret_values import secrets_of, without_secrets
from rvertex.sources.logs.errors import ClientMissingError, LogUnreachableError
from rvertex.sources.logs.kafka.options import SERVERS, admin_options, consumer_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Self

    from confluent_kafka import KafkaError

#: A message of the client. Its type stubs allow None for topic and offset, which never occurs.
Message: TypeAlias = Any
#: Time-out of a metadata request, s. Then it is sent again.
ASK_S_MAX = 5.0
#: How long a fetch collects more messages after the first, s. A step costs the vertex about half a
#: millisecond of a core, so a thousand messages a second, one per step, would take half a core.
FETCH_MORE_S = 0.002
#: Topic id that brokers without topic ids report.
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
NO_ANSWER = "no answer"
#: Error codes of brokers for a missing topic. The client's own codes may only mean that no broker
#: was reached.
_MISSING = {"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID"}
_REFUSED = {"TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "_AUTHENTICATION"}
_REFUSED |= {
    "CLUSTER_AUTHORIZATION_FAILED",
    "SASL_AUTHENTICATION_FAILED",
    "TOPIC_EXCEPTION",
    "UNSUPPORTED_SASL_MECHANISM",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no response."""

    reason: str
    is_missing: bool = False
    is_refused: bool = False


class Pending:
    """A request; its results are None until it is done."""

    def __init__(self, futures: Mapping[int, Future[Any]]) -> None:
        self._futures = futures

    def done(self) -> bool:
        return all(future.done() for future in self._futures.values())

    def answers(self, timeout_s: float) -> dict[int, Any] | Failure:
        """Return the response for each partition, or the first failure."""
        from confluent_kafka import OFFSET_INVALID, KafkaException

        answers = {}
        for partition, future in self._futures.items():
            try:
                answers[partition] = future.result(timeout_s)
            except KafkaException as error:
                return failure(error.args[0])
            except NoAnswerError:
                return Failure(NO_ANSWER)
            if getattr(answers[partition], "offset", 0) == OFFSET_INVALID:
                return Failure(NO_ANSWER)  # the client reports some time-outs as this error
        return answers


class _ClientErrors:
    """Keeps the last error that the client reported about its connections."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self.text, self._secrets = "", secrets
        #: Rejection of the credentials, if no request has succeeded since then.
        self.refusal: Failure | None = None

    def __call__(self, error: KafkaError) -> None:
        self.text = without_secrets(error.str(), self._secrets)
        if failure(error).is_refused:
            self.refusal = Failure(self.text, is_refused=True)


class Client:
    """Connections to the brokers of one topic. The owner must close them.

    They must be closed in one of our threads: the library aborts the process if its own thread,
    which completes requests, frees the last reference. The garbage collector runs in any thread, so
    connections must not be part of a reference cycle.
    """

    def __init__(self, topic: str, config: Mapping[str, str]) -> None:
        """Connect to the brokers of ``topic``. ``config``: client options, with secrets resolved.

        Raises:
            ClientMissingError: the library is not installed.
            LogUnreachableError: the library rejects an option, such as a missing file.
        """
        try:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient
        except ImportError as error:
            raise ClientMissingError(f"topic {topic}") from error
        self.topic = topic
        self.servers = config[SERVERS]
        self._errors, self._config = _ClientErrors(secrets_of(config)), config
        options: dict[str, Any] = {**admin_options(config), "error_cb": self._errors}
        try:
            self._admin = AdminClient(options)
        except KafkaException as error:
            raise _options_error(self.servers, config, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect. Pending requests get no response, and no new requests are allowed."""
        del self._admin

    @property
    def trouble(self) -> str:
        """The last connection error."""
        return self._errors.text

    @trouble.setter
    def trouble(self, text: str) -> None:
        self._errors.text = text

    @property
    def refusal(self) -> Failure | None:
        """Why brokers reject the credentials, if no request has succeeded since then."""
        return self._errors.refusal

    def forget_refusal(self) -> None:
        """Clear the rejection, because a request has succeeded."""
        self._errors.refusal = None

    def poll(self) -> None:
        """Run the client's pending callbacks."""
        self._admin.poll(0)

    def request_topic(self) -> Pending:
        """Request the topic's metadata; response 0 contains its id and its partitions."""
        from confluent_kafka import TopicCollection

        names = TopicCollection([self.topic])
        futures = self._admin.describe_topics(names, request_timeout=ASK_S_MAX)
        return Pending({0: futures[self.topic]})

    def request_offsets(
        self,
        partitions: Iterable[int],
        at: Literal["earliest", "latest"] | int,
        *,
        is_committed: bool = True,
    ) -> Pending:
        """Request offsets: "earliest", "latest", or the offsets at a time in ms.

        ``is_committed``: "latest" is the start of the first open transaction.
        """
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        specs: Any = OffsetSpec
        spec = specs.for_timestamp(at) if isinstance(at, int) else getattr(specs, at)()
        request = {TopicPartition(self.topic, p): spec for p in partitions}
        level = "READ_COMMITTED" if is_committed else "READ_UNCOMMITTED"
        futures = self._admin.list_offsets(
            request, isolation_level=IsolationLevel[level], request_timeout=ASK_S_MAX
        )
        return Pending({where.partition: future for where, future in futures.items()})

    def consumer(self) -> TopicConsumer:
        """Open a consumer of the topic.

        Raises:
            LogUnreachableError: the library rejects an option.
        """
        from confluent_kafka import KafkaException

        options = {**consumer_options(self._config), "error_cb": self._errors}
        try:
            return TopicConsumer(self.topic, options)
        except KafkaException as error:
            raise _options_error(self.servers, self._config, error) from None


def _options_error(
    servers: str, config: Mapping[str, str], error: Exception
) -> LogUnreachableError:
    text = without_secrets(error.args[0].str(), secrets_of(config))
    reason = f"the client rejects its options ({text})"
    return LogUnreachableError(f"Kafka at {servers}", reason)


class TopicConsumer:
    """Reads assigned partitions of one topic."""

    def __init__(self, topic: str, options: dict[str, Any]) -> None:
        from confluent_kafka import Consumer

        self._topic = topic
        self._consumer = Consumer(options)

    def assign(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets, unpaused.

        Drop messages that were fetched before.
        """
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(self._topic, p, at) for p, at in positions.items()])
        self.resume(list(positions))  # the library keeps a pause across assignments

    def fetch(self, rows_max: int, wait_s: float) -> list[Message]:
        """Return up to ``rows_max`` messages. Wait for the first message, then shortly for more."""
        messages = self._consumer.consume(1, wait_s)
        if messages and rows_max > 1:
            messages += self._consumer.consume(rows_max - 1, FETCH_MORE_S)
        return messages

    def pause(self, partitions: Sequence[int]) -> None:
        self._consumer.pause(self._places(partitions))

    def resume(self, partitions: Sequence[int]) -> None:
        self._consumer.resume(self._places(partitions))

    def commit(self, positions: Mapping[int, int]) -> None:
        """Commit the group's offsets to the broker, without waiting."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(self._topic, p, at) for p, at in positions.items()]
        self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        self._consumer.close()

    def _places(self, partitions: Sequence[int]) -> list[Any]:
        from confluent_kafka import TopicPartition

        return [TopicPartition(self._topic, p) for p in partitions]


def failure(error: KafkaError) -> Failure:
    """Convert an error of the client to a :class:`Failure`."""
    name = error.name()
    return Failure(error.str(), name in _MISSING, name in _REFUSED or error.fatal())


def is_end(error: KafkaError) -> bool:
    """Return whether the error only reports that a partition was read to its end."""
    return bool(error.code() == error._PARTITION_EOF)


def is_out_of_range(error: KafkaError) -> bool:
    """Return whether the broker has no record at the requested offset."""
    return error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")
