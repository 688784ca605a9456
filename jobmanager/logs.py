"""Structured logs: one JSON object a line, quiet unless asked for."""

from __future__ import annotations

import json
import logging
import sys
import time

from rvertex.messages import VertexFailed

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
    """Send this project's logs to standard error: warnings, or everything."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("rstream", "rvertex", "planner", "jobmanager"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO if verbose else logging.WARNING)
        logger.propagate = False
