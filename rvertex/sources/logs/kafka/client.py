"""The door to confluent-kafka: a consumer of given partitions, and questions about a topic.

Questions are asked at once and answered later, so that a reader never waits for a broker.
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

#: A message of the client. Its types allow for a place of None, which no message has.
Message: TypeAlias = Any
#: A broker that has not answered a question by then is asked again.
ASK_S_MAX = 5.0
#: So long a fetch waits for more once it has a message. A message a step costs the vertex about
#: half a millisecond of a core each, so a thousand a second would fill one.
FETCH_MORE_S = 0.002
#: A topic whose broker gives topics no ids.
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
NO_ANSWER = "no answer"
#: As brokers say it. What the client says itself may only mean that it has not reached one.
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
    """Why a question has no answer."""

    reason: str
    is_missing: bool = False
    is_refused: bool = False


class Pending:
    """A question that was asked; ``None`` until it is answered."""

    def __init__(self, futures: Mapping[int, Future[Any]]) -> None:
        self._futures = futures

    def done(self) -> bool:
        return all(future.done() for future in self._futures.values())

    def answers(self, timeout_s: float) -> dict[int, Any] | Failure:
        """What was answered for each partition, or the first failure."""
        from confluent_kafka import OFFSET_INVALID, KafkaException

        found = {}
        for partition, future in self._futures.items():
            try:
                found[partition] = future.result(timeout_s)
            except KafkaException as error:
                return failure(error.args[0])
            except NoAnswerError:
                return Failure(NO_ANSWER)
            if getattr(found[partition], "offset", 0) == OFFSET_INVALID:
                return Failure(NO_ANSWER)  # as the client says it of some that timed out
        return found


class _Said:
    """What the client said last of its connections."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self.text, self._secrets = "", secrets
        #: A broker refused the user, and nothing was answered since.
        self.refusal: Failure | None = None

    def __call__(self, error: KafkaError) -> None:
        self.text = without_secrets(error.str(), self._secrets)
        if failure(error).is_refused:
            self.refusal = Failure(self.text, is_refused=True)


class Client:
    """Connections to the brokers of one topic; whoever opens them closes them.

    The thread that ends them must be one of ours: the library has a thread that answers questions,
    and aborts the process if that one frees the last reference. The garbage collector runs in
    whichever thread comes along, so nothing in a cycle may hold them.
    """

    def __init__(self, topic: str, config: Mapping[str, str]) -> None:
        """``config`` is resolved.

        Raises:
            ClientMissingError: the library is not installed.
            LogUnreachableError: it does not take the options, such as a file that is not there.
        """
        try:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient
        except ImportError as error:
            raise ClientMissingError(f"topic {topic}") from error
        self.topic = topic
        self.servers = config[SERVERS]
        self._said, self._config = _Said(secrets_of(config)), config
        options: dict[str, Any] = {**admin_options(config), "error_cb": self._said}
        try:
            self._admin = AdminClient(options)
        except KafkaException as error:
            raise _options_error(self.servers, config, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the brokers; what was asked is not answered any more, nor may more be asked."""
        del self._admin

    @property
    def trouble(self) -> str:
        """What was last found wrong with the connections."""
        return self._said.text

    @trouble.setter
    def trouble(self, text: str) -> None:
        self._said.text = text

    @property
    def refusal(self) -> Failure | None:
        """Why brokers refuse the user, if nothing was answered since they did."""
        return self._said.refusal

    def forget_refusal(self) -> None:
        """Something was answered."""
        self._said.refusal = None

    def poll(self) -> None:
        """Take in what the client has to say."""
        self._admin.poll(0)

    def ask_topic(self) -> Pending:
        """Ask for the topic: the answer 0 is its id and its partitions."""
        from confluent_kafka import TopicCollection

        names = TopicCollection([self.topic])
        found = self._admin.describe_topics(names, request_timeout=ASK_S_MAX)
        return Pending({0: found[self.topic]})

    def ask_offsets(
        self,
        partitions: Iterable[int],
        at: Literal["earliest", "latest"] | int,
        *,
        is_committed: bool = True,
    ) -> Pending:
        """Ask for offsets: "earliest", "latest", or at a time in ms.

        ``is_committed``: the latest is where the first open transaction begins.
        """
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        specs: Any = OffsetSpec
        spec = specs.for_timestamp(at) if isinstance(at, int) else getattr(specs, at)()
        asked = {TopicPartition(self.topic, p): spec for p in partitions}
        level = "READ_COMMITTED" if is_committed else "READ_UNCOMMITTED"
        found = self._admin.list_offsets(
            asked, isolation_level=IsolationLevel[level], request_timeout=ASK_S_MAX
        )
        return Pending({where.partition: future for where, future in found.items()})

    def consumer(self) -> TopicConsumer:
        """A reader of the topic.

        Raises:
            LogUnreachableError: it does not take the options.
        """
        from confluent_kafka import KafkaException

        options = {**consumer_options(self._config), "error_cb": self._said}
        try:
            return TopicConsumer(self.topic, options)
        except KafkaException as error:
            raise _options_error(self.servers, self._config, error) from None


def _options_error(
    servers: str, config: Mapping[str, str], error: Exception
) -> LogUnreachableError:
    said = without_secrets(error.args[0].str(), secrets_of(config))
    reason = f"the client does not take its options ({said})"
    return LogUnreachableError(f"Kafka at {servers}", reason)


class TopicConsumer:
    """Reads given partitions of one topic."""

    def __init__(self, topic: str, options: dict[str, Any]) -> None:
        from confluent_kafka import Consumer

        self._topic = topic
        self._consumer = Consumer(options)

    def assign(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets, none is paused; what was fetched is dropped."""
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(self._topic, p, at) for p, at in positions.items()])
        self.resume(list(positions))  # in the library a pause outlives the assignment

    def fetch(self, rows_max: int, wait_s: float) -> list[Message]:
        """Up to ``rows_max`` messages: waits for the first, and a moment for what comes with it."""
        found = self._consumer.consume(1, wait_s)
        if found and rows_max > 1:
            found += self._consumer.consume(rows_max - 1, FETCH_MORE_S)
        return found

    def pause(self, partitions: Sequence[int]) -> None:
        self._consumer.pause(self._places(partitions))

    def resume(self, partitions: Sequence[int]) -> None:
        self._consumer.resume(self._places(partitions))

    def commit(self, positions: Mapping[int, int]) -> None:
        """Tell the group's offsets to the broker, without waiting."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(self._topic, p, at) for p, at in positions.items()]
        self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        self._consumer.close()

    def _places(self, partitions: Sequence[int]) -> list[Any]:
        from confluent_kafka import TopicPartition

        return [TopicPartition(self._topic, p) for p in partitions]


def failure(error: KafkaError) -> Failure:
    """What an error means for a reader."""
    name = error.name()
    return Failure(error.str(), name in _MISSING, name in _REFUSED or error.fatal())


def is_end(error: KafkaError) -> bool:
    """It only says that a partition was read to its end."""
    return bool(error.code() == error._PARTITION_EOF)


def is_out_of_range(error: KafkaError) -> bool:
    """The broker has no record at the position that was asked for."""
    return error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")
