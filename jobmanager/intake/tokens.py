"""Bearer tokens: where they are read, and who has one."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

from jobmanager.intake.errors import IntakeConfigError, NoTokenError

TOKEN = "STREAMSCOPE_INTAKE_TOKEN"
TOKEN_CHARS_MIN = 16


def read_tokens(token_file: str | None) -> list[bytes]:
    """The tokens of a file, one a line, or the one in the environment; empty: there is none.

    Raises:
        IntakeConfigError: the file cannot be read, or a token is too short.
    """
    if token_file is None:
        place, text = TOKEN, os.environ.get(TOKEN, "")
    else:
        place = token_file
        try:
            text = Path(token_file).read_text()
        except (OSError, ValueError) as error:
            raise IntakeConfigError(token_file, str(error)) from error
        if not text.strip():
            raise IntakeConfigError(token_file, "it has no token; one a line")
    found = [line.strip().encode() for line in text.splitlines() if line.strip()]
    if any(len(token) < TOKEN_CHARS_MIN for token in found):
        raise IntakeConfigError(place, f"a token has at least {TOKEN_CHARS_MIN} characters")
    return found


def check_token(authorization: str, tokens: list[bytes]) -> None:
    """Compare what a request carries, in constant time; without ``tokens`` everybody is let in.

    Raises:
        NoTokenError: it is none of ``tokens``.
    """
    if not tokens:
        return
    scheme, _, given = authorization.partition(" ")
    found = [hmac.compare_digest(given.strip().encode(), token) for token in tokens]
    if scheme.lower() != "bearer" or not any(found):
        raise NoTokenError
