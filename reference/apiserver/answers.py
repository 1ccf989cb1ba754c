"""What is answered at once: everything but watches, what goes on to pods, and the large OpenAPI documents.

It knows nothing of connections, so it is the same whether aiohttp read a request or `connection` did.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from reference.apiserver import handlers, media, metrics, pods_reached, status, tokens
from reference.apiserver.authorization import Attributes, Authorizer, attributes_of
from reference.apiserver.discovery import Discovery
from reference.apiserver.handlers import Request, Response
from reference.apiserver.registry import Registry
from reference.apiserver.reviews import Reviews
from reference.apiserver.routes import Routes
from reference.apiserver.users import ADMIN, User, Users, named, service_account
from reference.client import ApiError, Object

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


class Answers:
    """Answers requests from a registry: all for who has the token, those that they may send for other users."""

    def __init__(self, registry: Registry, token: str, log: deque[RequestRecord], users: Users) -> None:
        """`log` gets a record of each request."""
        self._log = log
        self._registry = registry
        self._authorization = f"Bearer {token}".encode()
        self._routes = Routes(registry)
        self._discovery = Discovery(registry)
        self._users = users
        self._authorizer = Authorizer(registry)
        self._reviews = Reviews(self._authorizer, users, token)

    def answer(self, asked: Incoming) -> Response | None:
        """The answer, errors included; None for what is not answered at once, which is not on record then."""
        if asked.streams or asked.path.startswith("/openapi/") or pods_reached.wanted(asked.path):
            return None
        try:
            answer = self._answer(asked, self.authenticate(asked))
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told and the server goes on
            answer = failure(error, asked)
        self.record(asked, answer.code)
        return answer

    def record(self, asked: Incoming, code: int = 0) -> None:
        """Note a request."""
        agent = asked.headers.get("user-agent", "")
        self._log.append(
            RequestRecord(asked.method, asked.path, asked.raw_query, asked.accept, agent, code, time.monotonic())
        )

    def authenticate(self, asked: Incoming) -> User:
        """Who asks. Raises `ApiError` (401) for who has no token and wants more than to know whether it lives."""
        if asked.path in HEALTH:
            return ADMIN
        given = asked.headers.get("authorization", "")
        if hmac.compare_digest(given.encode(), self._authorization):
            return self._impersonated(ADMIN, asked) if "impersonate-user" in asked.headers else ADMIN
        kind, _, token = given.partition(" ")
        user = self._users.find(token) if kind == "Bearer" else None
        if user is None or not self._exists(user):
            raise status.unauthorized()
        return self._impersonated(user, asked) if "impersonate-user" in asked.headers else user

    def authorize(self, user: User, wanted: Attributes) -> None:
        """Raises `ApiError` (403) for who may not do this."""
        if user is not ADMIN:
            self._authorizer.check(user, wanted)

    def resource_request(self, asked: Incoming, user: User) -> Request:
        """What the handlers need of a request for a resource. Raises `ApiError`: 403, 404, 406."""
        route = self._routes.find(asked.path)
        if user is not ADMIN:
            self._authorizer.check(user, attributes_of(asked.method, route, watch=asked.streams))
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

    def _answer(self, asked: Incoming, user: User) -> Response:
        if asked.path in HEALTH:
            return Response(200, b"ok", content_type="text/plain; charset=utf-8")
        if asked.method == "GET" and (found := self._discovery.find(asked.path, asked.accept)):
            return Response(200, orjson.dumps(found.value), content_type=found.content_type)
        if asked.method == "POST" and (answer := self._review(asked, user)):
            return _json(201, answer)
        if asked.path == metrics.PATH:
            self.authorize(user, Attributes(asked.method.lower(), path=asked.path))
            return Response(200, metrics.text(self._registry.features), content_type=metrics.CONTENT_TYPE)
        request = self.resource_request(asked, user)
        if asked.method == "POST" and request.route.subresource == "token":
            return _json(201, self._issue(request))
        return handlers.handle(self._registry, request)

    def _impersonated(self, user: User, asked: Incoming) -> User:
        """Whom a user acts as (`kubectl --as`). Raises `ApiError` (403)."""
        name = asked.headers["impersonate-user"]
        self._authorizer.check(user, Attributes("impersonate", "", "users", name=name))
        every = getattr(asked.headers, "getall", None)
        groups = every("impersonate-group", []) if every else [asked.headers.get("impersonate-group", "")]
        return named(name, [each for each in groups if each])

    def _review(self, asked: Incoming, user: User) -> Object | None:
        return self._reviews.review(asked.path, asked.body, asked.headers.get("content-type", ""), user)

    def _issue(self, request: Request) -> Object:
        """A token for a ServiceAccount, as `kubectl create token` asks for it."""
        route = request.route
        if route.resource != "serviceaccounts":
            raise status.no_such_path()
        account = self._registry.get(route.resource, route.namespace, route.name).object["metadata"]
        user = service_account(route.namespace, route.name, account["uid"])
        spec = tokens.asked(request.decoded() if request.body else {})
        token = self._users.add(user, seconds=spec["expirationSeconds"])
        return tokens.request(account, spec, token)

    def _exists(self, user: User) -> bool:
        """A ServiceAccount that is deleted, or made anew, is nobody to whom a token was given."""
        if user.service_account is None:
            return True
        namespace, name, uid = user.service_account
        stored = self._registry.store.get("serviceaccounts", (namespace, name))
        return stored is not None and stored.object["metadata"]["uid"] == uid


def failure(error: Exception, asked: Incoming) -> Response:
    """What a client is told of an error; one that is not part of the API is logged."""
    if isinstance(error, ApiError):
        return _json(error.code, error.status)
    _log.error("%s %s", asked.method, asked.path, exc_info=error)
    return _json(500, status.internal(repr(error)).status)


def _json(code: int, value: Any) -> Response:
    return Response(code, orjson.dumps(value))
