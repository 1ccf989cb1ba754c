"""What is answered at once: everything but watches, what goes on to pods, and the large OpenAPI documents.

It knows nothing of connections, so it is the same whether aiohttp read a request or `connection` did.
"""

from __future__ import annotations

import hmac
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from reference.apiserver import handlers, media, pods_reached, status
from reference.apiserver.discovery import Discovery
from reference.apiserver.handlers import Request, Response
from reference.apiserver.registry import Registry
from reference.apiserver.reviews import review
from reference.apiserver.routes import Routes
from reference.client import ApiError

HEALTH = frozenset({"/healthz", "/livez", "/readyz"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Incoming:
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
        """Whether it is a watch."""
        return self.method == "GET" and self.query.get("watch") in {"true", "1"}


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request, as evidence: `query` as it was sent, `accept` and `user_agent` from the headers."""

    method: str
    path: str
    query: str
    accept: str
    user_agent: str


class Answers:
    """Answers requests from a registry, for who has the token."""

    def __init__(self, registry: Registry, token: str, log: deque[RequestRecord]) -> None:
        """`log` gets a record of each request."""
        self._log = log
        self._registry = registry
        self._authorization = f"Bearer {token}".encode()
        self._routes = Routes(registry)
        self._discovery = Discovery(registry)

    def answer(self, asked: Incoming) -> Response | None:
        """The answer, errors included; None for what is not answered at once, which is not on record then."""
        if asked.streams or asked.path.startswith("/openapi/") or pods_reached.wanted(asked.path):
            return None
        self.record(asked)
        try:
            self.authenticate(asked)
            return self._answer(asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told and the server goes on
            return failure(error, asked)

    def record(self, asked: Incoming) -> None:
        """Note a request."""
        agent = asked.headers.get("user-agent", "")
        self._log.append(RequestRecord(asked.method, asked.path, asked.raw_query, asked.accept, agent))

    def authenticate(self, asked: Incoming) -> None:
        """Raises `ApiError` (401) for who has no token and wants more than to know whether the server lives."""
        if asked.path in HEALTH:
            return
        if not hmac.compare_digest(asked.headers.get("authorization", "").encode(), self._authorization):
            raise status.unauthorized()

    def resource_request(self, asked: Incoming) -> Request:
        """What the handlers need of a request for a resource. Raises `ApiError`: 404, 406."""
        route = self._routes.find(asked.path)
        answer = media.negotiate(asked.accept)
        if answer is None:
            raise status.not_acceptable(media.READABLE)
        return Request(
            method=asked.method,
            route=route,
            query=asked.query,
            answer=answer,
            content_type=asked.headers.get("content-type", ""),
            user_agent=asked.headers.get("user-agent", ""),
            body=asked.body,
        )

    def _answer(self, asked: Incoming) -> Response:
        if asked.path in HEALTH:
            return Response(200, b"ok", content_type="text/plain; charset=utf-8")
        if asked.method == "GET" and (found := self._discovery.find(asked.path, asked.accept)):
            return Response(200, orjson.dumps(found.value), content_type=found.content_type)
        if asked.method == "POST" and (answer := review(asked.path, asked.body)):
            return _json(201, answer)
        return handlers.handle(self._registry, self.resource_request(asked))


def failure(error: Exception, asked: Incoming) -> Response:
    """What a client is told of an error; one that is not part of the API is logged."""
    if isinstance(error, ApiError):
        return _json(error.code, error.status)
    _log.error("%s %s", asked.method, asked.path, exc_info=error)
    return _json(500, status.internal(repr(error)).status)


def _json(code: int, value: Any) -> Response:
    return Response(code, orjson.dumps(value))
