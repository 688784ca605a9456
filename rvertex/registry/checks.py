"""Checks the arguments of registries when a query or a joiner is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rvertex.registry.shard import STEPS
from rvertex.registry.shard_map import SHARDS_MAX
from rvertex.sinks.errors import InvalidSinkError
from rvertex.sinks.spec import OnceSink, ParquetSink, RegistrySpec, SinkSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Most servers that may store an entry of a NATS stream.
_REPLICAS_MAX = 5


def registry_spec(
    servers: Any, name: Any, keep_us: int, shards: Any, replicas: Any
) -> RegistrySpec:
    """Return the spec of a registry. Raises InvalidSinkError for an invalid value."""
    label = f"registry {name!r:.80}"
    urls = (servers,) if isinstance(servers, str) else servers
    is_list = isinstance(urls, list | tuple) and len(urls) > 0
    if not is_list or not all(isinstance(url, str) and url for url in urls):
        reason = (
            f"servers= is a url such as nats://host:4222, or a list of urls, not {servers!r:.80}"
        )
        raise InvalidSinkError(label, reason)
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
        raise InvalidSinkError(label, "a name may have only letters, digits, - and _")
    counts = ("shards", shards, SHARDS_MAX), ("replicas", replicas, _REPLICAS_MAX)
    for what, count, most in counts:
        if type(count) is not int or not 1 <= count <= most:
            raise InvalidSinkError(
                label, f"{what}={count!r}: must be a whole number from 1 to {most:,}"
            )
    if keep_us < STEPS:
        raise InvalidSinkError(label, f"keep= must be at least {STEPS} microseconds, not {keep_us}")
    return RegistrySpec(tuple(urls), name, keep_us, shards, replicas)


def checked_registry(given: Any, what: str) -> RegistrySpec:
    """Return ``given`` if it is a registry. Raises InvalidSinkError for anything else."""
    if not isinstance(given, RegistrySpec):
        reason = f"the registry must be made by sinks.registry(servers, name), not {given!r:.80}"
        raise InvalidSinkError(what, reason)
    return given


def once_sink(to: Any, id_: Any, at: Any, registry: Any, on_old: Any, answer: Any) -> OnceSink:
    """Wrap a destination such that it claims ids; the query checks the columns later."""
    if not isinstance(to, SinkSpec) or isinstance(to, OnceSink):
        reason = f"it takes another destination, such as sinks.kafka(...), not {to!r:.80}"
        raise InvalidSinkError("once", reason)
    if not isinstance(answer, str):
        raise InvalidSinkError(
            "once", f"answer= must be a text that names the rows, not {answer!r:.80}"
        )
    if not answer:  # leave out the folder, because sites may use different folders
        where = "parquet" if isinstance(to, ParquetSink) else to.label
        answer = f"{where} by {id_} and {at}"
    return OnceSink(to, id_, at, checked_registry(registry, "once"), on_old, answer)


def check_claims(destinations: Sequence[SinkSpec]) -> None:
    """Raise InvalidSinkError if two destinations would take ids from each other."""
    claimed: dict[str, SinkSpec] = {}
    for spec in destinations:
        if isinstance(spec, OnceSink):
            name = spec.registry.name
            if name in claimed:
                reason = (
                    f"{claimed[name].label} claims ids in the registry {name!r}, too, so "
                    "each row would reach only one of the two destinations: give each its "
                    "own registry"
                )
                raise InvalidSinkError(spec.label, reason)
            claimed[name] = spec
