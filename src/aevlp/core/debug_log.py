"""Messages of other libraries, sent to the debug log instead of the screen."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger("aevlp")


@contextmanager
def to_debug_log(*libraries: str) -> Iterator[None]:
    """Within it, the log messages of these libraries and all Python warnings go to the debug log only."""
    tops = [logging.getLogger(name) for name in libraries]
    below = [  # those that would print by themselves
        logger
        for name, logger in logging.Logger.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and logger.handlers and "." in name and name.partition(".")[0] in libraries
    ]
    before = [(logger, logger.handlers, logger.propagate) for logger in (*tops, *below)]
    # An interrupt may come at any line: it leaves as it came, and what was changed is put back.
    with warnings.catch_warnings(record=True) as caught:
        try:
            for logger in tops:
                logger.handlers, logger.propagate = [_DebugHandler()], False
            for logger in below:
                logger.handlers, logger.propagate = [], True
            yield
        finally:
            for logger, handlers, propagate in before:
                logger.handlers, logger.propagate = handlers, propagate
            for warning in caught:
                log.debug("%s", warning.message)


class _DebugHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log.debug("%s: %s", record.name, record.getMessage())
