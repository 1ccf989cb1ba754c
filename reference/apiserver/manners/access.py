"""Finds the user of a request, checks permissions, and answers reviews and requests for tokens."""

from __future__ import annotations

import hmac

from reference.apiserver import status
from reference.apiserver.handlers import Request
from reference.apiserver.incoming import Incoming
from reference.apiserver.manners import tokens
from reference.apiserver.manners.authorization import Attributes, Authorizer, attributes_of
from reference.apiserver.manners.reviews import Reviews
from reference.apiserver.manners.users import ADMIN, User, Users, named, service_account
from reference.apiserver.registry import Registry
from reference.apiserver.routes import Route
from reference.client import Object


class Access:
    """The users of one API server and what they may do; the one who has `token` may do everything."""

    def __init__(self, registry: Registry, token: str, users: Users) -> None:
        self._registry = registry
        self._authorization = f"Bearer {token}".encode()
        self._users = users
        self._authorizer = Authorizer(registry)
        self._reviews = Reviews(self._authorizer)

    def authenticate(self, asked: Incoming) -> User:
        """Return the user that a request is from. Raises `ApiError` (401)."""
        given = asked.headers.get("authorization", "")
        if hmac.compare_digest(given.encode(), self._authorization):
            return self._impersonated(ADMIN, asked) if "impersonate-user" in asked.headers else ADMIN
        kind, _, token = given.partition(" ")
        user = self._users.find(token) if kind == "Bearer" else None
        if user is None or not self._exists(user):
            raise status.unauthorized()
        return self._impersonated(user, asked) if "impersonate-user" in asked.headers else user

    def check(self, user: User, wanted: Attributes) -> None:
        """Raise `ApiError` (403) if the user may not do this."""
        if user is not ADMIN:
            self._authorizer.check(user, wanted)

    def check_route(self, user: User, asked: Incoming, route: Route) -> None:
        """Raise `ApiError` (403) if the user may not do what a request for a resource asks."""
        if user is not ADMIN:
            self._authorizer.check(user, attributes_of(asked.method, route, watch=asked.streams))

    def review(self, asked: Incoming, user: User) -> Object | None:
        """Answer a POST of a review; None if it is not one. Raises `ApiError`: 400, 403."""
        return self._reviews.review(asked.path, asked.body, asked.headers.get("content-type", ""), user)

    def issue_token(self, request: Request) -> Object:
        """Answer a request for a ServiceAccount's token (`kubectl create token`). Raises `ApiError`: 400, 404, 422."""
        route = request.route
        if route.resource != "serviceaccounts":
            raise status.no_such_path()
        account = self._registry.get(route.resource, route.namespace, route.name).object["metadata"]
        user = service_account(route.namespace, route.name, account["uid"])
        spec = tokens.asked(request.decoded() if request.body else {})
        token = self._users.add(user, seconds=spec["expirationSeconds"])
        return tokens.request(account, spec, token)

    def _impersonated(self, user: User, asked: Incoming) -> User:
        """Return the user that `user` acts as (`kubectl --as`). Raises `ApiError` (403)."""
        name = asked.headers["impersonate-user"]
        self._authorizer.check(user, Attributes("impersonate", "", "users", name=name))
        every = getattr(asked.headers, "getall", None)
        groups = every("impersonate-group", []) if every else [asked.headers.get("impersonate-group", "")]
        return named(name, [each for each in groups if each])

    def _exists(self, user: User) -> bool:
        """A token of a ServiceAccount is void when that is deleted, also if another one of the name was created."""
        if user.service_account is None:
            return True
        namespace, name, uid = user.service_account
        stored = self._registry.store.get("serviceaccounts", (namespace, name))
        return stored is not None and stored.object["metadata"]["uid"] == uid
