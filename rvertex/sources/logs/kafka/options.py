"""Options of the Kafka client: which of them users may set, and our values for others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rstream.secret_values import secret_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rvertex.sources.spec import SourceSpec

SERVERS = "bootstrap.servers"
GROUP = "group.id"
#: Prefix of options of the schema registry, which are not passed to the client.
REGISTRY = "schema.registry."
#: Options that exactly-once reading depends on, each with the reason why users must not set it.
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
    # The end of a partition is detected by an empty fetch; the default wait is half a second.
    "fetch.wait.max.ms": 50,
    # With the default of a second, a reader that empties the client's queue sooner would wait.
    "fetch.queue.backoff.ms": 10,
    "queued.max.messages.kbytes": 32_768,
    "reconnect.backoff.max.ms": 1_000,
    # Errors are shown in the status of the job, so the client need not log them.
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
#: Topic names that brokers allow.
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OF_CONSUMERS = (GROUP, "fetch.", "queued.", "check.crcs", "max.poll.interval.ms", "session.")


def topic_fault(name: str) -> str | None:
    """Return why brokers do not allow a topic of this name; None: they allow it."""
    if _TOPIC.fullmatch(name) is not None and name not in (".", ".."):
        return None
    return (
        f"{name!r} is not the name of a topic: it has 1 to 249 of the characters a-z, A-Z, 0-9, "
        "'.', '_' and '-'"
    )


def topic_of(spec: SourceSpec) -> str:
    """Return the topic of a source whose path is ``kafka://servers/topic``."""
    return spec.path.rpartition("/")[2]


def owned(name: str) -> str | None:
    """Return why users must not set the option, or None if they may."""
    if name.endswith("_cb") or name == "logger":
        return "a plan holds no functions of the client"
    return OWNED.get(name)


def resolved(config: Mapping[str, str]) -> dict[str, str]:
    """Return the options with the values of their secrets.

    Raises:
        MissingSecretError: this process cannot read a secret.
    """
    return {name: secret_value(name, value) for name, value in config.items()}


def consumer_options(config: Mapping[str, str]) -> dict[str, str | int | bool]:
    """Return the options of a consumer. ``config`` has resolved secrets."""
    return {**_DEFAULTS, **_of_client(config), **_READER}


def admin_options(config: Mapping[str, str]) -> dict[str, str | int | bool]:
    """Return the options for metadata requests only. ``config`` has resolved secrets."""
    given = {**_DEFAULTS, **_of_client(config)}
    return {k: v for k, v in given.items() if not k.startswith(_OF_CONSUMERS)}


def _of_client(config: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in config.items() if not name.startswith(REGISTRY)}
