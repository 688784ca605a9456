"""Finds secrets that are written in a query as plain text, and so are in the job's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.connection_strings import holds_password, passwords_in
from rstream.secret_values import (
    has_literal_password,
    is_reference,
    is_secret_option,
    password_of,
)
from rvertex.sinks.spec import KafkaSink, OnceSink, PostgresSink
from rvertex.sources.spec import Topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rvertex.sinks.spec import SinkSpec
    from rvertex.sources.spec import SourceSpec

_NOTE = (
    "{where}: the query holds {what} itself, and so do query.pkl and plan.pkl in the job's folder; "
    'write "env:NAME" or "file:/PATH" in its place, which the process that uses it reads'
)


def source_notes(spec: SourceSpec) -> list[str]:
    """Return a note for each plain-text secret of a source."""
    return _notes(spec.shown or spec.path, _config(spec))


def _config(spec: SourceSpec) -> tuple[tuple[str, str], ...]:
    return spec.kind.config if isinstance(spec.kind, Topic) else ()


def sink_notes(specs: Sequence[SinkSpec]) -> list[str]:
    """Return a note for each plain-text secret of a destination."""
    notes: list[str] = []
    for spec in specs:
        where = f"delivery {spec.name or spec.label}"
        if isinstance(spec, KafkaSink):
            notes += _notes(where, spec.config)
        elif isinstance(spec, PostgresSink) and holds_password(spec.dsn):
            notes.append(_NOTE.format(where=where, what="the password"))
        elif isinstance(spec, OnceSink):
            notes += sink_notes([spec.to])
            notes += _notes(where, [("servers", server) for server in spec.registry.servers])
    return notes


def literal_secrets(sources: Iterable[SourceSpec], sinks: Iterable[SinkSpec]) -> set[str]:
    """Return the secrets that sources and destinations contain as plain text."""
    secrets: set[str] = set()
    for source in sources:
        secrets |= _values(_config(source))
    for sink in sinks:
        if isinstance(sink, KafkaSink):
            secrets |= _values(sink.config)
        elif isinstance(sink, PostgresSink) and holds_password(sink.dsn):
            secrets |= {text for text in passwords_in(sink.dsn) if not is_reference(text)}
        elif isinstance(sink, OnceSink):
            secrets |= literal_secrets((), [sink.to])
            secrets |= _values(("servers", server) for server in sink.registry.servers)
    return secrets


def _values(config: Iterable[tuple[str, str]]) -> set[str]:
    secrets: set[str] = set()
    for name, value in config:
        if is_secret_option(name) and not is_reference(value):
            secrets.add(value)
        elif has_literal_password(value):
            secrets.add(password_of(value) or value)
    return secrets


def _notes(where: str, config: Iterable[tuple[str, str]]) -> list[str]:
    return [
        _NOTE.format(where=where, what=name)
        for name, value in config
        if (is_secret_option(name) and not is_reference(value)) or has_literal_password(value)
    ]
