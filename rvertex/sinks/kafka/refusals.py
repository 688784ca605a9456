"""Which errors of librdkafka and of brokers end a delivery, and which are retried, by error name.

Every error that is not listed here is retried: an unreachable broker, a leader election, a missing
replica, a coordinator that is loading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_LOGIN = "correct the user, the password or the mechanism in config="
_GRANT = "grant the user WRITE on the topic, READ on the group and WRITE on the transactional id"
_TOPIC = "correct the name of the topic"
_ROW = (
    "make the row smaller in the query, or raise max.message.bytes of the topic and "
    "message.max.bytes in config="
)
_RECORD = "correct the rows in the query, or the rules of the topic"
_BROKER = "this broker or its settings do not support this delivery; mode='headers' requires less"


class Refusal(NamedTuple):
    """An error that a retry cannot fix. ``is_rows``: caused by the rows, not by topic or broker."""

    is_rows: bool
    advice: str


REFUSALS: dict[str, Refusal] = {
    "MSG_SIZE_TOO_LARGE": Refusal(True, _ROW),
    "RECORD_LIST_TOO_LARGE": Refusal(True, _ROW),
    "INVALID_MSG_SIZE": Refusal(True, _ROW),
    "INVALID_RECORD": Refusal(True, _RECORD),
    "POLICY_VIOLATION": Refusal(False, _BROKER),
    "TOPIC_EXCEPTION": Refusal(False, _TOPIC),
    "TOPIC_AUTHORIZATION_FAILED": Refusal(False, _GRANT),
    "GROUP_AUTHORIZATION_FAILED": Refusal(False, _GRANT),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": Refusal(False, _GRANT),
    "CLUSTER_AUTHORIZATION_FAILED": Refusal(False, _GRANT),
    "SASL_AUTHENTICATION_FAILED": Refusal(False, _LOGIN),
    "UNSUPPORTED_SASL_MECHANISM": Refusal(False, _LOGIN),
    "ILLEGAL_SASL_STATE": Refusal(False, _LOGIN),
    "SECURITY_DISABLED": Refusal(False, _LOGIN),
    "_AUTHENTICATION": Refusal(False, _LOGIN),
    "_SSL": Refusal(False, "correct security.protocol and the certificates in config="),
    "INVALID_TRANSACTION_TIMEOUT": Refusal(False, _BROKER),
    "UNSUPPORTED_VERSION": Refusal(False, _BROKER),
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": Refusal(False, _BROKER),
    "UNSUPPORTED_COMPRESSION_TYPE": Refusal(False, "choose another compression.type in config="),
    "INVALID_REQUIRED_ACKS": Refusal(False, _BROKER),
    "INVALID_CONFIG": Refusal(False, _BROKER),
    "_UNSUPPORTED_FEATURE": Refusal(False, _BROKER),
    "_NOT_IMPLEMENTED": Refusal(False, _BROKER),
    "_INVALID_ARG": Refusal(False, "correct config="),
}


def refusal_of(error: KafkaError) -> Refusal | None:
    """Return why the error ends the delivery; None: retry."""
    return REFUSALS.get(error.name())
