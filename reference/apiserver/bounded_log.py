"""A logger that writes only the first errors of each minute, because unauthenticated clients can cause errors."""

import logging
import time

MOST = 20
"""The maximum number of errors logged per minute. The next error is replaced by a line about the limit."""

_SECONDS = 60.0


class _RateLimit(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._since = time.monotonic()
        self._count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._since >= _SECONDS:
            self._since, self._count = now, 0
        self._count += 1
        if self._count > MOST:
            record.msg, record.args = "more request errors occurred; they are not logged for a minute", ()
            record.exc_info = record.exc_text = None
        return self._count <= MOST + 1


log = logging.getLogger("reference.apiserver")
log.addFilter(_RateLimit())
logging.getLogger("asyncio").addFilter(_RateLimit())  # it warns of each write to a connection that its client has reset
