"""HTTP requests with their complete bodies, and the records of requests in the server's log."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request with its complete body. Header names are in lower case. `raw_query` is the query as it was sent."""

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
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def user_agent(self) -> str:
        return self.headers.get("user-agent", "")

    @property
    def streams(self) -> bool:
        return self.method == "GET" and self.query.get("watch") in {"true", "1"}


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """`at` is a `time.monotonic` value. `code` is 0 if the record was written before the response."""

    method: str
    path: str
    query: str
    accept: str
    user_agent: str
    code: int = 0
    at: float = 0.0
