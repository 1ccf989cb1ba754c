"""A request as it came over HTTP, read to its end, and what is kept of it as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it came, read to its end. `headers` finds lower-case names; `raw_query` is for the record."""

    method: str
    path: str
    raw_query: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def accept(self) -> str:
        return self.headers.get("accept", "")

    @property
    def streams(self) -> bool:
        """True for a watch."""
        return self.method == "GET" and self.query.get("watch") in {"true", "1"}


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request, as evidence: `query` as it was sent, `accept` and `user_agent` from the headers.

    `at` is when it was answered (monotonic seconds), `code` the status code: 0 for what is answered later, in parts.
    """

    method: str
    path: str
    query: str
    accept: str
    user_agent: str
    code: int = 0
    at: float = 0.0
