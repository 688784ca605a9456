"""Which errors of PostgreSQL end a delivery, and which are retried: one table by SQLSTATE.

The server sends no SQLSTATE when it refuses a connection, so those errors are recognised by their
text. Every error that is not listed here is retried: a lost connection, a full disk, a lock, too
many connections, a server that starts or shuts down, a standby that cannot write yet.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rstream.connection_strings import without_passwords

#: Advice for a value that does not fit its column or violates a constraint.
ROWS = "correct the rows in the query, or change the table"
_TABLE = "correct the table"
_SERVER = "correct the table or the settings of the server"
_LOGIN = "correct the user, the password or the database of the connection string"
_GRANT = "grant the user INSERT, SELECT and UPDATE on the tables, and CREATE on the schema"


#: The statement as the client quotes it in front of the server's message.
_STATEMENT = re.compile(r"Failed to execute query '.*?': (?=ERROR|FATAL|PANIC)")


class Refusal(NamedTuple):
    """An error that a retry cannot fix. ``is_rows``: caused by the rows, not by table or server."""

    is_rows: bool
    advice: str


_BAD_ROWS = Refusal(True, ROWS)
#: By SQLSTATE or its class (first two characters); a full code takes precedence. None: retry.
REFUSALS: dict[str, Refusal | None] = {
    "0A": Refusal(False, _TABLE),  # feature not supported
    "21": _BAD_ROWS,  # cardinality violation
    "22": _BAD_ROWS,  # data exception: a value that the type cannot hold
    "23": _BAD_ROWS,  # constraint violation
    "27": _BAD_ROWS,  # triggered data change violation
    "28": Refusal(False, _LOGIN),
    "2F": _BAD_ROWS,  # a function that a trigger or a default calls
    "38": _BAD_ROWS,
    "39": _BAD_ROWS,
    "3D": Refusal(False, _LOGIN),  # no such database
    "3F": Refusal(False, "create the schema"),
    "42": Refusal(False, _TABLE),
    "42501": Refusal(False, _GRANT),
    "44": _BAD_ROWS,  # the check option of a view
    "54": _BAD_ROWS,  # a limit of the server, such as index entries of at most 2.7 kB
    "54011": Refusal(False, "a table has at most 1600 columns"),
    "55": Refusal(False, _SERVER),
    "55006": None,  # object in use
    "55P03": None,  # lock not available
    "57P04": Refusal(False, _LOGIN),  # the database was dropped
    "F0": Refusal(False, _SERVER),
    "P0": _BAD_ROWS,  # raised by a trigger or function (PL/pgSQL)
}
#: Texts of refused connections, in English, from the server and from the client.
_REFUSED_LOGINS = re.compile(
    r"authentication failed|no password supplied|role .* does not exist|database .* does not exist"
    r"|not permitted to log in|no pg_hba\.conf entry|pg_hba\.conf rejects|permission denied for"
    r"|invalid port number|does not support SSL|requires? SSL|certificate"
    r"|password retrieved from file|GSSAPI|too old|unsupported frontend protocol"
)
#: Texts of the client for a connection string that it cannot parse.
_UNREADABLE = ("connection option", "connection info string", "invalid URI", " URI ")


def sqlstate(error: Exception) -> str:
    """Return the SQLSTATE of an error; empty if the connection was lost."""
    return str(getattr(error, "sqlstate", None) or "")


def refusal_of(state: str) -> Refusal | None:
    """Return why an error with this SQLSTATE ends the delivery; None: retry."""
    return REFUSALS[state] if state in REFUSALS else REFUSALS.get(state[:2])


def login_refusal(reason: str) -> Refusal | None:
    """Return why a failed connection ends the delivery; None: retry."""
    if any(word in reason for word in _UNREADABLE) or _REFUSED_LOGINS.search(reason):
        return Refusal(False, _LOGIN)
    return None


def shown_reason(reason: str, dsn: str) -> str:
    """Return the client's message without parts of the connection string.

    These may contain a password.
    """
    if any(word in reason for word in _UNREADABLE):
        return "the connection string cannot be read: it is a uri or key=value pairs of libpq"
    return without_passwords(reason, dsn)


def one_line(error: Exception) -> str:
    """Return the server's message in one line, without the statement that precedes it."""
    return _STATEMENT.sub("", " ".join(str(error).split()))
