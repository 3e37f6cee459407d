"""What `loopcore serve` prints on standard error: the records of the logger `loopcore`, as lines."""

import logging
import sys
from typing import Final

from loopcore.errors import UsageError
from loopcore.log import own_logger

CANNOT_SERVE: Final = 2
"""Exit code if the application is not found or the address cannot be bound; errors of the command have it, too."""
STARTUP_FAILED: Final = 3
"""Exit code of an application that refused to start, as uvicorn has it."""


class _Lines(logging.Formatter):
    """Formats a record as a line; a UsageError says enough without its traceback."""

    def __init__(self) -> None:
        super().__init__("loopcore: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, UsageError):
            record = logging.makeLogRecord(record.__dict__ | {"exc_info": None, "exc_text": None})
        return super().format(record)


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for the group's report of a member that has said itself why it cannot serve."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, SystemExit) and error.code in (CANNOT_SERVE, STARTUP_FAILED))


def report_to_stderr() -> None:
    """Print what loopcore logs, in this process, unless the program has set up its logger. Idempotent."""
    if not own_logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Lines())
        handler.addFilter(_is_news)
        own_logger.addHandler(handler)
        own_logger.setLevel(logging.INFO)
