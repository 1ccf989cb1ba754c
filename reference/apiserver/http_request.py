"""An HTTP request whose body was read completely, and the record of a request, which serves as evidence."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request whose body was read completely. `headers` has lower-case names; `raw_query` is the query as sent."""

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
    """A record of one request, as evidence. `query` is as sent; `accept` and `user_agent` are from the headers.

    `at` is the time of the response (monotonic seconds). `code` is the status code, or 0 for streams.
    """

    method: str
    path: str
    query: str
    accept: str
    user_agent: str
    code: int = 0
    at: float = 0.0
