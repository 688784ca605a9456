"""Options of the Kafka client: which ones a user may give, and the values that we choose."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rstream.secret_values import secret_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rvertex.sources.spec import SourceSpec

SERVERS = "bootstrap.servers"
GROUP = "group.id"
#: Begins options that the client does not know: they are of the schema registry.
REGISTRY = "schema.registry."
#: Options on which the exactness of a source rests, and why no one else sets them.
OWNED: Mapping[str, str] = {
    SERVERS: "use servers= instead",
    "isolation.level": "a source reads committed records only",
    "enable.auto.commit": "checkpoints store the positions",
    "enable.auto.offset.store": "checkpoints store the positions",
    "auto.offset.reset": "set start= for a new job; lost records follow on_lost=",
    "enable.partition.eof": "a source has to know where a partition ends",
    "partition.assignment.strategy": "the plan assigns the partitions",
    "group.protocol": "the plan assigns the partitions",
    "group.instance.id": "the plan assigns the partitions",
    "allow.auto.create.topics": "a source does not create topics",
    "topic.blacklist": "give the topic",
    "message.copy.max.bytes": "it is an option of producers",
}
_DEFAULTS: Mapping[str, str | int | bool] = {
    GROUP: "streamscope",
    "fetch.error.backoff.ms": 100,
    # Where a partition ends is said by fetches that find nothing; the default is half a second.
    "fetch.wait.max.ms": 50,
    # The default of a second would starve a reader that empties the client's queue sooner.
    "fetch.queue.backoff.ms": 10,
    "queued.max.messages.kbytes": 32_768,
    "reconnect.backoff.max.ms": 1_000,
    # What is wrong is said in the status of the job.
    "log_level": 2,
}
_READER: Mapping[str, str | int | bool] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}
#: What brokers take as the name of a topic.
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OF_CONSUMERS = (GROUP, "fetch.", "queued.", "check.crcs", "max.poll.interval.ms", "session.")


def topic_fault(name: str) -> str | None:
    """Why no broker has a topic of this name; None: one may have."""
    if _TOPIC.fullmatch(name) is not None and name not in (".", ".."):
        return None
    return (
        f"{name!r} is not the name of a topic: it has 1 to 249 of the characters a-z, A-Z, 0-9, "
        "'.', '_' and '-'"
    )


def topic_of(spec: SourceSpec) -> str:
    """The topic of a source, whose path is ``kafka://servers/topic``."""
    return spec.path.rpartition("/")[2]


def owned(name: str) -> str | None:
    """Why a user may not set the option, or None if he may."""
    if name.endswith("_cb") or name == "logger":
        return "a plan holds no functions of the client"
    return OWNED.get(name)


def resolved(config: Mapping[str, str]) -> dict[str, str]:
    """The options with the secrets that they name.

    Raises:
        MissingSecretError: this process cannot read one.
    """
    return {name: secret_value(name, value) for name, value in config.items()}


def consumer_options(config: Mapping[str, str]) -> dict[str, str | int | bool]:
    """The options of a reader; ``config`` is resolved."""
    return {**_DEFAULTS, **_of_client(config), **_READER}


def admin_options(config: Mapping[str, str]) -> dict[str, str | int | bool]:
    """The options of whoever only asks for offsets and names; ``config`` is resolved."""
    given = {**_DEFAULTS, **_of_client(config)}
    return {k: v for k, v in given.items() if not k.startswith(_OF_CONSUMERS)}


def _of_client(config: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in config.items() if not name.startswith(REGISTRY)}
