"""Answers every request at once, but for watches, requests that go on to pods, and the large OpenAPI documents.

It knows nothing of connections, so it is the same whether aiohttp read a request or `connection` did.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import Any

import orjson

from reference.apiserver import handlers, media, metrics, status
from reference.apiserver.authz import authorization, reviews
from reference.apiserver.authz.authorization import Attributes, attributes_of
from reference.apiserver.authz.users import ADMIN, User, Users
from reference.apiserver.discovery import Discovery
from reference.apiserver.handlers import Request, Response
from reference.apiserver.http_request import HttpRequest, RequestRecord
from reference.apiserver.pod_access import pod_location
from reference.apiserver.registry import Registry
from reference.apiserver.routes import Routes
from reference.client import ApiError

HEALTH = frozenset({"/healthz", "/livez", "/readyz"})

_log = logging.getLogger(__name__)


class Dispatcher:
    """Answers requests from a registry, as far as the user may send them."""

    def __init__(self, registry: Registry, log: deque[RequestRecord], users: Users) -> None:
        """`log` gets a record of each request."""
        self._log = log
        self._registry = registry
        self._routes = Routes(registry)
        self._discovery = Discovery(registry)
        self._users = users

    def answer(self, asked: HttpRequest) -> Response | None:
        """Return the answer, errors included; None for a request that is answered later, and recorded then."""
        if asked.streams or asked.path.startswith("/openapi/") or pod_location.wanted(asked.path):
            return None
        try:
            answer = self._answer(asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told and the server goes on
            answer = failure(error, asked)
        self.record(asked, answer.code)
        return answer

    def record(self, asked: HttpRequest, code: int = 0) -> None:
        """Note a request."""
        agent = asked.headers.get("user-agent", "")
        self._log.append(
            RequestRecord(asked.method, asked.path, asked.raw_query, asked.accept, agent, code, time.monotonic())
        )

    def authenticate(self, asked: HttpRequest) -> User:
        """Return the user that a request is from; health checks need none. Raises `ApiError` (401)."""
        return ADMIN if asked.path in HEALTH else self._users.authenticate(asked.headers.get("authorization", ""))

    def resource_request(self, asked: HttpRequest, user: User) -> Request:
        """Return what the handlers need to answer a request for a resource. Raises `ApiError`: 403, 404, 406."""
        route = self._routes.find(asked.path)
        if user is not ADMIN:
            authorization.check(user, attributes_of(asked.method, route, watch=asked.streams))
        answer = media.negotiate(asked.accept)
        if answer is None:
            raise status.not_acceptable((media.JSON,))
        return Request(
            method=asked.method,
            route=route,
            query=asked.query,
            answer=answer,
            content_type=asked.headers.get("content-type", ""),
            user_agent=asked.headers.get("user-agent", ""),
            body=asked.body,
        )

    def _answer(self, asked: HttpRequest) -> Response:
        user = self.authenticate(asked)
        if asked.method == "GET" and asked.path in HEALTH:
            return Response(200, b"ok", content_type="text/plain; charset=utf-8")
        if asked.method == "GET" and (found := self._discovery.find(asked.path)):
            return _json(200, found)
        if asked.method == "POST" and (answer := reviews.review(asked, user)):
            return _json(201, answer)
        if asked.method == "GET" and asked.path == metrics.PATH:
            authorization.check(user, Attributes(asked.method.lower(), path=asked.path))
            return Response(200, metrics.text(self._registry.features), content_type=metrics.CONTENT_TYPE)
        return handlers.handle(self._registry, self.resource_request(asked, user))


def failure(error: Exception, asked: HttpRequest) -> Response:
    """Return the answer to a request that failed; an error that is not part of the API is logged."""
    if isinstance(error, ApiError):
        return _json(error.code, error.status)
    _log.error("%s %s", asked.method, asked.path, exc_info=error)
    return _json(500, status.internal(repr(error)).status)


def _json(code: int, value: Any) -> Response:
    return Response(code, orjson.dumps(value))
