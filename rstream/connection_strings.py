"""Resolves secrets in connection strings of databases, and removes passwords from messages.

Clients accept URIs and ``key=value`` pairs. The whole string or only its password may refer to a
secret: ``postgresql://me:env:NAME@host/db``, ``host=h password=file:/run/secrets/db``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from rstream.secret_values import is_reference, secret_value, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

_URI = re.compile(r"postgres(ql)?://")
_IN_URI = re.compile(
    r"(://[^:/@\s]*:)(file:[^@\s]*|[^@\s]*)(?=@)|([?&](?:ssl)?password=)([^&\s]*)", re.IGNORECASE
)
_IN_PAIRS = re.compile(
    r"(\b(?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)+)()()", re.IGNORECASE
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_WHAT = "the connection string"


def resolved_string(dsn: str) -> str:
    """Return a connection string with its references replaced by the secrets.

    Raises:
        MissingSecretError: this process cannot read a secret.
    """
    return _changed(secret_value(_WHAT, dsn), lambda text: secret_value("password", text))


def holds_password(dsn: str) -> bool:
    """Return whether a connection string contains a password itself, not a reference."""
    return not is_reference(dsn) and any(not is_reference(text) for text in _passwords(dsn))


def without_passwords(text: str, dsn: str) -> str:
    """Remove the passwords of a resolved connection string from a client's message."""
    passwords = _passwords(dsn)
    return without_secrets(text, [dsn, *passwords, *(quote(one, safe="") for one in passwords)])


def passwords_in(text: str) -> list[str]:
    """Return the passwords in a possible connection string, plain and percent-encoded."""
    if "=" not in text and "@" not in text:
        return []
    passwords = _passwords(text)
    return [*passwords, *(quote(one, safe="") for one in passwords)]


def _passwords(dsn: str) -> list[str]:
    passwords: list[str] = []
    _changed(dsn, lambda text: passwords.append(text) or text)  # type: ignore[func-returns-value]
    return [text for text in passwords if text]


def _changed(dsn: str, change: Callable[[str], str]) -> str:
    """Return the connection string with each password replaced by ``change(password)``."""
    is_uri = _URI.match(dsn) is not None

    def put(match: re.Match[str]) -> str:
        before, raw = match[1] or match[3], match[2] or match[4] or ""
        bare = raw[1:-1] if raw.startswith("'") and not is_uri else raw
        text = unquote(raw) if is_uri else _ESCAPED.sub(r"\1", bare)
        changed = change(text)
        if changed == text:
            return match[0]
        return before + (quote(changed, safe="") if is_uri else _quoted(changed))

    return (_IN_URI if is_uri else _IN_PAIRS).sub(put, dsn)


def _quoted(text: str) -> str:
    """Quote a value of a ``key=value`` pair."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
