"""The operations of the server: paths, methods, parameters and bodies. The OpenAPI documents list them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from reference.apiserver import access
from reference.apiserver.kinds import Resource
from reference.apiserver.kinds.schemas import Schema
from reference.client import Object

Body = Literal["", "object", "patch", "DeleteOptions", "Eviction", "any"] | access.Review

STRINGS, NUMBERS, TRUTHS = "string", "integer", "boolean"
_NUMBERS = ("limit", "timeoutSeconds", "gracePeriodSeconds", "tailLines", "sinceSeconds", "limitBytes")
_TRUTHS = (
    "watch", "allowWatchBookmarks", "sendInitialEvents", "force",
    "follow", "previous", "timestamps", "stdin", "stdout", "stderr", "tty",
)  # fmt: skip
_TYPES = dict.fromkeys(_NUMBERS, NUMBERS) | dict.fromkeys(_TRUTHS, TRUTHS)

_SELECTORS = ("fieldSelector", "labelSelector")
_WATCH = (
    "watch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "resourceVersion",
    "resourceVersionMatch",
)
_LIST = (*_SELECTORS, "limit", "continue", *_WATCH)
_FORM = ("includeObject",)  # a parameter of Tables
_WRITE = ("dryRun", "fieldManager", "fieldValidation", *_FORM)
_DELETE = ("dryRun", "gracePeriodSeconds", *_FORM)
_LOG = (
    "container", "follow", "previous", "timestamps", "tailLines", "sinceSeconds", "sinceTime", "limitBytes",
)  # fmt: skip
_EXEC = ("container", "command", "stdin", "stdout", "stderr", "tty")
_POD_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")


@dataclass(frozen=True, slots=True)
class ServedKind:
    resource: Resource
    group: str
    version: str
    scales: bool = False
    schema: Schema | None = None
    """The schema of a custom resource. Schemas are equal only if they are the same Python object."""

    @property
    def gvk(self) -> Object:
        return {"group": self.group, "kind": self.resource.kind, "version": self.version}

    @property
    def prefix(self) -> str:
        return f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"


@dataclass(frozen=True, slots=True)
class Operation:
    """One HTTP method at one path. The path may contain the parameters `{namespace}`, `{name}` and `{path}`."""

    path: str
    method: str
    action: str
    query: tuple[str, ...] = ()
    body: Body = ""
    code: int = 200
    returns_object: bool = False

    of: ServedKind | None = None
    """The kind that the operation is for; None for an operation of the server itself."""

    @property
    def in_path(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


def type_of(parameter: str) -> str:
    return _TYPES.get(parameter, STRINGS)


def of_resource(of: ServedKind) -> Iterator[Operation]:
    yield from (replace(each, of=of) for each in _of_resource(of.resource, f"/{of.prefix}", scales=of.scales))


def _of_resource(resource: Resource, prefix: str, *, scales: bool) -> Iterator[Operation]:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    many = f"{prefix}{scope}/{resource.plural}"
    one = f"{many}/{{name}}"
    if resource.namespaced:
        yield Operation(f"{prefix}/{resource.plural}", "get", "listForAllNamespaces", (*_LIST, *_FORM))
    yield Operation(many, "get", "list", (*_LIST, *_FORM))
    yield Operation(many, "post", "create", _WRITE, "object", 201, returns_object=True)
    yield Operation(many, "delete", "deletecollection", (*_SELECTORS, *_DELETE), "DeleteOptions")
    yield Operation(one, "delete", "delete", _DELETE, "DeleteOptions")
    yield from _reads_and_updates(one, "")
    if resource.has_status:
        yield from _reads_and_updates(f"{one}/status", "Status")
    if scales:
        for each in _reads_and_updates(f"{one}/scale", "Scale"):
            yield replace(each, body="any" if each.body else "", returns_object=False)
    if resource.key == "pods":
        yield Operation(f"{one}/eviction", "post", "createEviction", _DELETE[:2], "Eviction", 201)
        yield Operation(f"{one}/log", "get", "readLog", _LOG)
        for method in ("get", "post"):
            yield Operation(f"{one}/exec", method, f"connect{method.title()}Exec", _EXEC)
        for path in ("/proxy", "/proxy/{path}"):
            for method in _POD_METHODS:
                yield Operation(f"{one}{path}", method, f"connect{method.title()}Proxy", body="any")


def _reads_and_updates(path: str, of: str) -> Iterator[Operation]:
    yield Operation(path, "get", f"read{of}", (*(() if of else _WATCH), *_FORM), returns_object=True)
    yield Operation(path, "put", f"replace{of}", _WRITE, "object", returns_object=True)
    yield Operation(path, "patch", f"patch{of}", (*_WRITE, "force"), "patch", returns_object=True)


def of_server(prefixes: list[str]) -> Iterator[Operation]:
    """Yield the operations that belong to no kind. `prefixes` are the paths `/apis/GROUP/VERSION` and `/api/v1`."""
    groups = {each.rpartition("/")[0] for each in prefixes if each.startswith("/apis/")}
    for path in ("/api", "/apis", *sorted(groups), *prefixes, "/version", "/openapi/v2", "/openapi/v3"):
        yield Operation(path, "get", "discover")
    for path in ("/healthz", "/livez", "/readyz", "/metrics"):
        yield Operation(path, "get", "get")
    yield Operation("/openapi/v3/api/{version}", "get", "discover")
    yield Operation("/openapi/v3/apis/{group}/{version}", "get", "discover")
    for path, (_, kind) in access.SERVED.items():
        yield Operation(path, "post", "create", (), kind, 201)
