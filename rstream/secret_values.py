"""Secrets outside of plans: ``env:NAME`` and ``file:/PATH``.

A query refers to its secrets this way. The process that uses a secret reads it at that moment and
does not store it, so the job's folder, status and logs contain only the reference.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from rstream.errors import MissingSecretError, SecretInPathError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENV, FILE = "env:", "file:"
HIDDEN = "..."
#: A longer file, in bytes, is not a secret: the reference names the wrong file.
SECRET_BYTES_MAX = 1 << 20
_OPTION = re.compile(r"password|secret|jaas|user\.info|oauthbearer\.config|key\.pem|token(?!\.)")
#: Matches, in a text, an option that is a secret, and its value with or without quotes.
_SET = re.compile(
    r"(?:password|secret|jaas|user\.info|oauthbearer\.config|key\.pem)[\w.]*['\"]?\s*=\s*"
    r"(?P<value>'(?:[^']|'')*'|[^\s'&]+)",
    re.IGNORECASE,
)
#: Matches URL parameters that grant access, by their names in S3, Google, Azure and others.
_SIGNED = re.compile(
    r"[?&](x-amz-signature|x-amz-security-token|x-goog-signature|signature|sig|(access_?)?token"
    r"|api_?key)=[^&]",
    re.IGNORECASE,
)
_UNSIGNED = (
    "name the file in its store, as in s3://BUCKET/PATH, with credentials from the environment, "
    "or download it first"
)
#: A placeholder in a text: ``%s``, ``%(name)s`` or ``{name}``.
_PLACEHOLDER = re.compile(r"%(\(\w+\))?s|\{\w*\}")
_USER = re.compile(r"(?P<user>://[^:/@\s]*):(?P<password>file:[^@\s]*|[^@/\s]*)@")


def is_reference(text: str) -> bool:
    """Return whether ``text`` is a reference to a secret."""
    return text.startswith((ENV, FILE))


def secret_value(what: str, text: str) -> str:
    """Return ``text``, or the secret it refers to, without a newline at the end of a file.

    Args:
        what: the option, for messages.
        text: the secret itself, ``env:NAME`` or ``file:/PATH``.

    Raises:
        MissingSecretError: this process cannot read the secret.
    """
    if text.startswith(ENV):
        name = text.removeprefix(ENV)
        if name not in os.environ:
            raise MissingSecretError(what, text, f"this process has no environment variable {name}")
        return os.environ[name]
    return _content(what, text) if text.startswith(FILE) else text


def _content(what: str, text: str) -> str:
    path = text.removeprefix(FILE)
    if not os.path.isabs(path):
        raise MissingSecretError(what, text, "the path of a secret must be absolute: file:/PATH")
    try:
        with open(path, "rb") as file:
            data = file.read(SECRET_BYTES_MAX + 1)
        if len(data) > SECRET_BYTES_MAX:
            raise MissingSecretError(what, text, f"it is larger than {SECRET_BYTES_MAX:,} bytes")
        return data.decode().rstrip("\r\n")
    except OSError as error:
        raise MissingSecretError(what, text, f"it cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise MissingSecretError(what, text, "it is not UTF-8 text") from None


def is_secret_option(name: str) -> bool:
    """Return whether an option of that name holds a secret in any client library."""
    return _OPTION.search(name.lower()) is not None


def secrets_of(config: Mapping[str, str]) -> list[str]:
    """Return the secrets of resolved options, which must not appear in messages."""
    return [value for name, value in config.items() if is_secret_option(name)]


def password_of(url: str) -> str | None:
    """Return the password in a URL, or the reference to it; None if it has no password."""
    match = _USER.search(url)
    return None if match is None else unquote(match["password"]) or None


def has_literal_password(url: str) -> bool:
    """Return whether a URL contains a password itself, not a reference."""
    return not is_reference(password_of(url) or ENV)


def without_password(url: str) -> str:
    """Return a URL without its password, for messages."""
    return _USER.sub(r"\g<user>@", url)


def user_of(url: str) -> str:
    """Return ``user:password`` of a URL with the password resolved; empty if it has no user."""
    match = _USER.search(url)
    if match is None:
        return ""
    user = unquote(match["user"].removeprefix("://"))
    return f"{user}:{secret_value('a password in a URL', unquote(match['password']))}"


def without_user(url: str) -> str:
    """Return a URL without user and password."""
    return _USER.sub("://", url)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Remove the secrets from a library's message, which may repeat them."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def with_stars(text: str) -> str:
    """Replace the secrets in a line of code by stars. Its length does not change."""

    def starred(match: re.Match[str], group: str) -> str:
        value = match[group]
        if is_reference(value.strip("'")) or _PLACEHOLDER.fullmatch(value.strip("'")):
            return match[0]
        lo, hi = match.start(group) - match.start(), match.end(group) - match.start()
        return match[0][:lo] + re.sub(r"[^']", "*", value) + match[0][hi:]

    text = _USER.sub(lambda match: starred(match, "password"), text)
    return _SET.sub(lambda match: starred(match, "value"), text)


def resolved_path(uri: str) -> tuple[str, dict[str, str]]:
    """Return the URI of a store without its password reference, and the password as an option.

    Example of a reference: ``ftp://me:env:NAME@host/path``.

    Raises:
        SecretInPathError: the URI contains the password itself, a signature or a token.
        MissingSecretError: this process cannot read the password.
    """
    if "://" in uri and _SIGNED.search(uri):
        path = without_password(uri).partition("?")[0]
        raise SecretInPathError(f"the URL of {path}", "a signature or a token", _UNSIGNED)
    password = password_of(uri)
    if password is None:
        return uri, {}
    bare = without_password(uri)
    if not is_reference(password):
        raise SecretInPathError(bare)
    return bare, {"password": secret_value(f"the password of {bare}", password)}
