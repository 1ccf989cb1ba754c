"""Handlers for the API verbs (get, list, create and others). A handler never blocks."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from reference.apiserver import apply, deletion, media, patches, reads, scale, status, writes
from reference.apiserver.deletion import DeleteOptions
from reference.apiserver.http_request import HttpRequest
from reference.apiserver.kinds import Scale, shapes
from reference.apiserver.media import ResponseForm
from reference.apiserver.registry import Registry, Write
from reference.apiserver.render import Renderer
from reference.apiserver.routes import Route
from reference.apiserver.selectors import Selection, select
from reference.apiserver.store import StoredObject
from reference.client import Object

_DELETE_OPTIONS: shapes.Shape = {
    "apiVersion": shapes.STRING,
    "kind": shapes.STRING,
    "gracePeriodSeconds": shapes.INTEGER,
    "preconditions": {"uid": shapes.STRING, "resourceVersion": shapes.STRING},
    "dryRun": [shapes.STRING],
    shapes.OTHERS: shapes.ANY,
}
_INT64 = 1 << 63
MAX_WARNING_LETTERS = 4096
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_RETURN_DELETED = frozenset({"pods", "services"})  # the other kinds answer with a Status


@dataclass(frozen=True, slots=True)
class Request:
    http: HttpRequest
    route: Route
    answer: ResponseForm

    @property
    def renderer(self) -> Renderer:
        return Renderer(self.route, self.answer, self.http.query.get("includeObject", ""))

    def decoded(self) -> Any:
        return media.decode(self.http.body, self.http.content_type)


@dataclass(frozen=True, slots=True)
class Response:
    code: int
    body: bytes
    warnings: tuple[str, ...] = ()
    content_type: str = media.JSON

    def warning_headers(self) -> list[str]:
        """Return `Warning` headers. As in Kubernetes, limit their length and omit messages with control characters."""
        sound = [each for each in self.warnings if not _CONTROL.search(each)]
        if sum(map(len, sound)) > MAX_WARNING_LETTERS:
            sound = [each[:256] for each in sound]
            ends = itertools.accumulate(map(len, sound))
            sound = [each for each, end in zip(sound, ends, strict=True) if end <= MAX_WARNING_LETTERS]
        quoted = [each.replace("\\", "\\\\").replace('"', '\\"') for each in sound]
        return [f'299 - "{each}"' for each in quoted]


def handle(registry: Registry, request: Request) -> Response:
    """Return the response to a request for a resource, except a watch. Raises `ApiError`."""
    if request.http.method == "POST" and request.route.subresource == "eviction":
        return _evict(registry, request)
    route, resource = request.route, request.route.strategy.resource
    if route.subresource == "scale" and route.name and route.strategy.scale is not None:
        return _scale(registry, request, route.strategy.scale)
    if route.subresource and not (route.subresource == "status" and resource.has_status):
        raise status.no_such_path()
    by_method = _ON_OBJECT if route.name else _ON_COLLECTION
    if route.subresource or (resource.namespaced and not route.namespace):
        by_method = {method: verb for method, verb in by_method.items() if method not in {"DELETE", "POST"}}
    verb = by_method.get(request.http.method)
    if verb is None:
        raise status.method_not_allowed(request.http.method)
    if request.answer.form == "table":
        _ = request.renderer  # refuses invalid parameters before anything is stored
    return verb(registry, request)


def selection(request: Request) -> Selection:
    """Parse the selectors of a list or watch. If the path contains a name, select only the object with this name."""
    route, query = request.route, request.http.query
    fields = query.get("fieldSelector", "")
    if route.name:
        fields = ",".join(filter(None, (fields, f"metadata.name={route.name}")))
    return select(route.strategy, route.namespace, query.get("labelSelector", ""), fields)


def _get(registry: Registry, request: Request) -> Response:
    route = request.route
    return _object(request, 200, registry.get(route.resource, route.namespace, route.name))


def _list(registry: Registry, request: Request) -> Response:
    query = request.http.query
    asked = reads.ListQuery(
        limit=integer(query, "limit") or 0,
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
    )
    page = reads.page(registry, request.route.resource, selection(request), asked)
    return Response(200, request.renderer.page_json(page))


def _create(registry: Registry, request: Request) -> Response:
    call, obj = _call(request), _stored_form(request)
    return _object(request, 201, writes.create(registry, request.route, obj, call), call)


def _update(registry: Registry, request: Request) -> Response:
    call, obj = _call(request), _stored_form(request)
    return _object(request, 200, writes.update(registry, request.route, obj, call), call)


def _patch(registry: Registry, request: Request) -> Response:
    call, target = _call(request), request.route
    content_type = media.parse(request.http.content_type)[0]
    known = patches.types_of(request.route.strategy.resource)
    if content_type not in known:
        raise status.unsupported_media(content_type, known)
    value = request.decoded()
    if content_type != patches.APPLY:
        return _object(request, 200, patches.patch(registry, target, content_type, value, call), call)
    if not request.http.query.get("fieldManager"):
        raise status.bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        )
    force = request.http.query.get("force", "").lower() in {"true", "1"}
    stored, is_new = apply.apply(registry, target, value, call, force=force)
    return _object(request, 201 if is_new else 200, stored, call)


def _delete(registry: Registry, request: Request) -> Response:
    options, call = _delete_options(request)
    deleted = deletion.delete(registry, request.route, options, call)
    if deleted.remains or request.route.resource in _RETURN_DELETED:
        return _object(request, 200, deleted.stored)
    meta = deleted.stored.object["metadata"]
    answer = status.success(request.route.strategy.resource, meta["name"], meta["uid"])
    return Response(200, orjson.dumps(answer))


def _delete_collection(registry: Registry, request: Request) -> Response:
    options, call = _delete_options(request)
    deleted = deletion.delete_collection(registry, request.route.resource, selection(request), options, call)
    page = reads.ListPage(deleted, registry.store.revision)
    return Response(200, request.renderer.page_json(page))


def _evict(registry: Registry, request: Request) -> Response:
    """Delete a pod. This server has no PodDisruptionBudgets, so it allows every eviction."""
    route, body = request.route, request.decoded()
    if route.resource != "pods":
        raise status.no_such_path()
    if not isinstance(body, dict) or body.get("kind", "Eviction") != "Eviction":
        raise status.bad_request("the body of the request is not an Eviction")
    if ((body.get("metadata") or {}).get("name") or route.name) != route.name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    options, call = _read_options(request, body.get("deleteOptions") or {})
    deletion.delete(registry, route, options, call)
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(201, orjson.dumps(done))


def _scale(registry: Registry, request: Request, fields: Scale) -> Response:
    target, call = request.route, _call(request)
    method = request.http.method
    if method not in {"GET", "PUT", "PATCH"}:
        raise status.method_not_allowed(method)
    if method == "GET":
        found = scale.read(registry.get(target.resource, target.namespace, target.name), fields)
    else:
        patch_type = media.parse(request.http.content_type)[0] if method == "PATCH" else ""
        found = scale.write(registry, target, fields, request.decoded(), call, patch_type=patch_type)
    return Response(200, orjson.dumps(found), tuple(call.warnings))


_ON_OBJECT = {"GET": _get, "PUT": _update, "PATCH": _patch, "DELETE": _delete}
_ON_COLLECTION = {"GET": _list, "POST": _create, "DELETE": _delete_collection}


def _object(request: Request, code: int, stored: StoredObject, call: Write | None = None) -> Response:
    return Response(code, request.renderer.json(stored), tuple(call.warnings) if call else ())


def _stored_form(request: Request) -> Object:
    obj = request.decoded()
    if request.route.view is None or not isinstance(obj, dict):
        return obj  # type: ignore[no-any-return]  # a write refuses anything else
    return request.route.view.to_stored(obj)


def _call(request: Request) -> Write:
    query = request.http.query
    validation = query.get("fieldValidation") or "Warn"
    if validation not in {"Ignore", "Warn", "Strict"}:
        raise status.bad_request(f'fieldValidation: Unsupported value: "{validation}"')
    manager = query.get("fieldManager") or request.http.user_agent.partition("/")[0] or "unknown"
    return Write(_dry_run(query.get("dryRun")), manager[:128], validation)  # type: ignore[arg-type]  # checked above


def _delete_options(request: Request) -> tuple[DeleteOptions, Write]:
    return _read_options(request, request.decoded() if request.http.body else {})


def _read_options(request: Request, body: Any) -> tuple[DeleteOptions, Write]:
    if not isinstance(body, dict):
        raise status.bad_request("the body of a DELETE request must be a DeleteOptions object")
    try:
        shapes.conform(body, _DELETE_OPTIONS)
    except ValueError as error:
        raise status.bad_request(str(error)) from None
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    options = DeleteOptions(
        grace=integer(request.http.query, "gracePeriodSeconds") if grace is None else grace,
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
    )
    asked = (body.get("dryRun") or [None])[0] or request.http.query.get("dryRun")
    return options, Write(dry_run=_dry_run(asked))


def _dry_run(value: str | None) -> bool:
    if value not in {None, "", "All"}:
        raise status.bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
    return value == "All"


def integer(query: Mapping[str, str], name: str) -> int | None:
    """Return the number in a query parameter, or None if the parameter is absent. Raises `ApiError` (400)."""
    text = query.get(name)
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        number = _INT64
    if not -_INT64 <= number < _INT64:
        raise status.bad_request(f'{name}: Invalid value: "{text}": must be an integer of 64 bits')
    return number
