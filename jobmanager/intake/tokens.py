"""Bearer tokens: reads the valid ones, and checks those of requests."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

from jobmanager.intake.errors import IntakeConfigError, NoTokenError
from rstream.secret_values import is_reference, secret_value

TOKEN = "STREAMSCOPE_INTAKE_TOKEN"
TOKEN_CHARS_MIN = 16


def read_tokens(token_file: str | None) -> list[bytes]:
    """Return the tokens in a file, one per line, or the one in the environment; may be empty.

    A token may name a secret (:mod:`rstream.secret_values`), and so may ``token_file``.

    Raises:
        MissingSecretError: a secret cannot be read.
        IntakeConfigError: the file cannot be read, or a token is too short.
    """
    place, text = TOKEN, os.environ.get(TOKEN, "")
    if token_file is not None:
        place, text = token_file, _content(token_file)
    elif is_reference(text):
        place, text = text, secret_value(TOKEN, text)
    if not text.strip() and place != TOKEN:
        raise IntakeConfigError(place, "it has no token; write one per line")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    tokens = [secret_value(f"a token of {place}", line).strip().encode() for line in lines]
    if any(len(token) < TOKEN_CHARS_MIN for token in tokens):
        raise IntakeConfigError(place, f"a token must have at least {TOKEN_CHARS_MIN} characters")
    return tokens


def _content(token_file: str) -> str:
    if is_reference(token_file):
        return secret_value("--token-file", token_file)
    try:
        return Path(token_file).read_text()
    except (OSError, ValueError) as error:
        raise IntakeConfigError(token_file, str(error)) from error


def check_token(authorization: str, tokens: list[bytes]) -> None:
    """Check the header of a request, in constant time. Without ``tokens``, accept all requests.

    Raises:
        NoTokenError: the header has none of ``tokens``.
    """
    if not tokens:
        return
    scheme, _, given = authorization.partition(" ")
    matches = [hmac.compare_digest(given.strip().encode(), token) for token in tokens]
    if scheme.lower() != "bearer" or not any(matches):
        raise NoTokenError
