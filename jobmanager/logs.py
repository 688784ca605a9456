"""Structured logs: one JSON object a line, warnings only unless configured to be verbose.

Logs go to standard error. With :data:`LOG_FILE` in the environment they go to that file instead.
The file rotates, so a job that runs for months does not fill the disk.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from logging.handlers import RotatingFileHandler

from rstream.errors import UsageError
from rvertex.messages import VertexFailed

#: The environment variable that names the file for logs.
LOG_FILE = "STREAMSCOPE_LOG_FILE"
#: The logger of librdkafka's messages.
CLIENT = "rvertex.sinks.kafka.client"
#: Size at which the log file rotates, bytes, and the number of former files that are kept.
LOG_BYTES_MAX = 16 << 20
LOG_FILES_MAX = 4
#: Seconds before an equal message of librdkafka is logged again, and how many are remembered.
REPEAT_S_MIN, REPEATED_MAX = 30.0, 1_000
#: Text that may differ between messages that count as equal: the client's number, a duration.
_VARYING = re.compile(r"rdkafka#\w+-\d+|\d+ ?ms")
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time, level, logger, message, and the fields of ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
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


class Repeated(logging.Filter):
    """Drops a message that equals a recent one.

    librdkafka reports an unreachable broker about twenty times a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is new."""
        key = f"{record.name} {_VARYING.sub('', record.getMessage())}"
        if record.created - self._last.get(key, float("-inf")) < REPEAT_S_MIN:
            return False
        if len(self._last) >= REPEATED_MAX:
            self._last.clear()
        self._last[key] = record.created
        return True


def note(logger: logging.Logger, notice: object) -> None:
    """Log a notice, as a warning if a user must know of it although the job continues."""
    if isinstance(notice, VertexFailed) and notice.family == "checkpoint":
        logger.warning(
            "vertex %s cannot start from its checkpoint: %s; it starts from an older "
            "checkpoint, or from the start of its sources if they still have all rows",
            notice.vertex,
            notice.message,
        )
    logger.info("notice", extra={"notice": repr(notice)})


def configure(*, verbose: bool) -> None:
    """Send this project's logs to standard error, or to their file: warnings, or everything.

    Raises:
        UsageError: the file cannot be written.
    """
    for former in logging.getLogger(CLIENT).filters[:]:
        logging.getLogger(CLIENT).removeFilter(former)
    logging.getLogger(CLIENT).addFilter(Repeated())
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
