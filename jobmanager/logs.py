"""Structured logs: one JSON object a line, quiet unless asked for.

They go to standard error. With :data:`LOG_FILE` in the environment they go to that file, which
rotates, so that a job that runs for months fills no disk with them.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from logging.handlers import RotatingFileHandler

from rstream.errors import UsageError
from rvertex.messages import VertexFailed

#: The environment variable that names the file for logs.
LOG_FILE = "STREAMSCOPE_LOG_FILE"
#: It is begun anew when it is so long, and so many former ones are kept.
LOG_BYTES_MAX = 16 << 20
LOG_FILES_MAX = 4
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message, and whatever ``extra`` carried."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        fields = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields.update({k: str(v) for k, v in record.__dict__.items() if k not in _STANDARD})
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def note(logger: logging.Logger, notice: object) -> None:
    """Log a notice: as a warning what a user must know though the job goes on."""
    if isinstance(notice, VertexFailed) and notice.family == "checkpoint":
        logger.warning(
            "vertex %s cannot start where it should: %s; it starts from an older checkpoint, or "
            "from its sources where these reach back",
            notice.vertex,
            notice.message,
        )
    logger.info("notice", extra={"notice": repr(notice)})


def configure(*, verbose: bool) -> None:
    """Send this project's logs to standard error, or to their file: warnings, or everything.

    Raises:
        UsageError: the file cannot be written.
    """
    handler = _handler()
    handler.setFormatter(JsonFormatter())
    for name in ("rstream", "rvertex", "planner", "jobmanager"):
        logger = logging.getLogger(name)
        for former in logger.handlers:
            former.close()
        logger.handlers = [handler]
        logger.setLevel(logging.INFO if verbose else logging.WARNING)
        logger.propagate = False


def _handler() -> logging.Handler:
    path = os.environ.get(LOG_FILE)
    if not path:
        return logging.StreamHandler(sys.stderr)
    try:
        return RotatingFileHandler(path, maxBytes=LOG_BYTES_MAX, backupCount=LOG_FILES_MAX)
    except OSError as error:
        raise UsageError(f"{LOG_FILE}={path}: {error.strerror}") from error
