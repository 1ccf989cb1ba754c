"""The API server's clock, told by the Date of its answers: the one clock that all runs against it share."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from harness.api.client import Response


class ServerClock:
    """Exact to a second, and to as long as an answer takes; this machine's clock until there was an answer."""

    def __init__(self) -> None:
        self._told = datetime.now(UTC)
        self._at = time.monotonic()
        self.ahead = timedelta()

    def saw(self, response: Response) -> Response:
        """Learn from an answer, and give it back."""
        try:
            told = parsedate_to_datetime(response.date)
        except ValueError:
            return response
        self._told, self._at = told, time.monotonic()
        self.ahead = told - datetime.now(UTC)
        return response

    def now(self) -> datetime:
        """What the server's clock shows now."""
        return self._told + timedelta(seconds=time.monotonic() - self._at)
